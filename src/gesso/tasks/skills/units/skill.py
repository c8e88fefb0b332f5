"""Asks to convert a quantity into another unit of the same kind."""

import re
from fractions import Fraction
from typing import ClassVar

from gesso.tasks.base import Example
from gesso.tasks.skills.numerals import spell
from gesso.tasks.skills.patterns import Phrasings, read_phrasings
from gesso.tasks.skills.skill import Skill, is_label
from gesso.tasks.skills.slots import Slots
from gesso.tasks.skills.units.kinds import COUNTED, FACTS, KINDS, Kind, Unit, spellings
from gesso.tasks.skills.units.parts import part_in_words, single
from gesso.tasks.skills.units.several import SEVERAL, compared, each_converted
from gesso.tasks.skills.units.values import counted, draw_value, ends, write_number

_FARTHEST = 10**6
_FAR, _CLOSE = 3600, 1024
"""Units of time that are farther apart come more rarely."""
_ASK = read_phrasings("units", "ask")
_WISH = read_phrasings("units", "wish")
_DECIMAL = read_phrasings("units", "decimal")
_BARE = read_phrasings("units", "number")
_SPLIT = read_phrasings("units", "split")
_ONE = read_phrasings("units", "one")
_PLAIN = Phrasings(_ASK.seen[:20], _ASK.unseen)
"""What most people say."""
_SEVERAL_SHARE, _COMPARED_SHARE, _ONE_SHARE, _PLAIN_SHARE = 0.05, 0.045, 0.04, 0.1
_SPLIT_SHARE, _BARE_SHARE, _STORY_SHARE = 0.05, 0.04, 0.14
_ZERO_SHARE, _COMMA_SHARE = 0.015, 0.12
_SMALL_SHARE, _CAPITALS_SHARE = 0.12, 0.03


def _joint(patterns: tuple[str, ...]) -> tuple[str, ...]:
    """Patterns in which the number and its unit stand together, with one place for both."""
    found = (pattern.replace("{value} {old}", "{told}").replace("{short}", "{told}") for pattern in patterns)
    return tuple(pattern for pattern in found if "{value}" not in pattern and "{old}" not in pattern)


_JOINT = Phrasings(_joint(_ASK.seen), _joint(_ASK.unseen))


class Units(Skill):
    """Asks such as `How many m are 35 km?` -> `35000 m`."""

    name = "units"
    phrasings: ClassVar = {
        "": _ASK, "wish": _WISH, "decimal": _DECIMAL, "number": _BARE, "split": _SPLIT, "one": _ONE, **SEVERAL, **FACTS,
    }  # fmt: skip

    def draw(self, slots: Slots) -> Example:
        """Draws units and numbers that people use, or any; some are given in words, in a sentence, or in two units; a
        few answers are in two units or have none. A part of the requests are all in small letters, a few in
        capitals."""
        rng = slots.rng
        kind = rng.choices(KINDS, [kind.share for kind in KINDS])[0]
        ask = rng.choices(tuple(_WAYS), tuple(_WAYS.values()))[0]
        prompt, answer = ask(slots, kind)
        case = rng.random()
        if case < _SMALL_SHARE:
            prompt = prompt.lower()
        elif case < _SMALL_SHARE + _CAPITALS_SHARE:
            prompt = prompt.upper()
        named = _KIND_NAMES.get(ask, "decimal" if kind.decimal else "other")
        return Example(self.name, prompt, answer, kind=slots.kind(named))

    def grade(self, example: Example, text: str) -> bool:
        """Accepts the number with its unit, however that is spelled, or alone; two units with "and" or without; "yes"
        and "no" in whatever case."""
        if example.answer in ("yes", "no"):
            return is_label(text, example.answer)
        number, _, unit = example.answer.partition(" ")
        if " " in unit:
            return _words(text) == _words(example.answer)
        found = re.fullmatch(r"(\d+|\d{1,3}(?:,\d{3})+)(\.\d+)?\s*([A-Za-z]*)\.?", text.strip())
        if found is None or found[1].replace(",", "") + (found[2] or "") != number:
            return False
        return not found[3] or found[3] in spellings(unit)


def _words(text: str) -> list[str]:
    return text.strip().removesuffix(".").replace(",", "").replace(" and ", " ").split()


