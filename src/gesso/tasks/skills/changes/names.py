"""Changes names of functions drawn for it: underscores, ways of writing, and a name along with something else."""

import re

from gesso.tasks.code import lone_numbers
from gesso.tasks.skills.changes.bodies import Drawn, draw_expressed, draw_free_name
from gesso.tasks.skills.changes.kinds import SIGN, operator_request
from gesso.tasks.skills.functions.forms import Function
from gesso.tasks.skills.patterns import Phrasings, read_phrasings, with_small_letter
from gesso.tasks.skills.slots import Slots

_STYLES = ("snake_case", "camelCase", "PascalCase")
_NAME, _NUMBER = read_phrasings("changes", "short name"), read_phrasings("changes", "short number")
_ARGUMENT, _OPERATOR = read_phrasings("changes", "short argument"), read_phrasings("changes", "short operator")
_CALL = read_phrasings("changes", "short call")
SHORT = {
    "short name": _NAME, "short number": _NUMBER, "short argument": _ARGUMENT, "short operator": _OPERATOR,
    "short call": _CALL,
}  # fmt: skip
"""Requests for one of two changes."""
_CALLED = re.compile(r"\b(upper|lower|max|min)\(")
_OTHER_CALL = {"upper": "lower", "lower": "upper", "max": "min", "min": "max"}
_IN_WORDS = {
    "upper": ("upper case", "uppercase", "capitals"), "lower": ("lower case", "lowercase", "small letters"),
    "max": ("the maximum", "the largest", "the biggest"), "min": ("the minimum", "the smallest"),
}  # fmt: skip


def with_name(code: str, old: str, new: str) -> str:
    """Returns the code with another name for one; texts in quotes and attributes stay."""
    return re.sub(rf'(?<!["\w.]){re.escape(old)}(?!["\w])', new, code)


def private(slots: Slots, ask: Phrasings) -> Drawn:
    """Puts an underscore before the function's name."""
    function = draw_expressed(slots)
    return slots.choice(ask), function.source, function.source.replace("def ", "def _", 1)


def public(slots: Slots, ask: Phrasings) -> Drawn:
    """Takes the underscore before the function's name away."""
    function = draw_expressed(slots)
    return slots.choice(ask), function.source.replace("def ", "def _", 1), function.source


def other_style(slots: Slots, ask: Phrasings) -> Drawn:
    """Writes the function's name in another way, as `getUserName` and `get_user_name`."""
    rng = slots.rng
    function = draw_expressed(slots)
    parts: list[str] = []
    while len(parts) < rng.choice((2, 2, 3)):
        parts.append(slots.stem())
    old, new = rng.choice(((1, 0), (1, 0), (0, 1), (0, 1), (2, 0), (0, 2), (1, 2), (2, 1)))
    names = ["_".join(parts), "".join([parts[0], *(part.capitalize() for part in parts[1:])])]
    names.append("".join(part.capitalize() for part in parts))
    before, after = (Function(names[style], function.parameters, "", function.body).source for style in (old, new))
    return slots.choice(ask, style=_STYLES[new], old=names[old]), before, after


def two_changes(slots: Slots, ask: Phrasings) -> Drawn:
    """Changes the function's name and something else, in either order."""
    rng = slots.rng
    function = draw_expressed(slots, lambda f: bool({"number", "call"} & {*_second(f)}) or rng.random() < 0.5)
    kind = rng.choice(_second(function))
    if kind == "number":
        old = rng.choice(lone_numbers(function.source))
        new = old
        while new == old:
            new = str(slots.number(3) + 2)
        other, answer = slots.choice(_NUMBER, old=old, new=new), _with_number(function.source, old, new)
    elif kind == "operator":
        found = SIGN.search(function.source)
        assert found is not None
        sign = rng.choice([sign for sign in "+-*/" if sign != found[1]])
        other = operator_request(slots, _OPERATOR, found[1], sign)
        answer = function.source.replace(f" {found[1]} ", f" {sign} ")
    elif kind == "call":
        found = _CALLED.search(function.source)
        assert found is not None
        sides = (found[1], _OTHER_CALL[found[1]])
        old, new = (rng.choice(_IN_WORDS[call]) for call in sides) if rng.random() < 0.6 else sides
        other, answer = slots.choice(_CALL, old=old, new=new), function.source.replace(f"{sides[0]}(", f"{sides[1]}(")
    else:
        old, new = rng.choice(function.parameters), draw_free_name(slots, function.source)
        other = slots.choice(_ARGUMENT, old=old, new=new)
        head, tail = function.source.split("(", 1)
        answer = f"{head}({with_name(tail, old, new)}"
    name = slots.identifier()
    while re.search(rf"\b{name}\b", f"{function.source} {answer}"):
        name = slots.identifier()
    asked = [slots.choice(_NAME, old=function.name, new=name), other]
    if rng.random() < 0.35:
        asked.reverse()
    text = slots.choice(ask, first=with_small_letter(asked[0]), second=with_small_letter(asked[1]))
    if rng.random() < 0.7 and text.split()[0] not in re.findall(r"\w+", f"{function.source} {answer}"):
        text = text[0].upper() + text[1:]
    return text, function.source, answer.replace(f"def {function.name}(", f"def {name}(", 1)


def _second(function: Function) -> list[str]:
    """What can be changed beside the name."""
    kinds = ["argument"] if function.parameters else []
    kinds += ["number", "number"] if lone_numbers(function.source) else []
    kinds += ["call"] * 3 if len(_CALLED.findall(function.body)) == 1 else []
    return kinds + (["operator"] if len(SIGN.findall(function.source)) == 1 and '"' not in function.source else [])


def _with_number(source: str, old: str, new: str) -> str:
    return re.sub(rf"(?<![\w.]){re.escape(old)}(?![\w.])", new, source)
