"""Writes arrays of a plain schema as texts."""

from collections.abc import Hashable
from itertools import accumulate
from math import comb

from gesso.constraints.bytes_automaton import compile_bytes
from gesso.constraints.expression import (
    NEVER,
    Distinct,
    Expression,
    Joined,
    Text,
    intersection,
    repeat,
    sequence,
    union,
)
from gesso.constraints.json_keywords import Plain, hashed, type_of, types
from gesso.constraints.json_one_of import Refs
from gesso.constraints.json_places import Schema
from gesso.constraints.json_text import array
from gesso.constraints.json_values import Values
from gesso.constraints.measures import spelled_size
from gesso.constraints.tries import spelled_out
from gesso.errors import OptionError

FEW, SHUFFLED_STATES = 5, 10_000
"""Items of a `uniqueItems` that are written in any order in a large schema too, and the states that this may take."""


class Arrays:
    """Holds the texts of the arrays under plain schemas."""

    def __init__(self, values: Values) -> None:
        self.values, self.form = values, values.form

    def texts(self, schema: Plain, pointer: str, refs: Refs) -> Expression:
        """Returns the texts of all arrays that are valid.

        Raises:
            OptionError: a keyword is not supported; it gives the JSON pointer.
        """
        least = int(schema.get("minItems", 0))
        most = None if "maxItems" not in schema else int(schema["maxItems"])
        tuples = schema.get("tuples", [])
        length = max((len(prefix) for prefix, _ in tuples), default=0)
        rest: list[Schema] = [items for _, items in tuples]
        places = [[parts[place] if place < len(parts) else items for parts, items in tuples] for place in range(length)]
        if "contains" in schema:
            return self._containing(schema, [*places, rest], pointer, refs)
        prefix = [
            self.values.every(said, f"{pointer}/prefixItems/{place}", refs) for place, said in enumerate(places[:most])
        ]
        if NEVER in prefix:
            most = prefix.index(NEVER)
            prefix = prefix[:most]
        item = NEVER
        if most is None or most > len(prefix):
            item = self.values.every(rest, f"{pointer}/items", refs)
        if item == NEVER:
            most = len(prefix)
        if most is not None and most < least:
            return NEVER
        if schema.get("uniqueItems") and (most is None or most > 1):
            return self._unique(rest, prefix, least, most, pointer, refs)
        left = None if most is None else most - len(prefix)
        if not prefix:
            return array(item, self.form, least, left)
        comma = Text(self.form.item_separator)
        texts = repeat(sequence(comma, item), max(least - len(prefix), 0), left)
        for place in range(len(prefix) - 1, -1, -1):
            texts = sequence(prefix[place], texts) if place == 0 else sequence(comma, prefix[place], texts)
            texts = texts if place < least else repeat(texts, 0, 1)
        return sequence(Text("["), texts, Text("]"))

    def _containing(self, schema: Plain, said: list[list[Schema]], pointer: str, refs: Refs) -> Expression:
        """Arrays some of whose items are valid under schemas of their own.

        Args:
            said: what is said of the item at each place of the prefix, and last of those behind it.
        """
        parts = []
        if len(said) > 1 or schema.keys() & {"minItems", "maxItems", "uniqueItems"}:
            parts.append(self.texts({key: value for key, value in schema.items() if key != "contains"}, pointer, refs))

        def item(*more: Schema) -> Expression:
            # Where which of them stands is seen to by the part above.
            return union(self.values.every([*each, *more], f"{pointer}/contains", refs) for each in said)

        comma = Text(self.form.item_separator)
        for part, least, most in schema["contains"]:
            if most is not None and most < least:
                return NEVER
            found = item(part)
            # Others need not be told from those that count where they may count as well.
            other = item() if most is None else item({"not": part})
            others = repeat(sequence(comma, other))
            counted = sequence(comma, found, others)

            def times(low: int, high: int | None, counted: Expression = counted) -> Expression:
                return repeat(counted, low, high) if high is None or high >= low else NEVER

            options = [sequence(other, others, times(least, most))]
            if most is None or most > 0:
                options.append(sequence(found, others, times(max(least - 1, 0), None if most is None else most - 1)))
            options += [Text("")] if least == 0 else []
            parts.append(sequence(Text("["), union(options), Text("]")))
        return intersection(*parts)

    def _unique(
        self, rest: list[Schema], prefix: list[Expression], least: int, most: int | None, pointer: str, refs: Refs
    ) -> Expression:
        """Arrays of different items: any of the few that there are, else one, or two strings."""
        told = [schema for schema in rest if schema is not True]
        found = [] if prefix or not told else self.values.alternatives.expand({"allOf": told}, pointer, ())
        texts: dict[Hashable, Expression] = {}
        for alternative, _ in found:
            given = alternative.get("enum")
            if given is None and types(alternative) <= {"boolean", "null"}:
                given = [v for v in (True, False, None) if type_of(v) in types(alternative)]
            if given is None:
                texts = {}
                break
            for value in given:
                one = self.values.enum({**alternative, "enum": [value]}, pointer, ())
                if spelled_out(one) or not compile_bytes(one).empty:
                    texts[hashed(value)] = union([texts.get(hashed(value), NEVER), one])
        if not texts:
            if prefix:
                raise OptionError(
                    f"{pointer}/uniqueItems: with prefixItems it is only supported of items that are an enum"
                )
            return self._distinct(rest, [alternative for alternative, _ in found], least, most, pointer, refs)
        most = None if most is None or most >= len(texts) else most
        shuffled = len(texts) if most is None else most
        if self._has_room(list(texts.values()), shuffled):
            return self._in_any_order(list(texts.values()), least, shuffled)
        listed = Joined(tuple((text, False) for text in texts.values()), self.form.item_separator, None, least, most)
        return sequence(Text("["), listed, Text("]"))

    def _has_room(self, texts: list[Expression], most: int) -> bool:
        """Tells whether an automaton may have a state for each set of items and each character of those that are
        left: half of them, all in all."""
        states = SHUFFLED_STATES if len(texts) <= FEW else self.form.distinct_states
        room = 2 * states // sum(map(spelled_size, texts))
        sets = accumulate(comb(len(texts), count) for count in range(most + 1))
        return all(number <= room for number in sets)

    def _in_any_order(self, texts: list[Expression], least: int, most: int) -> Expression:
        """Arrays of these items, each of them once at most."""
        comma = self.form.item_separator
        if least > most:
            return NEVER
        parts = [repeat(union(texts), least, most, comma)]
        for text in texts:
            others = union(other for other in texts if other is not text)
            once = sequence(repeat(sequence(others, Text(comma))), text, repeat(sequence(Text(comma), others)))
            parts.append(union([once, repeat(others, separator=comma)]))
        return sequence(Text("["), intersection(*parts), Text("]"))

    def _distinct(
        self, rest: list[Schema], found: list[Plain], least: int, most: int | None, pointer: str, refs: Refs
    ) -> Expression:
        """Arrays of items that are told apart by what they add up to, or of one item."""
        item = self.values.every(rest, f"{pointer}/items", refs)
        told = item if found else self.form.any_string
        first = {_first_name(alternative) for alternative in found if "object" in types(alternative)}
        name = first.pop() if len(first) == 1 else None
        form = self.form
        before = "" if name is None else f"{{{form.key_text(name)}{form.key_separator}"
        several = Distinct(told, before, form.item_separator, least, most, form.distinct_states, form.quote)
        if least <= 1:
            one = array(item, self.form, least, 1)
            return one if item == NEVER else union([several, one])
        if item == NEVER or compile_bytes(several).empty:
            raise OptionError(f"{pointer}/uniqueItems: {least} items cannot be told apart")
        return several


def _first_name(schema: Plain) -> str | None:
    """The member that the texts of all objects under a plain schema begin with, if they have it at all."""
    names = [*(name for shape in schema.get("shapes", ()) for name in shape[0]), *schema.get("required", ())]
    return names[0] if names and "enum" not in schema else None
