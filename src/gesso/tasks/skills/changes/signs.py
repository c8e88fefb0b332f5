"""Changes signs, comparisons, items and brackets of functions drawn for it, and what stands around a result."""

import re

from gesso.tasks.skills.changes.bodies import Drawn, draw_expressed
from gesso.tasks.skills.changes.kinds import COMPARISON, operator_request, sums
from gesso.tasks.skills.functions.forms import Function, draw_name
from gesso.tasks.skills.patterns import Phrasings
from gesso.tasks.skills.slots import Slots

_COMPARED = {
    ">": ("greater than", "more than"), ">=": ("at least", "greater than or equal to"), "<": ("less than", "below"),
    "<=": ("at most", "less than or equal to"), "==": ("equal to",), "!=": ("not equal to",),
}  # fmt: skip
_NEAR = {">": ">=", ">=": ">", "<": "<=", "<=": "<", "==": "!=", "!=": "=="}
_TURNED = {">": "<", "<": ">", ">=": "<=", "<=": ">="}
_BOUND = re.compile(r"return \w+ [<>] (\d+)")
_DIVISION, _FLOOR = re.compile(r" / "), re.compile(r" // ")
_ITEMS = {"first": "[0]", "last": "[-1]", "second": "[1]", "third": "[2]", "second last": "[-2]"}
_ITEM_WEIGHTS = (0.35, 0.35, 0.15, 0.08, 0.07)
_ITEM_BODIES = (
    "{p}{i}", "{p}{i}", "{p}{i}", "{p}{i}", "{p}.split(){i}", "sorted({p}){i}", "len({p}{i})", "{p}{i} * {n}",
    "{p}{i} + {n}", "str({p}{i})", "{p}{i}.upper()", "{p}{i} == {n}",
)  # fmt: skip
_SEQUENCES = {"tuple": "({})", "list": "[{}]", "set": "{{{}}}"}
_SEQUENCE_PAIRS = (("tuple", "list"), ("tuple", "list"), ("list", "tuple"), ("list", "tuple"), ("list", "set"),
                   ("set", "list"), ("tuple", "set"))  # fmt: skip


def other_comparison(slots: Slots, ask: Phrasings) -> Drawn:
    """Changes the sign of a comparison into one that the request names."""
    function = draw_expressed(slots, lambda f: len(COMPARISON.findall(f.source)) == 1)
    found = COMPARISON.search(function.source)
    assert found is not None
    old, rng = found[1], slots.rng
    others = [sign for sign in _COMPARED if sign != old]
    new = rng.choices((_NEAR[old], _TURNED.get(old, _NEAR[old]), rng.choice(others)), (0.4, 0.35, 0.25))[0]
    named = [rng.choice(_COMPARED[sign]) for sign in (old, new)] if rng.random() < 0.45 else [old, new]
    return (
        slots.choice(ask, old=named[0], new=named[1]),
        function.source,
        function.source.replace(f" {old} ", f" {new} "),
    )


def inclusive(slots: Slots, ask: Phrasings) -> Drawn:
    """Lets a bound belong to what is allowed."""
    function = draw_expressed(slots, lambda f: _BOUND.fullmatch(f.body) is not None)
    found = _BOUND.fullmatch(function.body)
    assert found is not None
    answer = re.sub(r" ([<>]) ", r" \1= ", function.source)
    return slots.choice(ask, n=found[1]), function.source, answer


def floored(slots: Slots, ask: Phrasings) -> Drawn:
    """Makes a division one that rounds down."""
    function = _divided(slots)
    return slots.choice(ask), function.source, _DIVISION.sub(" // ", function.source)


def unfloored(slots: Slots, ask: Phrasings) -> Drawn:
    """Makes a division one that does not round."""
    function = _divided(slots)
    return slots.choice(ask), _DIVISION.sub(" // ", function.source), function.source


def other_chain(slots: Slots, ask: Phrasings) -> Drawn:
    """Changes the sign between three and more into another, everywhere."""
    rng = slots.rng
    parameters = slots.identifiers(rng.choice((2, 3, 3, 3, 4)), 1)
    terms = list(parameters)
    if len(terms) == 2 or rng.random() < 0.15:
        terms.append(str(slots.number(2) + 2))
    old, new = rng.sample("+-*/", 2)
    name = draw_name(slots, parameters)
    before, after = (
        Function(name, tuple(parameters), "", f"return {f' {sign} '.join(terms)}").source for sign in (old, new)
    )
    return operator_request(slots, ask, old, new), before, after


def other_item(slots: Slots, ask: Phrasings) -> Drawn:
    """Takes another item of a list."""
    rng = slots.rng
    old = new = "first"
    while new == old:
        old, new = rng.choices(tuple(_ITEMS), _ITEM_WEIGHTS, k=2)
    (parameter,) = slots.identifiers(1, 1)
    name, code, number = slots.identifier(2), rng.choice(_ITEM_BODIES), slots.number(2)
    before, after = (
        Function(name, (parameter,), "", f"return {code.format(p=parameter, i=_ITEMS[which], n=number)}").source
        for which in (old, new)
    )
    return slots.choice(ask, old=old, new=new), before, after


def other_sequence(slots: Slots, ask: Phrasings) -> Drawn:
    """Returns a list for a tuple, and the like."""
    rng = slots.rng
    parameters = slots.identifiers(rng.choice((2, 2, 3)), 1)
    old, new = rng.choice(_SEQUENCE_PAIRS)
    terms = list(parameters)
    if rng.random() < 0.3:
        place = rng.randrange(len(terms))
        terms[place] = f"{terms[place]} {rng.choice('+-*')} {slots.number(2)}"
    name = slots.identifier(2)
    before, after = (
        Function(name, tuple(parameters), "", f"return {_SEQUENCES[kind].format(', '.join(terms))}").source
        for kind in (old, new)
    )
    return slots.choice(ask, old=old, new=new), before, after


def rounded(slots: Slots, ask: Phrasings) -> Drawn:
    """Rounds the result."""
    function, places = draw_expressed(slots, sums), slots.rng.choice((1, 2, 2, 3, 4))
    code = function.body.removeprefix("return ")
    answer = function.source.replace(f"return {code}", f"return round({code}, {places})")
    text = slots.choice(ask, n=places)
    # Of one place the request says "place", not "places".
    text = re.sub(r"\b(1 (?:decimal )?(?:digit|place|decimal))s\b", r"\1", text)
    return text.replace("1 decimal place are", "1 decimal place is"), function.source, answer


def wrapped(slots: Slots, ask: Phrasings) -> Drawn:
    """Calls a function with the result."""
    function, call = draw_expressed(slots, sums), slots.rng.choice(("abs", "int", "str", "float", "round", "bool"))
    code = function.body.removeprefix("return ")
    answer = function.source.replace(f"return {code}", f"return {call}({code})")
    return slots.choice(ask, call=call), function.source, answer


def _divided(slots: Slots) -> Function:
    return draw_expressed(slots, lambda f: len(_DIVISION.findall(f.source)) == 1 and not _FLOOR.search(f.source))
