"""Draws functions whose heads or bodies have more than names and an expression: defaults, hints, docstrings, lines."""

import dataclasses
import re
from collections.abc import Callable

from gesso.tasks.skills.changes.bodies import definition, draw_expressed, draw_free_name, draw_sentence
from gesso.tasks.skills.functions.forms import Function, draw_any_function, draw_function, draw_literal
from gesso.tasks.skills.slots import Slots

_TYPED = {
    "": r"[<>=]|\b(?:if|in|is|len|sum|str|int|split|True|startswith|endswith)\b|(?:max|min)\(\w+\)",
    "str": r"\.(?:upper|lower|strip)\(\)|\"",
    "list": r"\bsorted\b|\[[^\[\]]*:",
    "bool": r"\b(?:not|and|or)\b",
    "float": r" / |\d\.\d",
}
"""What is in the body of a function of which arguments and result are of a type; of none, first."""
_NUMERIC = r" [-+*/%]+ |return -|\b(?:abs|max|min)\("
Drawn = tuple[dict[str, str], str]
"""What the fields of a request stand for, and the definition."""
_LISTS = ("prices", "numbers", "values", "items", "scores", "nums", "xs", "data", "marks", "costs", "weights", "ages",
          "amounts", "lengths", "points", "temps", "sizes", "list1", "lst", "arr", "heights", "grades")  # fmt: skip
_OF_LISTS = (
    (("their sum", "the sum of them", "their total", "the total", "the sum of all of them", "the sum"), "sum({p})"),
    (("their sum", "the sum of {p}", "the sum of all {p}"), "sum({p})"),
    (("their average", "the average", "their mean", "the mean of {p}", "the average of {p}"), "sum({p}) / len({p})"),
    (("the largest", "the largest of them", "the biggest one", "the maximum", "the largest of {p}"), "max({p})"),
    (("the smallest", "the smallest of them", "the minimum", "the smallest of {p}"), "min({p})"),
    (("how many there are", "their number", "how many {p} there are", "the count", "the number of {p}"), "len({p})"),
    (("them sorted", "the {p} sorted", "a sorted list", "{p} in sorted order"), "sorted({p})"),
    (("the first of them", "the first one", "the first of {p}"), "{p}[0]"),
    (("the last of them", "the last one", "the last of {p}"), "{p}[-1]"),
    (("them reversed", "the {p} in reverse order", "{p} backwards"), "{p}[::-1]"),
    (("the largest minus the smallest", "the largest of {p} minus the smallest"), "max({p}) - min({p})"),
    (("twice their sum", "double the sum of {p}"), "sum({p}) * 2"),
)  # fmt: skip


def draw_one(slots: Slots) -> Drawn:
    """Draws a function of one argument that is told in words."""
    while True:
        draw = draw_any_function(slots) if slots.rng.random() < 0.4 else draw_function(slots, named=True)
        if len(draw.parameters) == 1:
            return _fields(draw), draw.source


def draw_default(slots: Slots) -> Drawn:
    """Draws a function whose last argument has a default."""
    function = draw_any_function(slots)
    *others, last = function.parameters
    value = str(slots.number(2)) if slots.rng.random() < 0.6 else draw_literal(slots)
    parameters = (*others, f"{last}={value}")
    source = definition(function.name, parameters, function.body)
    fields = _fields(function) | {"last": last, "value": value, "args": ", ".join(parameters)}
    return fields | {"head": f"{function.name}({', '.join(parameters)})"}, source


def draw_hinted(slots: Slots) -> Drawn:
    """Draws a function whose arguments and result have type hints, all of the same type, which fits the result."""
    while True:
        function = draw_any_function(slots)
        if kind := _type_of(function, slots):
            break
    hinted = tuple(f"{name}: {kind}" for name in function.parameters)
    source = definition(function.name, hinted, function.body, returned=kind)
    head = source.removeprefix("def ").split("\n")[0].removesuffix(":")
    return _fields(function) | {"type": kind, "head": head}, source


def _type_of(function: Function, slots: Slots) -> str:
    """The type of arguments and result, or nothing where these differ, as of a comparison."""
    if "string" in function.what or "followed" in function.what:
        return "str"
    for kind, code in _TYPED.items():
        if re.search(code, function.body):
            return kind
    return slots.rng.choice(("int", "int", "float")) if re.search(_NUMERIC, function.body) else ""


def draw_lines(slots: Slots) -> Drawn:
    """Draws a function of two lines, the first of which sets a local variable."""
    function = draw_expressed(slots, lambda f: bool(f.parameters))
    name, rng = draw_free_name(slots, function.source), slots.rng
    first = f"{name} = {function.body.removeprefix('return ')}"
    number = slots.number(2)
    second = rng.choice((f"return {name}", f"return {name} {rng.choice('+-*')} {number}", f"print({name})"))
    source = definition(function.name, function.parameters, first, second)
    return _fields(function) | {"first": first, "second": second}, source


def draw_plural(slots: Slots) -> Drawn:
    """Draws a function of a list."""
    rng = slots.rng
    parameter = rng.choice(_LISTS)
    words, code = rng.choice(_OF_LISTS)
    name = slots.identifier()
    while name == parameter:
        name = slots.identifier()
    what = rng.choice(words).format(p=parameter)
    function = Function(name, (parameter,), what, f"return {code.format(p=parameter)}")
    return _fields(function), function.source


def draw_identity(slots: Slots) -> Drawn:
    """Draws a function that returns its argument."""
    (parameter,) = slots.identifiers(1, 1)
    name = slots.identifier()
    while name == parameter:
        name = slots.identifier()
    function = Function(name, (parameter,), parameter, f"return {parameter}")
    return _fields(function), function.source


def draw_documented(slots: Slots) -> Drawn:
    """Draws a function with a docstring."""
    function, text = draw_any_function(slots), draw_sentence(slots)
    return _fields(function) | {"text": text}, definition(
        function.name, function.parameters, f'"""{text}"""', function.body
    )


def draw_empty(slots: Slots) -> Drawn:
    """Draws a function that does nothing."""
    function = draw_any_function(slots)
    if slots.rng.random() < 0.3:
        function = dataclasses.replace(function, parameters=())
    function = dataclasses.replace(function, body="pass")
    return _fields(function), function.source


def _fields(function: Function) -> dict[str, str]:
    args = ", ".join(function.parameters)
    return {"name": function.name, "args": args, "plain": args, "head": function.head, "what": function.what}


HEADED: dict[str, tuple[Callable[[Slots], Drawn], float]] = {
    "one": (draw_one, 0.07),
    "default": (draw_default, 0.05),
    "hinted": (draw_hinted, 0.04),
    "lines": (draw_lines, 0.05),
    "plural": (draw_plural, 0.05),
    "identity": (draw_identity, 0.03),
    "documented": (draw_documented, 0.03),
    "pass": (draw_empty, 0.015),
}
"""How each kind is drawn, and its share beside those of `gesso.tasks.skills.functions.skill`."""
