"""Changes arguments that are told by their place or used several times, both names at once, and operands."""

import re

from gesso.tasks.skills.changes.bodies import Drawn, definition, draw_expressed, draw_free_name
from gesso.tasks.skills.changes.names import with_name
from gesso.tasks.skills.functions.forms import Function, draw_literal
from gesso.tasks.skills.functions.heads import LISTS
from gesso.tasks.skills.patterns import Phrasings
from gesso.tasks.skills.slots import Slots

_ORDINALS = ("first", "second", "third", "fourth")
_REPEATED = (
    "{p} + {p}", "{p} * {p}", "{p} * {p} + {p}", "{p} + {p} * {n}", "{p} * {p} * {p}", "{p} * {p} - {n}",
    "{p} / {n} + {p}", "{p} * {n} - {p}", "sum({p}) / len({p})", "max({p}) - min({p})", "{p}[0] + {p}[-1]",
    "{p} == {p}[::-1]", "len({p}) + {p}[0]", "{p} + {p} + {n}", "{p} if {p} > {n} else {n}", "({p} + {n}) * {p}",
    "{p} * {p} + {n} * {p}", "{p}.upper() + {p}.lower()", "{p} > {n} and {p} < {m}", "abs({p}) + {p}",
    "{p} - {n} / {p}",
)  # fmt: skip
_LIST_CODE = ("len({p})", "sum({p})", "max({p})", "min({p})", "sorted({p})", "{p}[0]", "{p}[-1]", "{p}[::-1]",
              "sum({p}) / len({p})", "{p}[1:]", "len({p}) > {n}", "{p}[{n}]")  # fmt: skip
_USES = {
    "+": ("add it to the sum", "add it to the result", "include it in the sum", "add it too", "add it as well"),
    "*": ("multiply by it", "multiply the result by it", "include it in the product", "multiply by it as well"),
    "-": ("subtract it too", "subtract it as well", "subtract it from the result", "take it off the result"),
    "max": ("include it in the maximum", "compare it too", "consider it for the maximum", "include it in max"),
    "min": ("include it in the minimum", "compare it too", "consider it for the minimum", "include it in min"),
}
_OPERANDS = ("{p} - {q}", "{p} / {q}", "{p} // {q}", "{p} % {q}", "{p} ** {q}", "{p} > {q}", "{p} < {q}", "{p} in {q}",
             '{p} + " " + {q}', "{p} + {q}", "{p} >= {q}")  # fmt: skip


def nth_argument(slots: Slots, ask: Phrasings) -> Drawn:
    """Renames one of several arguments, of which the request tells the place."""
    function = draw_expressed(slots, lambda f: len(f.parameters) > 1)
    count = len(function.parameters)
    index = slots.rng.randrange(count)
    nth = "last" if index == count - 1 and slots.rng.random() < 0.35 else _ORDINALS[index]
    new = draw_free_name(slots, function.source)
    head, tail = function.source.split("(", 1)
    return (
        slots.choice(ask, nth=nth, new=new, old=function.parameters[index]),
        function.source,
        f"{head}({with_name(tail, function.parameters[index], new)}",
    )


def repeated_argument(slots: Slots, ask: Phrasings) -> Drawn:
    """Renames an argument that the body has several times; the function's name, which may hold it, stays."""
    rng = slots.rng
    (old,) = slots.identifiers(1, 1)
    small, large = sorted(slots.numbers(2, 2))
    code = rng.choice(_REPEATED).format(p=old, n=small + 1, m=large + 1)
    new = draw_free_name(slots, f"{old} {code}")
    name = _other_name(slots, {old, new})
    if rng.random() < 0.15 and len(old) > 1:
        name = rng.choice(
            (f"{old}{rng.randint(1, 9)}", f"of_{old}", f"{old}_{slots.stem()}", f"{new}{rng.randint(1, 9)}")
        )
    function = Function(name, (old,), "", f"return {code}")
    head, tail = function.source.split("(", 1)
    return slots.choice(ask, old=old, new=new), function.source, f"{head}({with_name(tail, old, new)}"


