"""Deterministic automata over tokens.

Tokens with the same transitions in every state form a class, so that what a model says of a whole vocabulary is
first summed up over few classes. In an accepting state an end token leads to the last state, `done`, in which only
the filling token follows: a finished canvas reads `text, end, fill, fill, ...`.

    S states   K classes   V vocabulary
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gesso.errors import OptionError

IntArray = NDArray[np.int32]

REFUSED = -1
"""In place of a state or a class: there is none."""
FAR = 2**31 - 1
"""A distance that is never covered."""


@dataclass(frozen=True, eq=False)
class TokenAutomaton:
    """A language of token sequences; every state can be reached and can reach `done`. All arrays are on the host."""

    class_V: IntArray
    """The class of each token, `REFUSED` for one that no state takes."""
    next_SK: IntArray
    """The state that follows, or `REFUSED`."""
    distance_S: IntArray
    """The fewest tokens to `done`, the end token included."""
    start: int
    end_tokens: tuple[int, ...]
    fill_token: int

    @property
    def done(self) -> int:
        """The state after the end: the last one."""
        return len(self.next_SK) - 1

    @property
    def vocab_size(self) -> int:
        return len(self.class_V)

    @property
    def shortest(self) -> int:
        """Tokens of the shortest valid output, the end token included."""
        return int(self.distance_S[self.start])

    @cached_property
    def longest(self) -> int | None:
        """Tokens of the longest valid output, the end token included; None where there is no longest."""
        longest_S: dict[int, int] = {self.done: 0}
        open_S: set[int] = set()
        stack = [self.start]
        followers = [np.unique(row[row >= 0]).tolist() for row in self.next_SK]
        while stack:
            state = stack[-1]
            if state in longest_S:
                stack.pop()
                continue
            open_S.add(state)
            waiting = [after for after in followers[state] if after not in longest_S]
            if open_S.intersection(waiting):
                return None  # a way back: it can be gone again and again
            if waiting:
                stack += waiting
                continue
            longest_S[state] = 1 + max(longest_S[after] for after in followers[state])
            open_S.discard(state)
            stack.pop()
        return longest_S[self.start]

    @cached_property
    def accepting_S(self) -> NDArray[np.bool_]:
        """Where the text may end; `done` is among them."""
        return np.asarray(self.distance_S <= 1)

    @cached_property
    def first_token_K(self) -> NDArray[np.int64]:
        """The lowest token of each class."""
        classes, firsts = np.unique(self.class_V, return_index=True)
        return firsts[classes >= 0]

    def advance(self, state: int, tokens: Iterable[int]) -> int:
        """The state after `tokens`, or `REFUSED`."""
        for token in tokens:
            kind = int(self.class_V[token]) if 0 <= token < len(self.class_V) else REFUSED
            state = REFUSED if kind < 0 or state < 0 else int(self.next_SK[state, kind])
            if state < 0:
                return REFUSED
        return state

    def completion(self, state: int) -> list[int]:
        """One of the shortest sequences from `state` to `done`, the end token included; of equals the lowest ids."""
        tokens = []
        while state != self.done:
            row = self.next_SK[state]
            nearer = np.flatnonzero((row >= 0) & (self.distance_S[row] == self.distance_S[state] - 1))
            kind = nearer[self.first_token_K[nearer].argmin()]
            tokens.append(int(self.first_token_K[kind]))
            state = int(row[kind])
        return tokens

    @classmethod
    def from_table(
        cls,
        next_SV: ArrayLike,
        accepting: Iterable[int],
        end_tokens: Iterable[int],
        start: int = 0,
        fill_token: int | None = None,
    ) -> "TokenAutomaton":
        """An automaton from its text states' transitions, token by token (`REFUSED` where there is none).

        Raises:
            OptionError: see `assemble`.
        """
        table_SV = np.asarray(next_SV, dtype=np.int32)
        accepting_S = np.zeros(len(table_SV), dtype=np.bool_)
        accepting_S[list(accepting)] = True
        next_SK, class_V = _distinct_columns(table_SV)
        return cls.assemble(class_V, next_SK, accepting_S, start, tuple(end_tokens), fill_token)

    @classmethod
    def assemble(
        cls,
        class_V: IntArray,
        next_SK: IntArray,
        accepting_S: NDArray[np.bool_],
        start: int,
        end_tokens: tuple[int, ...],
        fill_token: int | None = None,
    ) -> "TokenAutomaton":
        """Add the end to an automaton over texts, drop useless states, and merge classes that are alike.

        Args:
            class_V: of each token; end tokens and the filling token are no text, whatever is written here.
            next_SK: between text states.
            accepting_S: where the text may end.
            start: a text state.
            end_tokens: each ends the text.
            fill_token: what follows the end; without it the first end token.

        Raises:
            OptionError: no sequence of tokens is accepted.
        """
        fill = end_tokens[0] if fill_token is None else fill_token
        states, classes = next_SK.shape
        outside = sorted({fill, *end_tokens})
        class_V = class_V.copy()
        class_V[outside] = classes + np.arange(len(outside))
        table = np.full((states + 1, classes + len(outside)), REFUSED, dtype=np.int32)
        table[:states, :classes] = next_SK
        for kind, token in enumerate(outside, start=classes):
            table[:states, kind][accepting_S] = states if token in end_tokens else REFUSED
            table[states, kind] = states if token == fill else REFUSED
        table[:, np.bincount(class_V[class_V >= 0], minlength=table.shape[1]) == 0] = REFUSED

        source, target = _pairs(table)
        distance_S = _steps(target, source, states + 1, states)
        kept = np.flatnonzero((_steps(source, target, states + 1, start) < FAR) & (distance_S < FAR))
        if distance_S[start] == FAR:
            raise OptionError("the constraint allows no text that this vocabulary can spell")
        number = np.full(states + 2, REFUSED, dtype=np.int32)
        number[kept] = np.arange(len(kept))
        merged, column_K = _distinct_columns(number[table[kept]])
        column_V = np.where(class_V >= 0, column_K[class_V], REFUSED).astype(np.int32)
        return cls(column_V, merged, distance_S[kept], int(number[start]), tuple(end_tokens), fill)


def _distinct_columns(table_SK: IntArray) -> tuple[IntArray, IntArray]:
    """The columns that differ, in the order in which they first come, and of each column its place among them, or
    `REFUSED` where it refuses everywhere."""
    columns_KS = np.ascontiguousarray(table_SK.T)
    number = {np.full(len(table_SK), REFUSED, dtype=np.int32).tobytes(): REFUSED}
    place_K = np.array([number.setdefault(row.tobytes(), len(number) - 1) for row in columns_KS], dtype=np.int32)
    _, firsts = np.unique(place_K[place_K >= 0], return_index=True)
    return np.ascontiguousarray(table_SK[:, np.flatnonzero(place_K >= 0)[firsts]]), place_K


def _pairs(table_SK: IntArray) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """States and states that follow them, each pair once."""
    source, kind = np.nonzero(table_SK >= 0)
    first, second = np.divmod(np.unique(source * len(table_SK) + table_SK[source, kind]), len(table_SK))
    return first, second


def _steps(source: NDArray[np.int64], target: NDArray[np.int64], states: int, start: int) -> IntArray:
    """The fewest steps from `start` to each state, breadth first."""
    order = np.argsort(source, kind="stable")
    begins = np.searchsorted(source[order], np.arange(states + 1))
    followers = target[order]
    steps_S = np.full(states, FAR, dtype=np.int32)
    frontier = np.array([start])
    step = 0
    while len(frontier):
        steps_S[frontier] = step
        counts = begins[frontier + 1] - begins[frontier]
        places = np.repeat(begins[frontier] - counts.cumsum() + counts, counts) + np.arange(counts.sum())
        found = np.unique(followers[places])
        frontier = found[steps_S[found] == FAR]
        step += 1
    return steps_S
