"""Writes the texts of values that are excluded: all that mean the value, so that none of them is left."""

from collections.abc import Collection
from itertools import permutations
from typing import Any

from gesso.constraints import charset
from gesso.constraints.expression import NEVER, Chars, Expression, Repeat, Text, repeat, sequence, union
from gesso.constraints.json_numbers import Digits, any_number
from gesso.constraints.json_text import JsonForm
from gesso.errors import OptionError

MAX_PERMUTED = 4
"""Members of an object that a value must not be."""
MAX_ROUGH = 5
"""Objects and arrays in each other, of a value whose key comes once more behind it."""


def any_notation(value: Any, form: JsonForm, pointer: str, once: Collection[str] = ()) -> Expression:
    """Returns at least all texts of a value: members in any order and several times, and any number in the place of a
    number.

    Args:
        once: members that no text has several times.

    Raises:
        OptionError: it has too many members in one object.
    """
    match value:
        case list():
            return form.between("[", [any_notation(part, form, pointer) for part in value], "]")
        case dict():
            if len(value) > MAX_PERMUTED:
                raise OptionError(f"{pointer}: that a value is not {value!r:.60} is not supported")
            colon, comma = Text(form.key_separator), form.item_separator
            # A key that the schema leaves open may be quoted in every form.
            keys = [union([form.key(name), form.literal(name)]) for name in value]
            members = [
                sequence(key, colon, any_notation(part, form, pointer))
                for key, part in zip(keys, value.values(), strict=True)
            ]
            # With more members than names some come twice, and the last one counts.
            member = sequence(union(keys), colon, _roughly_any(form))
            repeated = sequence(Text("{"), repeat(member, len(value) + 1, None, comma), Text("}"))
            orders = [form.between("{", [*order], "}") for order in permutations(members)]
            return union(orders if value.keys() <= set(once) else [*orders, repeated])
        case int() | float() if not isinstance(value, bool):
            return any_number(Digits())
        case _:
            return form.literal(value)


def _roughly_any(form: JsonForm) -> Expression:
    """At least all values of `MAX_ROUGH` objects and arrays in each other, and texts that end where a value does."""
    plain = Chars(charset.difference(charset.ANY, charset.of('"[]{}')))
    nested: Expression = NEVER
    for _ in range(MAX_ROUGH):
        inside = Repeat(union([plain, form.any_string, nested]))
        nested = sequence(Chars(charset.of("[{")), inside, Chars(charset.of("]}")))
    scalar = Repeat(Chars(charset.difference(charset.ANY, charset.of('"[]{},:'))), 1)
    return union([scalar, form.any_string, nested])