def used_argument(slots: Slots, ask: Phrasings) -> Drawn:
    """Adds an argument and puts it at the end of the expression."""
    rng = slots.rng
    sign = rng.choices(tuple(_USES), (0.4, 0.2, 0.14, 0.13, 0.13))[0]
    parameters = slots.identifiers(rng.choices((2, 3), (0.8, 0.2))[0], 1)
    new = draw_free_name(slots, " ".join(parameters))
    name = _other_name(slots, {*parameters, new})

    def source(names: list[str]) -> str:
        joined = f"{sign}({', '.join(names)})" if sign.isalpha() else f" {sign} ".join(names)
        return Function(name, tuple(names), "", f"return {joined}").source

    text = slots.choice(ask, nth=_ORDINALS[len(parameters)], new=new, use=rng.choice(_USES[sign]))
    return text, source(parameters), source([*parameters, new])


def defaulted_argument(slots: Slots, ask: Phrasings) -> Drawn:
    """Adds an argument with a default at the end of the head."""
    function = draw_expressed(slots)
    new = draw_free_name(slots, function.source)
    value = str(slots.number(2)) if slots.rng.random() < 0.5 else draw_literal(slots)
    after = definition(function.name, (*function.parameters, f"{new}={value}"), function.body)
    return slots.choice(ask, new=new, value=value), function.source, after


def both_names(slots: Slots, ask: Phrasings) -> Drawn:
    """Renames the function and its argument."""
    rng = slots.rng
    if listed := rng.random() < 0.35:
        (old,) = (rng.choice((*LISTS, "l", "x", "a", "xs")),)
        name = _other_name(slots, {old})
        code = rng.choice(_LIST_CODE).format(p=old, n=rng.randint(1, 9))
        function = Function(name, (old,), "", f"return {code}")
    else:
        function = draw_expressed(slots, lambda f: len(f.parameters) == 1)
    (old,) = function.parameters
    new = draw_free_name(slots, function.source)
    called = _other_name(slots, {function.name, old, new})
    noun = rng.choice(("list", "argument", "list")) if listed else rng.choice(("argument", "parameter", "input"))
    tail = function.source.split("(", 1)[1]
    text = slots.choice(ask, oldname=function.name, name=called, old=old, new=new, noun=noun)
    return text, function.source, f"def {called}({with_name(tail, old, new)}"


def new_head(slots: Slots, ask: Phrasings) -> Drawn:
    """Gives a function the name and arguments of a head that the request shows."""
    function = draw_expressed(slots, lambda f: bool(f.parameters))
    name = _other_name(slots, {function.name, *function.parameters})
    taken = f"{function.source} {name}"
    answer = function.source.split("(", 1)[1]
    new: list[str] = []
    for old in function.parameters:
        new.append(draw_free_name(slots, f"{taken} {' '.join(new)}"))
        answer = with_name(answer, old, new[-1])
    return (
        slots.choice(ask, head=f"{name}({', '.join(new)})", old=function.head),
        function.source,
        f"def {name}({answer}",
    )


def operands(slots: Slots, ask: Phrasings) -> Drawn:
    """Lets the two sides of an operator change places."""
    p, q = slots.identifiers(2, 1)
    name, code = _other_name(slots, {p, q}), slots.rng.choice(_OPERANDS)
    old, new = code.format(p=p, q=q), code.format(p=q, q=p)
    before, after = (Function(name, (p, q), "", f"return {text}").source for text in (old, new))
    return slots.choice(ask, old=old, new=new, p=p, q=q), before, after


def _other_name(slots: Slots, taken: set[str]) -> str:
    name = slots.identifier()
    while name in taken or any(re.search(rf"\b{re.escape(name)}\b", text) for text in taken):
        name = slots.identifier()
    return name
