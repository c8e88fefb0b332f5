"""Draws the small functions that changes of one sort are asked of: with docstrings, defaults, hints, local names."""

import re
from collections.abc import Callable

from gesso.tasks.skills.functions.forms import Function, draw_any_function, draw_coded_function, draw_function
from gesso.tasks.skills.lexicon import RESERVED
from gesso.tasks.skills.slots import Slots

Drawn = tuple[str, str, str]
"""An instruction, a function, and the function as it is to be."""
TYPES = ("int", "int", "float", "str", "list", "bool", "dict")
_SENTENCES = (
    "Returns the {}.", "Return {} and {}.", "The {} of the {}.", "Compute the {}", "{} for {}.", "{} {}.",
    "Checks the {}.", "Helper for {}.", "Return the {} of a {}.", "{} of x.",
)  # fmt: skip
_LOCAL_NAMES = ("tmp", "result", "res", "val", "x1", "out", "temp", "total", "data", "value", "r", "t", "ret", "answer")


def draw_expressed(slots: Slots, fits: Callable[[Function], bool] = bool) -> Function:
    """Draws a function of one returned expression that fits."""
    while True:
        draw = slots.rng.random()
        if draw < 0.3:
            function = draw_function(slots, named=slots.rng.random() < 0.7)
        else:
            function = draw_coded_function(slots) if draw < 0.75 else draw_any_function(slots)
        if function.body.startswith("return ") and "\n" not in function.body and fits(function):
            return function


def definition(name: str, parameters: tuple[str, ...], *lines: str, returned: str = "") -> str:
    """Returns the source of a function."""
    body = "".join(f"\n    {line}" for line in lines)
    return f"def {name}({', '.join(parameters)}){f' -> {returned}' if returned else ''}:{body}"


def draw_sentence(slots: Slots) -> str:
    """Draws what a docstring or a comment says."""
    text = slots.rng.choice(_SENTENCES).format(*slots.words(2))
    return text[0].upper() + text[1:]


def draw_free_name(slots: Slots, source: str) -> str:
    """Draws a name that the source does not have, as local variables have."""
    taken = {*RESERVED, *re.findall(r"\w+", source)}
    while True:
        name = slots.rng.choice(_LOCAL_NAMES) if slots.rng.random() < 0.35 else slots.identifier(1)
        if name not in taken:
            return name


def draw_lines_with_local(slots: Slots, function: Function, name: str) -> list[str]:
    """Draws a body of several lines with a local variable; the first has the function's expression most often."""
    rng, code = slots.rng, function.body.removeprefix("return ")
    parameter = function.parameters[0]
    kind = rng.choices(("plain", "more", "printed", "loop", "counted"), (0.5, 0.2, 0.1, 0.12, 0.08))[0]
    if kind == "loop":
        item = draw_free_name(slots, f"{function.source} {name}")
        return [f"{name} = 0", f"for {item} in {parameter}:", f"    {name} += {item}", f"return {name}"]
    if kind == "counted":
        return [f"{name} = len({parameter})", f"return {name} {rng.choice('+-*/')} {slots.number(2)}"]
    last = {"plain": f"return {name}", "printed": f"print({name})"}
    more = f"return {name} {rng.choice('+-*')} {slots.number(2)}"
    return [f"{name} = {code}", last.get(kind, more)]
