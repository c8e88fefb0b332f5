"""Changes numbers, limits and calls of functions that the request tells in words: "divide by 10", "the smallest"."""

from gesso.tasks.skills.changes.bodies import Drawn
from gesso.tasks.skills.functions.forms import Function, draw_name
from gesso.tasks.skills.functions.heads import LISTS
from gesso.tasks.skills.patterns import Phrasings
from gesso.tasks.skills.slots import Slots

_TOLD = {
    "+": ("{p} plus {n}", "add {n}", "adds {n}"),
    "-": ("{p} minus {n}", "subtract {n}", "subtracts {n}"),
    "*": ("{p} times {n}", "multiply by {n}", "multiplies by {n}"),
    "/": ("{p} divided by {n}", "divide by {n}", "divides by {n}"),
}
"""The result in words, and what the function is to do and does."""
_LIMITS = ("{p} > {n}", "{p} >= {n}", "{p} < {n}", "{p} <= {n}", '"{v}" if {p} > {n} else "{w}"',
           '"{v}" if {p} >= {n} else "{w}"', '"{v}" if {p} < {n} else "{w}"', "max({p}, {n})", "min({p}, {n})",
           "len({p}) > {n}", "len({p}) <= {n}")  # fmt: skip
_CALLS = {
    "max": ("largest", "biggest", "maximum", "highest", "greatest"),
    "min": ("smallest", "minimum", "lowest", "least"),
    "sum": ("sum", "total"),
    "len": ("number of items", "count", "length"),
}
_CALL_PAIRS = (("max", "min"), ("max", "min"), ("min", "max"), ("min", "max"), ("sum", "len"), ("len", "sum"),
               ("sum", "max"), ("max", "sum"), ("len", "max"), ("sum", "min"))  # fmt: skip
_CASES = {
    "upper": ("upper case", "uppercase", "capitals", "capital letters"),
    "lower": ("lower case", "lowercase", "small letters"),
    "title": ("title case",),
}
_CASE_PAIRS = (("upper", "lower"), ("upper", "lower"), ("lower", "upper"), ("lower", "upper"), ("upper", "title"),
               ("lower", "title"), ("title", "upper"))  # fmt: skip
_CASE_CODE = ("{p}.{c}()", "{p}.{c}()", "{p}.strip().{c}()", "{p}[0].{c}()", '{p}.{c}() + "{w}"', "{p}.{c}().split()")


def told_number(slots: Slots, ask: Phrasings) -> Drawn:
    """Changes the number of an operation that the request tells in words."""
    sign = slots.rng.choice(tuple(_TOLD))
    name, parameter = _names(slots)
    old, new = (number + 2 for number in slots.numbers(2, slots.rng.choice((1, 2, 2, 3))))
    before, after = (Function(name, (parameter,), "", f"return {parameter} {sign} {n}").source for n in (old, new))
    fields: dict[str, str] = {}
    for which, number in (("old", old), ("new", new)):
        what, do, does = (text.format(p=parameter, n=number) for text in _TOLD[sign])
        fields |= {f"{which}_what": what, f"{which}_do": do, f"{which}_does": does}
    return slots.choice(ask, old=old, new=new, **fields), before, after


def limit(slots: Slots, ask: Phrasings) -> Drawn:
    """Changes the number that an argument is compared with."""
    name, parameter = _names(slots)
    first, second = slots.words(2)
    old, new = (number + 1 for number in slots.numbers(2, slots.rng.choice((2, 2, 3))))
    code = slots.rng.choice(_LIMITS)
    before, after = (
        Function(name, (parameter,), "", f"return {code.format(p=parameter, n=n, v=first, w=second)}").source
        for n in (old, new)
    )
    return slots.choice(ask, old=old, new=new), before, after


def told_call(slots: Slots, ask: Phrasings) -> Drawn:
    """Calls another function with a list or two arguments, which the request does not call by its name."""
    rng = slots.rng
    old, new = rng.choice(_CALL_PAIRS)
    if {old, new} == {"max", "min"} and rng.random() < 0.4:
        parameters = slots.identifiers(2, 1)
    else:
        parameters = [rng.choice(LISTS)] if rng.random() < 0.6 else slots.identifiers(1, 1)
    name = draw_name(slots, parameters)
    before, after = (
        Function(name, tuple(parameters), "", f"return {call}({', '.join(parameters)})").source for call in (old, new)
    )
    return slots.choice(ask, old=rng.choice(_CALLS[old]), new=rng.choice(_CALLS[new])), before, after


def told_case(slots: Slots, ask: Phrasings) -> Drawn:
    """Changes the case of a text."""
    rng = slots.rng
    old, new = rng.choice(_CASE_PAIRS)
    name, parameter = _names(slots)
    code, word = rng.choice(_CASE_CODE), slots.word()
    before, after = (
        Function(name, (parameter,), "", f"return {code.format(p=parameter, c=call, w=word)}").source
        for call in (old, new)
    )
    return slots.choice(ask, old=rng.choice(_CASES[old]), new=rng.choice(_CASES[new])), before, after


def _names(slots: Slots) -> tuple[str, str]:
    """A name and an argument that differ."""
    (parameter,) = slots.identifiers(1, 1)
    name = draw_name(slots, (parameter,))
    return name, parameter
