"""Writes members of an object that no schema names, and of which there have to be several.

An object has a property once however often its text has it. So members count as several only where their keys are told
apart: by their first characters, of which each is in one of a few sets.
"""

from itertools import combinations, permutations

from gesso.constraints import charset
from gesso.constraints.expression import (
    EMPTY,
    Chars,
    Expression,
    Repeat,
    Text,
    intersection,
    repeat,
    sequence,
    union,
)
from gesso.constraints.json_text import JsonForm, any_value

MAX_UNNAMED = 3
"""Members that are told apart."""
_SETS = {2: 16, 3: 7}
"""Sets of first characters at most, by the number of members."""


def different_members(member: Expression, count: int, form: JsonForm) -> Expression:
    """Returns members of which the first `count` have different keys, and any number of others behind them.

    Args:
        member: one of them.
        count: from 2 to `MAX_UNNAMED`.
    """
    sets, comma = _SETS[count], Text(form.item_separator)
    # What their values are stands once for every set of beginnings: it goes less deep.
    value = sequence(Text(form.key_separator), any_value(form, MAX_UNNAMED + 1 - count))

    def near(*bodies: Expression) -> Expression:
        """Such a member, with the keys that are given."""
        return intersection(member, sequence(form.as_keys(union(map(form.quoted, bodies))), value))

    of_set = [near(_beginning(charset.make(_codes(rest, sets)), form)) for rest in range(sets)]
    options: list[Expression] = []
    for chosen in combinations(range(sets), count - 1):
        # The keys of the last one are in none of the sets that were there, or it has no first character.
        others = charset.make(code for rest in range(sets) if rest not in chosen for code in _codes(rest, sets))
        last = near(_beginning(others, form), EMPTY)
        orders = [[part for place in order for part in (of_set[place], comma)] for order in permutations(chosen)]
        options.append(sequence(union(sequence(*order) for order in orders), last))
    return sequence(union(options), repeat(sequence(comma, member)))


def _codes(rest: int, sets: int) -> list[tuple[int, int]]:
    beyond = [(0x80, 0x10FFFF)] if rest == 0 else []
    return [*((code, code) for code in range(rest, 0x80, sets)), *beyond]


def _beginning(chars: charset.CharSet, form: JsonForm) -> Expression:
    return sequence(form.inside(Chars(chars)), Repeat(form.character))
