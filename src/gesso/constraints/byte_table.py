"""Defines a deterministic automaton over the bytes of UTF-8, with counters, and what can be made of two.

S states   L counted states   B = 256 bytes   G groups of bytes that no state tells apart
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gesso.constraints import budget
from gesso.constraints.deterministic import ABSOLUTE, NEXT, Counts, IntArray, Table, breadth_first
from gesso.constraints.minimize import merged
from gesso.constraints.pairings import paired
from gesso.constraints.placeholders import encode

_Moves = tuple[list[int], list[int]]
"""Moves on each byte: the state that follows, and how the count goes on."""


@dataclass(frozen=True, slots=True)
class ByteAutomaton:
    """States are numbered from 0; every one is reachable, and can reach an accepting one unless it is `empty`."""

    next_SG: IntArray
    """The state that follows, -1 where there is none."""
    group_B: NDArray[np.int64]
    accepting_S: NDArray[np.bool_]
    start: int
    counts: Counts | None = None
    """Counts of the counted states; one is entered in its first count."""

    @property
    def empty(self) -> bool:
        """Tells whether it accepts no text at all."""
        return not bool(self.accepting_S.any())

    @property
    def next_SB(self) -> IntArray:
        """Returns the state that follows each byte."""
        return self.next_SG[:, self.group_B]

    @property
    def size(self) -> int:
        """Returns the number of states, each count of a counted one by itself."""
        return len(self.accepting_S) + (0 if self.counts is None else int((self.counts.length_L - 1).sum()))

    def matches(self, text: str) -> bool:
        """Tells whether the text as a whole is in the language."""
        return self.accepted_part(encode(text))[1]

    def accepted_part(self, text: bytes) -> tuple[int, bool]:
        """Says how many bytes of a text can begin one of the language, and whether the text as a whole is one."""
        if self.counts is not None:
            return self._counted_part(text, self.counts)
        known: dict[int, list[int]] = {}
        group_B, state = self.group_B, self.start
        for done, byte in enumerate(text):
            if (row := known.get(state)) is None:
                row = known[state] = self.next_SG[state][group_B].tolist()
            if (state := row[byte]) < 0:
                return done, False
        return len(text), bool(self.accepting_S[state])

    def _counted_part(self, text: bytes, counts: Counts) -> tuple[int, bool]:
        """The same with counters: a state's rows, those of its last count, and its last count."""
        place_of = {int(state): place for place, state in enumerate(counts.state_L)}
        known: dict[int, tuple[_Moves, _Moves, int]] = {}
        group_B = self.group_B
        state, count = self.start, 0
        for done, byte in enumerate(text):
            if (found := known.get(state)) is None:
                row = self.next_SG[state][group_B].tolist()
                if (place := place_of.get(state)) is None:
                    plain = row, [ABSOLUTE] * len(row)
                    found = known[state] = plain, plain, 0
                else:
                    inner = row, counts.shift_LG[place][group_B].tolist()
                    last = counts.last_LG[place][group_B].tolist(), counts.last_shift_LG[place][group_B].tolist()
                    found = known[state] = inner, last, int(counts.length_L[place]) - 1
            targets, shifts = found[1] if count == found[2] else found[0]
            if (state := targets[byte]) < 0:
                return done, False
            shift = shifts[byte]
            count = count + (shift == NEXT) if shift != ABSOLUTE else 0
        return len(text), bool(self.accepting_S[state])

    def begins(self) -> NDArray[np.int64]:
        """Says where each state, or its first count, stands when all counts are states."""
        length_S = np.ones(len(self.accepting_S), dtype=np.int64)
        if self.counts is not None:
            length_S[self.counts.state_L] = self.counts.length_L
        return length_S.cumsum() - length_S

    def spelled(self, kept_L: NDArray[np.bool_] | None = None) -> "ByteAutomaton":
        """Returns the same language without counters, but for those of the counted states `kept_L`.

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


def intersect(one: ByteAutomaton, other: ByteAutomaton) -> ByteAutomaton:
    """Returns the automaton of the texts that both accept.

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
    next_one, next_other = one.next_SG.take(of_one, axis=1), other.next_SG.take(of_other, axis=1)
    start = one.start * width + other.start
    counts = one.counts
    if counts is None and (walked := paired(next_one, next_other, start)) is not None:
        pairs, rows_PG = walked
        first, second = np.divmod(pairs, width)
        return minimal(Table(rows_PG, group_B, one.accepting_S[first] & other.accepting_S[second], None))
    counted_S = np.full(len(one.accepting_S), -1)
    if counts is not None:
        counted_S[counts.state_L] = np.arange(len(counts.state_L))
        last_one = counts.last_LG[:, of_one]

    def both(of_one: IntArray, of_other: IntArray) -> NDArray[np.int64]:
        return np.where((of_one >= 0) & (of_other >= 0), of_one.astype(np.int64) * width + of_other, -1)

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
    table = Table(numbered(np.concatenate(rows)), group_B, accepting, product)
    return minimal(table if counts is not None else breadth_first(table))


def difference(one: ByteAutomaton, other: ByteAutomaton) -> ByteAutomaton:
    """Returns the automaton of the texts that the first accepts and the second does not.

    Raises:
        OptionError: it would have too many states.
    """
    other = other.spelled()
    states, groups = other.next_SG.shape
    rows = np.vstack([np.where(other.next_SG < 0, states, other.next_SG), np.full((1, groups), states)])
    flipped = np.append(~other.accepting_S, True)
    return intersect(one, ByteAutomaton(rows.astype(np.int32), other.group_B, flipped, other.start))


def minimal(table: Table) -> ByteAutomaton:
    """Returns the automaton of a table, minimal but for its counters."""
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
        # Where nothing follows any more no count goes on: `spelled` would take the one before the first state for it.
        shifts = [
            np.where(follows < 0, ABSOLUTE, shift).astype(np.uint8)
            for follows, shift in (
                (rows[state_L], counts.shift_LG[alive]),
                (last_rows, counts.last_shift_LG[alive]),
            )
        ]
        if not alive.any():
            counts = None
    column_G, firsts = _numbered_columns([rows, last_rows, *shifts])
    group_B = column_G[table.group_B]
    if len(firsts) < len(column_G):
        rows = np.ascontiguousarray(rows[:, firsts])
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
    return ByteAutomaton(rows, group_B, table.accepting_S[kept], int(number_S[0]), made)


def _numbered_columns(tables: Sequence[NDArray[np.integer]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Numbers of the columns that tables have together, in order and equal ones alike, and where each comes first."""
    for seed in range(10):
        random = np.random.default_rng(seed)
        hash_G = np.zeros(tables[0].shape[1], dtype=np.uint64)
        for table in tables:
            weights = random.integers(2**64, size=len(table), dtype=np.uint64)
            hash_G += np.einsum("s,sg->g", weights, table, dtype=np.uint64, casting="unsafe")
        number: dict[int, int] = {}
        column_G = np.array([number.setdefault(code, len(number)) for code in hash_G.tolist()])
        firsts = np.unique(column_G, return_index=True)[1]
        # That none fell together by chance is checked; if so, again.
        doubles = np.flatnonzero(firsts[column_G] != np.arange(len(column_G)))
        if all((table[:, doubles] == table[:, firsts[column_G[doubles]]]).all() for table in tables):
            return column_G, firsts
    raise AssertionError("columns fell together")
