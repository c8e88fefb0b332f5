"""An expression as a deterministic automaton over the bytes of UTF-8.

Life cycle: `compile_bytes` walks the expression into a nondeterministic automaton (`nondeterministic.Graph`), finds
the sets of its states that can be reached (`determinize`), and merges states that no continuation tells apart
(`minimize`). What cannot be said with single steps (intersections, differences, anchors inside a larger text) is
compiled by itself first and put in as a graph.

A repetition of many counts becomes a counter (see `determinize`); of repetitions in each other the longest does. Where
a text does not say what the count is, as in `(a|aa){100}`, or two counters would have to be kept at once, it is spelled
out instead: copy after copy.

    S states   L counted states   B = 256 bytes   G groups of bytes that no state tells apart
"""

from collections.abc import Sequence as Items
from dataclasses import dataclass, field
from functools import reduce
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from gesso.constraints import budget
from gesso.constraints.determinize import ABSOLUTE, NEXT, SAME, Counts, IntArray, Table, determinize
from gesso.constraints.expression import (
    Anchor,
    Chars,
    Difference,
    Expression,
    Intersection,
    Joined,
    Multiples,
    Repeat,
    Sequence,
    Text,
    Union,
    Whole,
)
from gesso.constraints.minimize import merged
from gesso.constraints.nondeterministic import COUNT, ENTER, LEAVE, WHILE, AmbiguousCountError, Graph
from gesso.constraints.placeholders import encode

COUNTED = 64
"""Repetitions from which on a counter is kept."""


@dataclass(frozen=True, slots=True)
class ByteAutomaton:
    """States are numbered from 0; every one is reachable, and can reach an accepting one unless it is `empty`."""

    next_SG: IntArray
    """The state that follows, -1 where there is none."""
    group_B: NDArray[np.int64]
    accepting_S: NDArray[np.bool_]
    start: int
    counts: Counts | None = None
    """Of the counted states; one is entered in its first count."""

    @property
    def empty(self) -> bool:
        """Whether it accepts no text at all."""
        return not bool(self.accepting_S.any())

    @property
    def next_SB(self) -> IntArray:
        """The state that follows each byte."""
        return self.next_SG[:, self.group_B]

    @property
    def size(self) -> int:
        """States, each count of a counted one by itself."""
        return len(self.accepting_S) + (0 if self.counts is None else int((self.counts.length_L - 1).sum()))

    def matches(self, text: str) -> bool:
        """Whether the text as a whole is in the language."""
        return self.accepted_part(encode(text))[1]

    def accepted_part(self, text: bytes) -> tuple[int, bool]:
        """How many bytes of a text can begin one of the language, and whether the text as a whole is one."""
        counts = self.counts
        place_of = {} if counts is None else {int(state): place for place, state in enumerate(counts.state_L)}
        state, count = self.start, 0
        for done, byte in enumerate(text):
            group = self.group_B[byte]
            if counts is None or (place := place_of.get(state)) is None:
                state, shift = int(self.next_SG[state, group]), ABSOLUTE
            elif count == counts.length_L[place] - 1:
                state, shift = int(counts.last_LG[place, group]), int(counts.last_shift_LG[place, group])
            else:
                state, shift = int(self.next_SG[state, group]), int(counts.shift_LG[place, group])
            if state < 0:
                return done, False
            count = count + (shift == NEXT) if shift != ABSOLUTE else 0
        return len(text), bool(self.accepting_S[state])

    def begins(self) -> NDArray[np.int64]:
        """Where each state, or its first count, stands when all counts are states."""
        length_S = np.ones(len(self.accepting_S), dtype=np.int64)
        if self.counts is not None:
            length_S[self.counts.state_L] = self.counts.length_L
        return length_S.cumsum() - length_S

    def spelled(self, kept_L: NDArray[np.bool_] | None = None) -> "ByteAutomaton":
        """The same language without counters, but for those of the counted states `kept_L`.

        What shares a counter is kept together.
        """
        counts = self.counts
        if counts is None:
            return self
        kept_L = np.zeros(len(counts.state_L), dtype=np.bool_) if kept_L is None else kept_L
        length_S = np.ones(len(self.accepting_S), dtype=np.int64)
        length_S[counts.state_L[~kept_L]] = counts.length_L[~kept_L]
        budget.current().states(int(length_S.sum()))
        begin_S = length_S.cumsum() - length_S
        begin_of = np.append(begin_S, -1)  # a target that is -1 looks up the last one
        rows = np.repeat(begin_of[self.next_SG], length_S, axis=0)
        for place in np.flatnonzero(~kept_L):
            begin, length = begin_S[counts.state_L[place]], counts.length_L[place]
            own = np.arange(length)[:, None]
            shift_G = counts.shift_LG[place]
            rows[begin : begin + length] += (shift_G != ABSOLUTE) * own + (shift_G == NEXT)
            last_shift_G = counts.last_shift_LG[place]
            rows[begin + length - 1] = begin_of[counts.last_LG[place]] + (last_shift_G != ABSOLUTE) * (length - 1)
        left = None
        if kept_L.any():
            left = Counts(
                begin_S[counts.state_L[kept_L]],
                counts.length_L[kept_L],
                counts.least_bytes_L[kept_L],
                counts.shift_LG[kept_L],
                begin_of[counts.last_LG[kept_L]].astype(np.int32),
                counts.last_shift_LG[kept_L],
            )
        accepting = np.repeat(self.accepting_S, length_S)
        return ByteAutomaton(rows.astype(np.int32), self.group_B, accepting, int(begin_S[self.start]), left)


