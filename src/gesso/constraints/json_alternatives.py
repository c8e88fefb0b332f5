"""Expands a schema to alternatives that are plain: references followed, combinators multiplied out, negations pushed
inwards.

What is *not* valid under a schema is said keyword by keyword: not `minLength: 3` is a text of at most two characters,
not `required: [a]` is an object whose `a` is `false`, not `properties: {a: S}` an object that has an `a` which is not
`S`. So `not`, `if` and overlapping branches of `oneOf` are as exact as the keywords are. What can only be said of a
keyword that holds is refused where it must not, by its JSON pointer.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gesso.constraints import budget
from gesso.constraints.json_contradictions import Contradictions
from gesso.constraints.json_disjoint import disjoint
from gesso.constraints.json_document import Document
from gesso.constraints.json_evaluated import evaluated_by, silenced, unevaluated
from gesso.constraints.json_keywords import ANNOTATIONS, REFERENCES, Plain, merge, plain
from gesso.constraints.json_limits import TooManyAlternativesError
from gesso.constraints.json_negation import absent, failing
from gesso.constraints.json_one_of import Alternative, Refs, under_one
from gesso.constraints.json_places import Schema
from gesso.constraints.json_references import References
from gesso.errors import OptionError

MAX_ALTERNATIVES = 256
"""Alternatives of one value at most, once `anyOf` and its like are multiplied out."""
_PROOF_DEPTH = 3
"""Depth of properties in properties that tell the branches of a `oneOf` apart."""


class Alternatives(References):
    """Expands the schemas of one document."""

    def __init__(self, document: Document, max_recursion: int, max_references: int) -> None:
        super().__init__(document, max_recursion, max_references)
        self._expanded = 0
        self._apart = document.apart.setdefault((max_recursion, max_references), {})
        self._narrowing = 0
        """Positive while ways in which a schema fails may be left out where they cannot be said."""
        self._contradictions = Contradictions(document, self._alone)
        self._unsaid: OptionError | None = None
        """Why the first of those was left out, in the `oneOf` that is being read."""

    def expand(self, schema: Schema, pointer: str, refs: Refs, here: Refs = ()) -> list[Alternative]:
        """Returns a schema as alternatives without references and combinators; none where nothing is valid.

        A part of the document is expanded once, for all limits where they have no say.

        Args:
            here: the references that were followed since the value in question was entered.

        Raises:
            OptionError: a keyword is malformed or not supported; it gives the JSON pointer.
        """
        if not self.document.holds(schema):
            return self._expand(schema, pointer, refs, here)
        key = (id(schema), refs, here, self._narrowing > 0)
        known, limits = self.document.expanded, (self.max_recursion, self.max_references)
        kept: tuple[list[Alternative], bool] | None = known.get((*key, None)) or known.get((*key, limits))
        if kept is None:
            before, cuts = self.bounded, self.cuts
            found = self._expand(schema, pointer, refs, here)
            known[*key, None if self.bounded == before else limits] = found, self.cuts > cuts
            return found
        self.bounded += (*key, limits) in known
        found, cut = kept
        self.cuts += cut
        return found

    def _expand(  # noqa: PLR0912 - a branch for every kind of keyword
        self, schema: Schema, pointer: str, refs: Refs, here: Refs
    ) -> list[Alternative]:
        self._expanded += 1
        if self._expanded % 32 == 1:
            budget.current().check()
        place, modern = self.read(schema, pointer)
        if isinstance(modern, bool):
            return [({}, refs)] if modern else []
        pointer = place.pointer
        first = plain(modern)
        if self.document.has_unevaluated:
            first |= evaluated_by(modern, place.draft)
        found: list[Alternative] = [(first, refs)]

        def also(part: Schema, way: str) -> list[Alternative]:
            return self._both(found, self.expand(part, f"{pointer}/{way}", refs, here), pointer)

        for keyword in [keyword for keyword in modern if keyword in REFERENCES]:
            target, there, seen, inner = self.follow(keyword, modern[keyword], place, refs, here)
            if inner is None:
                return []
            found = self._both(found, self.expand(target, there.pointer, inner, seen), pointer)
        for number, part in enumerate(modern.get("allOf", ())):
            found = also(part, f"allOf/{number}")
        for name, names in modern.get("dependentRequired", {}).items():
            found = self._both(found, [(absent(name), refs), ({"required": [name, *names]}, refs)], pointer)
        for name, part in modern.get("dependentSchemas", {}).items():
            with_it = self.expand(part, f"{pointer}/dependentSchemas/{name}", refs, here)
            with_it = self._both([({"required": [name]}, refs)], with_it, pointer)
            found = self._both(found, [(absent(name), refs), *with_it], pointer)
        if "not" in modern:
            found = self._both(found, self.negated(modern["not"], f"{pointer}/not", refs, here), pointer)
        if "if" in modern and ("then" in modern or "else" in modern or self.document.has_unevaluated):
            found = self._both(found, self._conditional(modern, pointer, refs, here), pointer)
        if "anyOf" in modern:
            branches = [also(part, f"anyOf/{number}") for number, part in enumerate(modern["anyOf"])]
            if self.document.has_unevaluated:
                # Where several hold, all of them have a say in what is evaluated.
                for branch in branches[1:]:
                    branches[0] = branches[0] + branch + self._both(branches[0], branch, pointer)
                del branches[1:]
            found = self._checked([alternative for branch in branches for alternative in branch], pointer)
        if "oneOf" in modern:
            found = self._one_of(modern["oneOf"], found, pointer, refs, here)
        for keyword in ("unevaluatedProperties", "unevaluatedItems"):
            if keyword in modern:
                found = [(unevaluated(alternative, keyword, modern[keyword]), way) for alternative, way in found]
        return found

    def negated(  # noqa: PLR0912 - a branch for every kind of keyword
        self, schema: Schema, pointer: str, refs: Refs, here: Refs = ()
    ) -> list[Alternative]:
        """Returns the alternatives of what is not valid under a schema."""
        place, modern = self.read(schema, pointer)
        if isinstance(modern, bool):
            return [] if modern else [({}, refs)]
        pointer = place.pointer
        found: list[Alternative] = []
        for keyword in modern:
            if keyword in ANNOTATIONS or keyword in {"then", "else", "minContains", "maxContains"}:
                continue
            at = f"{pointer}/{keyword}"
            value = modern[keyword]
            if keyword in REFERENCES:
                target, there, seen, inner = self.follow(keyword, value, place, refs, here)
                if inner is None:
                    return []
                found += self.negated(target, there.pointer, inner, seen)
            elif keyword == "allOf":
                for number, part in enumerate(value):
                    found += self.negated(part, f"{at}/{number}", refs, here)
            elif keyword in ("anyOf", "oneOf"):
                found += self._none_of(value, at, refs, here)
                if keyword == "oneOf":
                    for number, part in enumerate(value):
                        for second in range(number):
                            found += self._both(
                                self.expand(part, f"{at}/{number}", refs, here),
                                self.expand(value[second], f"{at}/{second}", refs, here),
                                at,
                            )
            elif keyword == "not":
                found += self.expand(value, at, refs, here)
            elif keyword == "if":
                for way, holds in (("then", self.expand), ("else", self.negated)):
                    if way in modern:
                        rest = self.negated(modern[way], f"{pointer}/{way}", refs, here)
                        found += self._both(holds(value, at, refs, here), rest, at) if rest else []
            elif keyword == "dependentSchemas":
                for name, part in value.items():
                    rest = self.negated(part, f"{at}/{name}", refs, here)
                    found += self._both([({"type": "object", "required": [name]}, refs)], rest, at)
            else:
                try:
                    found += [(alternative, refs) for alternative in failing(keyword, modern, at)]
                except OptionError as error:
                    if not self._narrowing:
                        raise
                    self._unsaid = self._unsaid or error
        # What does not hold has no say in what is evaluated.
        return self._checked([(silenced(alternative), way) for alternative, way in found], pointer)

    def apart(self, one: Schema, other: Schema, pointer: str, depth: int = _PROOF_DEPTH) -> bool:
        """Tells whether it is easily proved that no value is valid under both, by what lies no deeper than `depth`."""

        def inside(a: Schema, b: Schema) -> bool:
            return depth > 0 and self.apart(a, b, pointer, depth - 1)

        key = (id(one), id(other), depth)
        self.bounded += 1  # whether the limits had a say is not remembered
        if (known := self._apart.get(key)) is None:
            cuts = self.cuts
            first, second = self.expand(one, pointer, ()), self.expand(other, pointer, ())
            known = self.cuts == cuts and all(disjoint(a, b, inside) for a, _ in first for b, _ in second)
            if self.document.holds(one) and self.document.holds(other):
                self._apart[key] = known
        return known

    def _conditional(self, modern: dict[str, Any], pointer: str, refs: Refs, here: Refs) -> list[Alternative]:
        found: list[Alternative] = []
        for way, holds in (("then", self.expand), ("else", self.negated)):
            ways = holds(modern["if"], f"{pointer}/if", refs, here)
            if way in modern:
                ways = self._both(ways, self.expand(modern[way], f"{pointer}/{way}", refs, here), pointer)
            found += ways
        return self._checked(found, pointer)

    def _none_of(self, schemas: list[Schema], at: str, refs: Refs, here: Refs) -> list[Alternative]:
        found: list[Alternative] = [({}, refs)]
        for number, part in enumerate(schemas):
            found = self._both(found, self.negated(part, f"{at}/{number}", refs, here), at)
        return found

    def _one_of(
        self, schemas: list[Schema], found: list[Alternative], pointer: str, refs: Refs, here: Refs
    ) -> list[Alternative]:
        branches: list[list[Alternative]] = []
        wholes: list[list[Alternative] | None] = []
        for number, part in enumerate(schemas):
            whole: list[Alternative] | None
            cuts = self.cuts
            branches.append(self._both(found, self.expand(part, f"{pointer}/oneOf/{number}", refs, here), pointer))
            whole = branches[-1]
            if self.cuts > cuts:
                # What is left out here is valid under the branch all the same, and so under no other.
                cuts = self.cuts
                whole = self._both(found, self.expand(part, f"{pointer}/oneOf/{number}", ()), pointer)
                whole = whole if self.cuts == cuts else None
            wholes.append(whole)

        def without(ways: list[Alternative], number: int) -> list[Alternative]:
            return self._both(ways, self.negated(schemas[number], f"{pointer}/oneOf/{number}", refs, here), pointer)

        def apart(one: Schema, other: Schema) -> bool:
            return self.apart(one, other, pointer)

        before, self._unsaid = self._unsaid, None
        kept = under_one(branches, wholes, without, apart, self._leaving_out, MAX_ALTERNATIVES)
        if not kept:
            self.document.unsaid = self.document.unsaid or self._unsaid
        self._unsaid = before
        return self._checked(kept, pointer)

    @contextmanager
    def _leaving_out(self) -> Iterator[None]:
        self._narrowing += 1
        try:
            yield
        finally:
            self._narrowing -= 1

    def _both(self, one: list[Alternative], other: list[Alternative], pointer: str) -> list[Alternative]:
        if len(one) * len(other) > 16 * MAX_ALTERNATIVES:
            raise TooManyAlternativesError(f"{pointer}: more than {MAX_ALTERNATIVES} alternatives")
        merged: list[Alternative] = []
        for a, a_refs in one:
            budget.current().check()
            for b, b_refs in other:
                both = merge(a, b)
                if not _impossible(both):
                    merged.append((both, a_refs + b_refs[len(_common(a_refs, b_refs)) :]))
        return self._checked(self._contradictions.without(merged), pointer)

    def _alone(self, schema: Schema) -> list[Plain] | None:
        """All alternatives of a schema by itself, whatever may be left out just now; None where they are not known."""
        cuts, narrowing, self._narrowing = self.cuts, self._narrowing, 0
        try:
            found = self.expand(schema, "#", ())
            return [way for way, _ in found] if self.cuts == cuts else None
        except OptionError:
            budget.current().check()
            return None
        finally:
            self.cuts, self._narrowing = cuts, narrowing

    def _checked(self, found: list[Alternative], pointer: str) -> list[Alternative]:
        if len(found) > MAX_ALTERNATIVES:
            raise TooManyAlternativesError(f"{pointer}: more than {MAX_ALTERNATIVES} alternatives")
        return found


def _impossible(schema: Plain) -> bool:
    """Whether it is seen at once that no value is valid."""
    return schema.get("type") == [] or schema.get("enum") == []


def _common(one: Refs, other: Refs) -> Refs:
    """What two ways start with."""
    length = 0
    while length < min(len(one), len(other)) and one[length] == other[length]:
        length += 1
    return one[:length]
