"""Makes changes of functions that are drawn for them, each with its instruction: of docstrings, defaults, local names,
hints, comments, and of one sign or item."""

from collections.abc import Callable
from dataclasses import dataclass

from gesso.tasks.skills.changes import names, places, rewritings, signs, told
from gesso.tasks.skills.changes.bodies import (
    TYPES,
    Drawn,
    definition,
    draw_expressed,
    draw_free_name,
    draw_lines_with_local,
    draw_sentence,
)
from gesso.tasks.skills.functions.forms import draw_literal
from gesso.tasks.skills.patterns import Phrasings, read_phrasings
from gesso.tasks.skills.slots import Slots


@dataclass(frozen=True, slots=True)
class FormChange:
    """Holds how a change is asked for, and how it is drawn with its function."""

    phrasings: Phrasings
    draw: Callable[[Slots, Phrasings], Drawn]
    weight: float


def draw_form_change(slots: Slots) -> tuple[str, Drawn]:
    """Draws a kind of change, with its instruction, its function and the answer."""
    kind = slots.rng.choices(tuple(FORM_KINDS), [change.weight for change in FORM_KINDS.values()])[0]
    return kind, FORM_KINDS[kind].draw(slots, FORM_KINDS[kind].phrasings)


def _undocumented(slots: Slots, ask: Phrasings) -> Drawn:
    function = draw_expressed(slots)
    documented = definition(function.name, function.parameters, f'"""{draw_sentence(slots)}"""', function.body)
    return slots.choice(ask), documented, function.source


def _redocumented(slots: Slots, ask: Phrasings) -> Drawn:
    function, old, new = draw_expressed(slots), draw_sentence(slots), draw_sentence(slots)
    before, after = (
        definition(function.name, function.parameters, f'"""{text}"""', function.body) for text in (old, new)
    )
    return slots.choice(ask, old=old, text=new), before, after


def _other_local(slots: Slots, ask: Phrasings) -> Drawn:
    function = draw_expressed(slots, lambda f: bool(f.parameters))
    old = draw_free_name(slots, function.source)
    lines = draw_lines_with_local(slots, function, old)
    new = draw_free_name(slots, " ".join([function.source, *lines]))
    renamed = [names.with_name(line, old, new) for line in lines]
    before, after = (definition(function.name, function.parameters, *body) for body in (lines, renamed))
    return slots.choice(ask, old=old, new=new), before, after


def _inlined(slots: Slots, ask: Phrasings) -> Drawn:
    function = draw_expressed(slots)
    name = draw_free_name(slots, function.source)
    code = function.body.removeprefix("return ")
    longer = definition(function.name, function.parameters, f"{name} = {code}", f"return {name}")
    return slots.choice(ask, old=name), longer, function.source


def _extracted(slots: Slots, ask: Phrasings) -> Drawn:
    function = draw_expressed(slots)
    name = draw_free_name(slots, function.source)
    code = function.body.removeprefix("return ")
    longer = definition(function.name, function.parameters, f"{name} = {code}", f"return {name}")
    return slots.choice(ask, new=name), function.source, longer


def _other_default(slots: Slots, ask: Phrasings) -> Drawn:
    function = draw_expressed(slots, lambda f: bool(f.parameters))
    *others, last = function.parameters
    old, new = _literals(slots)
    before, after = (definition(function.name, (*others, f"{last}={value}"), function.body) for value in (old, new))
    return slots.choice(ask, param=last, old=old, new=new), before, after


def _without_default(slots: Slots, ask: Phrasings) -> Drawn:
    function = draw_expressed(slots, lambda f: bool(f.parameters))
    *others, last = function.parameters
    value = draw_literal(slots)
    before = definition(function.name, (*others, f"{last}={value}"), function.body)
    return slots.choice(ask, param=last, old=value), before, function.source


def _unhinted(slots: Slots, ask: Phrasings) -> Drawn:
    function = draw_expressed(slots)
    types = [slots.rng.choice(TYPES) for _ in (*function.parameters, "")]
    hinted = tuple(f"{name}: {kind}" for name, kind in zip(function.parameters, types, strict=False))
    returned = types[-1] if slots.rng.random() < 0.8 or not hinted else ""
    return slots.choice(ask), definition(function.name, hinted, function.body, returned=returned), function.source


def _other_hint(slots: Slots, ask: Phrasings) -> Drawn:
    function = draw_expressed(slots, lambda f: bool(f.parameters))
    old, new = slots.rng.sample(sorted(set(TYPES)), 2)
    before, after = (
        definition(
            function.name, tuple(f"{name}: {kind}" for name in function.parameters), function.body, returned=kind
        )
        for kind in (old, new)
    )
    return slots.choice(ask, old=old, new=new), before, after


def _returned_hint(slots: Slots, ask: Phrasings) -> Drawn:
    function, kind = draw_expressed(slots), slots.rng.choice(TYPES)
    after = definition(function.name, function.parameters, function.body, returned=kind)
    return slots.choice(ask, type=kind), function.source, after