def compile_bytes(expression: Expression) -> ByteAutomaton:
    """The automaton of the expression's texts: minimal but for its counters.

    Raises:
        OptionError: it would have too many states, or the budget in force is used up.
    """
    return _Compiler().compile(expression)


def intersect(one: ByteAutomaton, other: ByteAutomaton) -> ByteAutomaton:
    """The automaton of the texts that both accept.

    Raises:
        OptionError: it would have too many states.
    """
    if one.counts is not None and other.counts is not None:
        one, other = (one, other.spelled()) if one.size >= other.size else (one.spelled(), other)
    if other.counts is not None:
        one, other = other, one
    groups = one.group_B * other.next_SG.shape[1] + other.group_B
    codes_G, group_B = np.unique(groups, return_inverse=True)
    of_one, of_other = np.divmod(codes_G, other.next_SG.shape[1])
    width = len(other.accepting_S)
    next_one, next_other = one.next_SG[:, of_one].astype(np.int64), other.next_SG[:, of_other]
    counts = one.counts
    counted_S = np.full(len(one.accepting_S), -1)
    if counts is not None:
        counted_S[counts.state_L] = np.arange(len(counts.state_L))
        last_one = counts.last_LG[:, of_one].astype(np.int64)

    def both(of_one: NDArray[np.int64], of_other: IntArray) -> NDArray[np.int64]:
        return np.where((of_one >= 0) & (of_other >= 0), of_one * width + of_other, -1)

    start = one.start * width + other.start
    order, rows, lasts = [np.array([start])], [], []
    seen = np.array([start])
    asked = budget.current()
    while len(order[-1]):
        first, second = np.divmod(order[-1], width)
        rows.append(both(next_one[first], next_other[second]))
        found = rows[-1]
        if counts is not None:
            inside = counted_S[first] >= 0
            lasts.append(both(last_one[counted_S[first[inside]]], next_other[second[inside]]))
            found = np.concatenate([found, lasts[-1]])
        order.append(np.setdiff1d(found[found >= 0], seen))
        seen = np.union1d(seen, order[-1])
        asked.states(len(seen))
        asked.check()
    pairs = np.concatenate(order)
    sorter = np.argsort(pairs)

    def numbered(codes: NDArray[np.int64]) -> IntArray:
        found = sorter[np.searchsorted(pairs, np.where(codes < 0, start, codes), sorter=sorter)]
        return np.where(codes < 0, -1, found).astype(np.int32)

    first, second = np.divmod(pairs, width)
    accepting = one.accepting_S[first] & other.accepting_S[second]
    product: Counts | None = None
    if counts is not None and (counted_S[first] >= 0).any():
        state_L = np.flatnonzero(counted_S[first] >= 0)
        place_L = counted_S[first[state_L]]
        product = Counts(
            state_L,
            counts.length_L[place_L],
            counts.least_bytes_L[place_L],
            counts.shift_LG[place_L][:, of_one],
            numbered(np.concatenate(lasts)),
            counts.last_shift_LG[place_L][:, of_one],
        )
    return _minimal(Table(numbered(np.concatenate(rows)), group_B, accepting, product))