def _converted(slots: Slots, kind: Kind) -> tuple[str, str]:
    """A request, and the quantity in the new unit."""
    rng = slots.rng
    small, large, value, downward = _drawn(slots, kind)
    factor = Fraction(large.size, small.size)
    old, new = (large, small) if downward else (small, large)
    result = value * factor if downward else value / factor
    # Who writes km asks for metres as often as for m.
    spelling = 0 if rng.random() < 0.5 else rng.choice((1, 2))
    other = spelling if rng.random() < 0.45 else rng.randrange(3)
    number, unit = write_number(value), (old.singulars if value == 1 else old.names)[spelling]
    told = ""
    if rng.random() < 0.13 and value.denominator == 1 and value != 1 and value < 1000:
        told = f"{spell(int(value))} {unit}"
    elif value >= 1000 and value.denominator == 1 and rng.random() < _COMMA_SHARE:
        told = f"{int(value):,} {unit}"
    elif rng.random() < 0.12 and (found := part_in_words(slots, large, factor, spelling)):
        told, result, new = found[0], found[1] * factor, small
    elif rng.random() < (0.08 if kind.decimal else 0.25) and (mixed := _mixed(slots, small, large, spelling)):
        told, result, new = mixed
    elif kind.sign and old is large and rng.random() < 0.35:
        told = kind.sign + (number if value.denominator == 1 else f"{float(value):.2f}")
        if Fraction(told[1:]) != value:
            told = ""
    shown = (new.singulars if result == 1 else new.names)[other]
    answer = f"{write_number(result)} {shown}"
    share = rng.random()
    if not told and value == 1:  # whose unit is in the singular, which stands nowhere but behind its number
        told = f"1 {unit}"
    if not told and share > _BARE_SHARE + _STORY_SHARE:
        short = number + ("" if len(unit) <= 3 and rng.random() < 0.75 else " ") + unit
        return slots.question(_ASK, value=number, old=unit, new=new.names[other], short=short), answer
    told = told or f"{number} {unit}"
    if share < _BARE_SHARE:
        return slots.question(_BARE, told=told, new=new.names[other]), write_number(result)
    if share < _BARE_SHARE + _STORY_SHARE:
        wishes = _DECIMAL if result.denominator > 1 and rng.random() < 0.4 else _WISH
        fact, wish = slots.choice(FACTS[kind.facts], told=told), slots.question(wishes, new=new.names[other])
        return f"{fact} {wish}", answer
    return _agreeing(slots.question(_JOINT, told=told, new=new.names[other])), answer


def _drawn(slots: Slots, kind: Kind) -> tuple[Unit, Unit, Fraction, bool]:
    """Two units, the smaller first, a number, and whether it is of the larger; neither it nor what it is in the other
    has more than nine digits before the point or six behind it."""
    rng = slots.rng
    while True:
        small, large = _pair(slots, kind)
        factor = Fraction(large.size, small.size)
        downward = rng.random() < 0.6
        if rng.random() < _ZERO_SHARE:
            return small, large, Fraction(0), downward
        value = draw_value(slots, factor, decimal=kind.decimal, downward=downward)
        if small.names[0] in COUNTED and (value * (factor if downward else 1)).denominator > 1:
            value = Fraction(max(1, int(value)))
        result = value * factor if downward else value / factor
        if result < 10**9 and (result * 10**6).denominator == 1:
            return small, large, value, downward


def _split(slots: Slots, kind: Kind) -> tuple[str, str]:
    """A request for a quantity in two units at once, and the answer."""
    rng = slots.rng
    while True:
        small, large = _pair(slots, kind)
        factor = large.size // small.size
        if 1 < factor <= 1024 and not (kind.decimal and factor == 10):
            break
        kind = rng.choices(KINDS, [kind.share for kind in KINDS])[0]
    whole, rest = rng.choice((1, 1, 2, 2, 3, 4, 5, rng.randint(1, 30))), rng.randint(1, factor - 1)
    if rng.random() < 0.5 and factor > 20:
        rest = max(5, rest - rest % 5)
    spelling = rng.choice((0, 1, 2))
    joint = " " if len(small.names[spelling]) < 4 and len(large.names[spelling]) < 4 else " and "
    prompt = slots.question(
        _SPLIT, told=f"{whole * factor + rest} {small.names[spelling]}", large=large.names[spelling],
        small=small.names[spelling],
    )  # fmt: skip
    return prompt, joint.join((counted(Fraction(whole), large, spelling), counted(Fraction(rest), small, spelling)))


def _several(slots: Slots, kind: Kind) -> tuple[str, str]:
    return each_converted(slots, *_near_pair(slots, kind))