def _uncommented(slots: Slots, ask: Phrasings) -> Drawn:
    function, text = draw_expressed(slots), f"# {_comment(slots)}"
    return slots.choice(ask), definition(function.name, function.parameters, text, function.body), function.source


def _commented(slots: Slots, ask: Phrasings) -> Drawn:
    function, text = draw_expressed(slots), _comment(slots)
    after = definition(function.name, function.parameters, f"# {text}", function.body)
    return slots.choice(ask, text=text), function.source, after


def _as_lambda(slots: Slots, ask: Phrasings) -> Drawn:
    function = draw_expressed(slots)
    head = f"lambda {', '.join(function.parameters)}".rstrip()
    return slots.choice(ask), function.source, f"{function.name} = {head}: {function.body.removeprefix('return ')}"


def _comment(slots: Slots) -> str:
    text = draw_sentence(slots).rstrip(".")
    return text if slots.rng.random() < 0.3 else text[0].lower() + text[1:]


def _literals(slots: Slots) -> tuple[str, str]:
    """Two that differ, of numbers most often."""
    if slots.rng.random() < 0.6:
        old, new = slots.numbers(2, slots.rng.choice((1, 2, 3)))
        return str(old), str(new)
    old_text = new_text = draw_literal(slots)
    while new_text == old_text:
        new_text = draw_literal(slots)
    return old_text, new_text


def _form(name: str, draw: Callable[[Slots, Phrasings], Drawn], weight: float) -> FormChange:
    return FormChange(read_phrasings("changes", name), draw, weight)


FORM_KINDS: dict[str, FormChange] = {
    "comparison": _form("comparison", signs.other_comparison, 1.8),
    "inclusive": _form("inclusive", signs.inclusive, 0.5),
    "floor": _form("floor", signs.floored, 0.9),
    "unfloor": _form("unfloor", signs.unfloored, 0.4),
    "chain": _form("chain", signs.other_chain, 1.0),
    "item": _form("item", signs.other_item, 1.0),
    "sequence": _form("sequence", signs.other_sequence, 0.8),
    "round": _form("round", signs.rounded, 0.6),
    "wrap": _form("wrap", signs.wrapped, 0.5),
    "private": _form("private", names.private, 0.8),
    "public": _form("public", names.public, 0.3),
    "naming": _form("naming", names.other_style, 0.9),
    "two": _form("both at once", names.two_changes, 1.3),
    "local": _form("local", _other_local, 1.2),
    "inline": _form("inline", _inlined, 0.5),
    "extract": _form("extract", _extracted, 0.4),
    "undocument": _form("undocument", _undocumented, 1.0),
    "redocument": _form("redocument", _redocumented, 0.6),
    "default value": _form("default value", _other_default, 1.0),
    "drop default": _form("drop default", _without_default, 0.4),
    "unhint": _form("unhint", _unhinted, 0.6),
    "other hint": _form("other hint", _other_hint, 0.4),
    "return hint": _form("return hint", _returned_hint, 0.6),
    "uncomment": _form("uncomment", _uncommented, 0.7),
    "comment": _form("comment", _commented, 0.7),
    "lambda": _form("lambda", _as_lambda, 0.8),
    "nth argument": _form("nth argument", places.nth_argument, 1.4),
    "repeated argument": _form("argument", places.repeated_argument, 1.4),
    "used argument": _form("used argument", places.used_argument, 0.9),
    "defaulted argument": _form("defaulted argument", places.defaulted_argument, 0.7),
    "both names": _form("both names", places.both_names, 1.2),
    "new head": _form("new head", places.new_head, 0.5),
    "operands": _form("operands", places.operands, 0.8),
    "told number": _form("told number", told.told_number, 1.4),
    "limit": _form("limit", told.limit, 0.8),
    "told call": _form("told call", told.told_call, 1.4),
    "told case": _form("told case", told.told_case, 0.7),
    "from lambda": _form("from lambda", rewritings.from_lambda, 0.8),
    "return": _form("return", rewritings.returned, 1.4),
    "f-string": _form("f-string", rewritings.f_string, 0.9),
    "quotes": _form("quotes", rewritings.quotes, 0.6),
    "spaces": _form("spaces", rewritings.spaced, 0.6),
    "two lines": _form("two lines", rewritings.two_lines, 0.4),
    "one line": _form("one line", rewritings.one_line, 0.3),
    "each hint": _form("each hint", rewritings.each_hint, 1.0),
    "check": _form("check", rewritings.checked, 0.7),
    "another line": _form("another line", rewritings.another_line, 0.5),
    "print first": _form("print first", rewritings.printed_first, 0.4),
    "unprint": _form("unprint", rewritings.unprinted, 0.5),
    "empty": _form("empty", rewritings.emptied, 0.3),
}
"""The changes by kind, and how often each is asked for."""