def difference(one: ByteAutomaton, other: ByteAutomaton) -> ByteAutomaton:
    """The automaton of the texts that the first accepts and the second does not.

    Raises:
        OptionError: it would have too many states.
    """
    other = other.spelled()
    states, groups = other.next_SG.shape
    rows = np.vstack([np.where(other.next_SG < 0, states, other.next_SG), np.full((1, groups), states)])
    flipped = np.append(~other.accepting_S, True)
    return intersect(one, ByteAutomaton(rows.astype(np.int32), other.group_B, flipped, other.start))


def _minimal(table: Table) -> ByteAutomaton:
    number_S, kept = merged(table)
    if number_S[0] < 0:
        nothing = np.full((1, 1), -1, dtype=np.int32)
        return ByteAutomaton(nothing, np.zeros(256, dtype=np.int64), np.zeros(1, dtype=np.bool_), 0)
    numbers = np.append(number_S, -1).astype(np.int32)
    rows = numbers[table.next_SG[kept]]
    counts = table.counts
    last_rows = np.empty((0, rows.shape[1]), dtype=np.int32)
    shifts = []
    if counts is not None:
        alive = number_S[counts.state_L] >= 0
        state_L = number_S[counts.state_L[alive]].astype(np.int64)
        last_rows = numbers[counts.last_LG[alive]]
        shifts = [counts.shift_LG[alive], counts.last_shift_LG[alive]]
        if not alive.any():
            counts = None
    columns = np.vstack([rows, last_rows, *shifts])
    _, firsts, column_G = np.unique(columns, axis=1, return_index=True, return_inverse=True)
    group_B = column_G[table.group_B]
    made = None
    if counts is not None:
        made = Counts(
            state_L,
            counts.length_L[alive],
            counts.least_bytes_L[alive],
            shifts[0][:, firsts],
            last_rows[:, firsts],
            shifts[1][:, firsts],
        )
    return ByteAutomaton(
        np.ascontiguousarray(rows[:, firsts]), group_B, table.accepting_S[kept], int(number_S[0]), made
    )


