"""Asks about several quantities: each in another unit, or which of two is more."""

from fractions import Fraction

from gesso.tasks.skills.layouts import Layout
from gesso.tasks.skills.patterns import Phrasings, read_phrasings
from gesso.tasks.skills.slots import Slots
from gesso.tasks.skills.units.kinds import COUNTED, Kind, Unit
from gesso.tasks.skills.units.values import counted

_SEVERAL = read_phrasings("units", "several")
_MORE = read_phrasings("units", "more")
_IS_MORE = read_phrasings("units", "is more")
SEVERAL: dict[str, Phrasings] = {"several": _SEVERAL, "more": _MORE, "is more": _IS_MORE}
_LAYOUTS = (
    (Layout(", "), 0.45), (Layout("\n"), 0.25), (Layout("; "), 0.1), (Layout(" | "), 0.05),
    (Layout("\n", item="- {}"), 0.1), (Layout(", ", last=" and "), 0.05),
)  # fmt: skip
_WORDS = {
    "length": ("longer", "shorter"), "weight": ("heavier", "lighter"), "volume": ("more", "less"),
    "bytes": ("bigger", "smaller"), "time": ("longer", "shorter"), "money": ("more", "less"), "count": ("more", "less"),
}  # fmt: skip


def each_converted(slots: Slots, small: Unit, large: Unit) -> tuple[str, str]:
    """Returns a request for two to four quantities in another unit, and these as they are laid out."""
    rng = slots.rng
    factor = Fraction(large.size, small.size)
    downward = rng.random() < 0.65
    old, new = (large, small) if downward else (small, large)
    spelling = rng.choice((0, 0, 1, 2))
    other = spelling if rng.random() < 0.8 else rng.randrange(3)
    halves = factor % 2 == 0 and not (downward and old.names[0] in COUNTED)
    amounts = [_small(slots, halves=halves) for _ in range(rng.choice((2, 2, 3, 3, 4)))]
    if not downward and small.names[0] in COUNTED:
        amounts = [Fraction(max(1, int(amount))) for amount in amounts]
    others = [amount * factor for amount in amounts]
    given, results = (amounts, others) if downward else (others, amounts)
    layout = rng.choices([layout for layout, _ in _LAYOUTS], [share for _, share in _LAYOUTS])[0]
    data = layout.write([counted(amount, old, spelling) for amount in given])
    answer = layout.answer([counted(amount, new, other) for amount in results])
    return slots.request(_SEVERAL, data, new=new.names[other]), answer


def compared(slots: Slots, kind: Kind, small: Unit, large: Unit) -> tuple[str, str]:
    """Returns a question which of two quantities is more, or whether the first is, and its answer."""
    rng = slots.rng
    factor = Fraction(large.size, small.size)
    amount = _small(slots, halves=factor % 2 == 0 and large.names[0] not in COUNTED)
    ratio = rng.choice((Fraction(1, 10), Fraction(1, 2), Fraction(4, 5), Fraction(9, 10), Fraction(11, 10),
                        Fraction(6, 5), Fraction(3, 2), Fraction(2)))  # fmt: skip
    other = Fraction(max(1, round(amount * factor * ratio)))
    if other == amount * factor:
        other += 1
    spelling = rng.choice((0, 0, 1, 2))
    shown = [(amount * factor, counted(amount, large, spelling)), (other, counted(other, small, spelling))]
    rng.shuffle(shown)
    more = rng.random() < 0.65
    word = _WORDS[kind.facts][0 if more else 1] if rng.random() < 0.6 else ("more" if more else "less")
    words = {"a": shown[0][1], "b": shown[1][1], "more": word}
    if rng.random() < 0.45:
        return slots.frame(slots.choice(_IS_MORE, **words)), "yes" if (shown[0][0] > shown[1][0]) == more else "no"
    return slots.frame(slots.choice(_MORE, **words)), (max if more else min)(shown)[1]


def _small(slots: Slots, *, halves: bool) -> Fraction:
    rng = slots.rng
    whole = Fraction(rng.choice((1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 20, 24, 25, 30, 40, 50)))
    return whole + Fraction(1, 2) if halves and rng.random() < 0.2 else whole