def _compared(slots: Slots, kind: Kind) -> tuple[str, str]:
    return compared(slots, kind, *_near_pair(slots, kind, _CLOSE))


def _single(slots: Slots, kind: Kind) -> tuple[str, str]:
    """A request for how many of a unit another one is, and the answer."""
    small, large = _near_pair(slots, kind)
    spelling = slots.rng.choice((0, 1, 1, 2))
    told = single(large) if slots.rng.random() < 0.7 else f"one {large.singulars[1]}"
    answer = f"{large.size // small.size} {small.names[spelling]}"
    return _agreeing(slots.question(_ONE, told=told, new=small.names[spelling])), answer


def _plain(slots: Slots, kind: Kind) -> tuple[str, str]:
    """A plain request for a small whole number of a unit in another one, and the answer."""
    rng = slots.rng
    small, large = _near_pair(slots, kind)
    factor = Fraction(large.size, small.size)
    amount = Fraction(rng.randint(2, 12) if rng.random() < 0.8 else 5 * rng.randint(3, 10))
    old, new, value, result = large, small, amount, amount * factor
    if rng.random() < 0.25:
        old, new, value, result = new, old, result, value
    spelling = rng.choice((0, 1, 2))
    other = spelling if rng.random() < 0.5 else rng.randrange(3)
    unit = old.names[spelling]
    short = f"{value}{unit}" if len(unit) <= 3 else f"{value} {unit}"
    prompt = slots.question(_PLAIN, value=value, old=unit, new=new.names[other], short=short)
    return prompt, f"{result} {(new.singulars if result == 1 else new.names)[other]}"


def _near_pair(slots: Slots, kind: Kind, farthest: int = _FAR) -> tuple[Unit, Unit]:
    """Two units of a kind, the smaller first, of which the larger is at most so many times the smaller."""
    while True:
        small, large = _pair(slots, kind)
        if large.size // small.size <= farthest:
            return small, large


_WAYS = {
    _split: _SPLIT_SHARE, _several: _SEVERAL_SHARE, _compared: _COMPARED_SHARE, _single: _ONE_SHARE,
    _plain: _PLAIN_SHARE, _converted: 1 - _SPLIT_SHARE - _SEVERAL_SHARE - _COMPARED_SHARE - _ONE_SHARE - _PLAIN_SHARE,
}  # fmt: skip
"""The ways to ask, and their shares."""
_KIND_NAMES = {_several: "several", _compared: "compared"}


def _agreeing(text: str) -> str:
    """The text, with the verb of half a unit, or of one, in the singular."""
    return re.sub(r" are (?=(half|a|an|1) )(?!1 (1/|and ))", " is ", text)


def _pair(slots: Slots, kind: Kind) -> tuple[Unit, Unit]:
    """Two units of a kind, the smaller first, most often neighbours, and not too far apart."""
    while True:
        first, second = sorted(slots.rng.sample(range(len(kind.units)), 2))
        small, large = kind.units[first], kind.units[second]
        factor = large.size // small.size
        far = 0.55 if kind.decimal or factor <= _FAR else 0.12
        if factor <= _FARTHEST and (second == first + 1 or slots.rng.random() < far):
            return small, large


def _mixed(slots: Slots, small: Unit, large: Unit, spelling: int) -> tuple[str, Fraction, Unit] | None:
    """A quantity in both units, what it is in one of them, and which: most often the smaller."""
    rng = slots.rng
    factor = large.size // small.size
    if not 2 < factor <= 1024:
        return None
    whole, extra = rng.choice((1, 1, 2, 2, 3, 4, 5, rng.randint(1, 40))), rng.randint(1, factor - 1)
    if factor > 20 and rng.random() < 0.6:
        extra = max(5, extra - extra % 5)
    joint = rng.choice((" ", " and ", " and ", ", ", " plus ") if spelling else (" ", " ", " and ", " + "))
    parts = [counted(Fraction(whole), large, spelling), counted(Fraction(extra), small, spelling)]
    if not spelling and rng.random() < 0.35 and len(large.names[0]) + len(small.names[0]) < 7:
        parts = [part.replace(" ", "") for part in parts]
        joint = " "
    result = whole + Fraction(extra, factor)
    if ends(result * 10) and rng.random() < 0.35:
        return joint.join(parts), result, large
    return joint.join(parts), Fraction(whole * factor + extra), small