@dataclass(slots=True)
class _Compiler:
    """Life cycle: one for an expression and all its parts; what was found to need spelling out is remembered."""

    spelled: set[int] = field(default_factory=set)
    """Expressions, by identity, whose counters turned out to be ambiguous."""
    known: dict[Expression, ByteAutomaton] = field(default_factory=dict)
    """Parts that are compiled by themselves."""
    longest: dict[int, tuple[int, Expression]] = field(default_factory=dict)
    """By identity of an expression: the most repetitions of a counter in it, and the expression, which is so kept."""

    def compile(self, expression: Expression) -> ByteAutomaton:
        if (found := self.known.get(expression)) is None:
            found = self.known[expression] = self._compile(expression)
        return found

    def _compile(self, expression: Expression) -> ByteAutomaton:
        match expression:
            case Intersection(parts):
                return reduce(intersect, map(self.compile, parts))
            case Difference(body, removed):
                return difference(self.compile(body), self.compile(removed))
        while True:
            graph = Graph()
            begin = graph.add()
            end = self.build(graph, expression.body if isinstance(expression, Whole) else expression, begin)
            try:
                return _minimal(determinize(graph, begin, end))
            except AmbiguousCountError as ambiguous:
                self.spelled |= ambiguous.keys

    def build(self, graph: Graph, expression: Expression, source: int) -> int:
        """Add the expression behind the state `source`; return the state behind it."""
        match expression:
            case Sequence(parts):
                for part in parts:
                    source = self.build(graph, part, source)
                return source
            case Union(options):
                return graph.merge([self.build(graph, option, source) for option in options])
            case Repeat():
                return self.build_repeat(graph, expression, source)
            case Joined():
                return self.build_joined(graph, expression, source)
            case Intersection() | Difference():
                return self.embed(graph, expression, source)
            case Whole(body):
                if _has_anchor(body):
                    return self.embed(graph, expression, source)
                return self.build(graph, body, source)
            case _:
                return graph.add_leaf(expression, source)

    def build_repeat(self, graph: Graph, repeat: Repeat, source: int) -> int:
        count = max(repeat.least, repeat.most or 0)
        countable = count >= COUNTED and not graph.inside and id(repeat) not in self.spelled
        if countable and count > self.longest_in(repeat.body):
            return self.build_counted(graph, repeat, source)
        ends = [source] if repeat.least == 0 else []
        last = max(repeat.least, 1) if repeat.most is None else repeat.most
        for done in range(1, last + 1):
            if done > 1:
                source = graph.add_text(repeat.separator, source)
            # A state of its own: neither the loop nor the way out may lead back to what stood before.
            entry = graph.step(source)
            source = graph.step(self.build(graph, repeat.body, entry))
            if done >= repeat.least:
                ends.append(source)
        if repeat.most is None:
            graph.link(graph.add_text(repeat.separator, source), entry)
        return graph.merge(ends)

    def build_counted(self, graph: Graph, repeat: Repeat, source: int) -> int:
        """The repetition as a loop with a counter; where it has no end, a loop without one behind it.

        With a separator it is separators that are counted: where an item ends need not be known before one comes.
        """
        behind = bool(repeat.separator)
        least, most = max(repeat.least - behind, 0), None if repeat.most is None else repeat.most - behind
        top = least if most is None else most
        graph.inside = graph.add_region(id(repeat), top, max(1, least_bytes(repeat.body) + len(repeat.separator)))
        head, entry = graph.add(), graph.add()
        graph.count(ENTER, source, head)
        if behind:
            last = self.build(graph, repeat.body, head)
            graph.count(WHILE, last, entry, 0, top - 1)
            graph.count(COUNT, graph.add_text(repeat.separator, entry), head)
        else:
            last = head
            graph.count(WHILE, head, entry, 0, top - 1)
            graph.count(COUNT, self.build(graph, repeat.body, entry), head)
        graph.inside = 0
        end = graph.add()
        graph.count(LEAVE, last, end, least, top)
        if most is None:
            others = Sequence((Text(repeat.separator), repeat.body)) if behind else repeat.body
            end = self.build(graph, Repeat(others), end)
        return graph.merge([source, end]) if behind and repeat.least == 0 else end

    def build_joined(self, graph: Graph, joined: Joined, source: int) -> int:
        # By how many items there are, up to the count that makes a difference. Behind the first, separators follow.
        most = joined.most
        top = max(joined.least, 1) if most is None else most
        here: dict[int, int] = {0: source}
        for item, required in joined.items:
            budget.current().check()
            ways: dict[int, list[int]] = {}
            entries: dict[int, list[int]] = {}
            for count, state in here.items():
                if count < top or most is None:
                    behind = state if count == 0 else graph.add_text(joined.separator, state)
                    entries.setdefault(min(count + 1, top), []).append(behind)
                if not required:
                    ways.setdefault(count, []).append(state)
            for count, states in entries.items():
                ways.setdefault(count, []).append(self.build(graph, item, graph.merge(states)))
            here = {count: graph.merge(states) for count, states in ways.items()}
        ends = [state for count, state in here.items() if count >= joined.least]
        if joined.rest is not None:
            ways = {}
            for count, state in here.items():
                left = None if most is None else most - count
                if count + 1 >= joined.least and left != 0:
                    # However many follow, they are of use here alike.
                    behind = state if count == 0 else graph.add_text(joined.separator, state)
                    ways.setdefault(-1 if left is None else left, []).append(behind)
            for left, states in ways.items():
                others = Repeat(joined.rest, 1, None if left < 0 else left, joined.separator)
                ends.append(self.build(graph, others, graph.merge(states)))
        return graph.merge(ends)

    def embed(self, graph: Graph, expression: Expression, source: int) -> int:
        """Put an automaton that is compiled by itself behind `source`."""
        automaton = self.compile(expression)
        if automaton.counts is not None and (graph.inside or id(expression) in self.spelled):
            automaton = automaton.spelled()
        return _embedded(graph, automaton, id(expression), source)

    def longest_in(self, expression: Expression) -> int:
        """The most repetitions that a counter in an expression would count."""
        if (known := self.longest.get(id(expression))) is None:
            most = max((self.longest_in(part) for part in parts_of(expression)), default=0)
            if isinstance(expression, Repeat):
                count = max(expression.least, expression.most or 0)
                most = max(most, count if count >= COUNTED else 0)
            known = self.longest[id(expression)] = most, expression
        return known[0]


def parts_of(expression: Expression) -> Items[Expression]:
    """The expressions that one is made of."""
    match expression:
        case Sequence(parts) | Union(parts) | Intersection(parts):
            return parts
        case Repeat(body) | Whole(body):
            return (body,)
        case Joined(items, _, rest):
            return (*(item for item, _ in items), *(() if rest is None else (rest,)))
        case Difference(body, removed):
            return (body, removed)
        case _:
            return ()


def least_bytes(expression: Expression) -> int:
    """A lower bound of the bytes of each text."""
    match expression:
        case Text(text):
            return len(encode(text))
        case Chars() | Multiples():
            return 1
        case Sequence(parts):
            return sum(map(least_bytes, parts))
        case Union(options):
            return min(map(least_bytes, options), default=0)
        case Repeat(body, least):
            return least * least_bytes(body)
        case Joined(items):
            return sum(least_bytes(item) for item, required in items if required)
        case Intersection(parts):
            return max(map(least_bytes, parts))
        case Whole(body) | Difference(body):
            return least_bytes(body)
        case _:
            return 0


def _has_anchor(expression: Expression) -> bool:
    match expression:
        case Anchor():
            return True
        case Sequence(parts) | Union(parts):
            return any(map(_has_anchor, parts))
        case Repeat(body):
            return _has_anchor(body)
        case Joined():
            return any(map(_has_anchor, parts_of(expression)))
        case _:
            return False


def _embedded(graph: Graph, automaton: ByteAutomaton, key: int, source: int) -> int:
    outer, counts = graph.inside, automaton.counts
    region_S = np.full(len(automaton.accepting_S), outer)
    if counts is not None:
        for members in _components(automaton, counts):
            length, least = int(counts.length_L[members[0]]), int(counts.least_bytes_L[members].min())
            region_S[counts.state_L[members]] = graph.add_region(key, length - 1, least)

    def add(region: int) -> int:
        graph.inside = region
        return graph.add()

    # A counted state is entered through a state outside of its region.
    states = [add(region) for region in region_S.tolist()]
    entries = [states[place] if region == outer else add(outer) for place, region in enumerate(region_S.tolist())]
    nexts: dict[int, int] = {}
    for state, entry in zip(states, entries, strict=True):
        if entry != state:
            graph.count(ENTER, entry, state)
    graph.link(source, entries[automaton.start])

    def put(place: int, row_B: IntArray, shift_B: NDArray[np.uint8] | None) -> None:
        codes = row_B if shift_B is None else row_B * 3 + np.where(row_B < 0, 0, shift_B)
        borders = [0, *(np.flatnonzero(np.diff(codes)) + 1).tolist(), 256]
        for low, high in pairwise(borders):
            if (target := int(row_B[low])) < 0:
                continue
            shift = ABSOLUTE if shift_B is None else int(shift_B[low])
            end = entries[target]
            if shift == SAME:
                end = states[target]
            elif shift == NEXT:
                if target not in nexts:
                    nexts[target] = add(int(region_S[target]))
                    graph.count(COUNT, nexts[target], states[target])
                end = nexts[target]
            graph.edges[place].append((low, high - 1, end))

    counted = {} if counts is None else {int(state): place for place, state in enumerate(counts.state_L)}
    for state, row in enumerate(automaton.next_SG):
        if counts is None or (place := counted.get(state)) is None:
            put(states[state], row[automaton.group_B], None)
            continue
        last = int(counts.length_L[place]) - 1
        inner, final = add(int(region_S[state])), add(int(region_S[state]))
        graph.count(WHILE, states[state], inner, 0, last - 1)
        graph.count(WHILE, states[state], final, last, last)
        put(inner, row[automaton.group_B], counts.shift_LG[place][automaton.group_B])
        put(final, counts.last_LG[place][automaton.group_B], counts.last_shift_LG[place][automaton.group_B])
    end = add(outer)
    for state in np.flatnonzero(automaton.accepting_S).tolist():
        if region_S[state] == outer:
            graph.link(states[state], end)
        else:
            graph.count(LEAVE, states[state], end, 0, int(counts.length_L[counted[state]]) - 1 if counts else 0)
    return end


def _components(automaton: ByteAutomaton, counts: Counts) -> list[list[int]]:
    """Counted states that hand their count on to each other, as places in `counts`."""
    place_of = {int(state): place for place, state in enumerate(counts.state_L)}
    leader = list(range(len(place_of)))

    def find(place: int) -> int:
        while leader[place] != place:
            place = leader[place]
        return place

    for place in range(len(leader)):
        inner = automaton.next_SG[counts.state_L[place]], counts.shift_LG[place]
        for row, shift in (inner, (counts.last_LG[place], counts.last_shift_LG[place])):
            for target in np.unique(row[(shift != ABSOLUTE) & (row >= 0)]).tolist():
                leader[find(place_of[target])] = find(place)
    groups: dict[int, list[int]] = {}
    for place in range(len(leader)):
        groups.setdefault(find(place), []).append(place)
    return list(groups.values())
