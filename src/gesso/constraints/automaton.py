"""Defines deterministic automata over tokens.

Tokens with the same transitions in every state form a class, so that what a model says of a whole vocabulary is
first summed up over few classes. In an accepting state an end token leads to the last state, `done`, in which only
the filling token follows: a finished canvas reads `text, end, fill, fill, ...`.

    S states   K classes   V vocabulary
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gesso.constraints.distances import FAR, distinct_pairs, heights, steps
from gesso.constraints.transitions import REFUSED, IntArray, Transitions
from gesso.errors import OptionError

UNSPELLABLE = "the constraint allows no text that this vocabulary can spell"


@dataclass(frozen=True, eq=False)
class Families:
    """States that differ in a counter only, and the rows that they share.

    A family has as many states as its counter has values, numbered in their order, and few rows: the last states have
    one each, and all before them share the first, for no token counts so far that it would meet the end from there.
    """

    begin_F: NDArray[np.int64]
    """The first state of each family; families follow each other, behind the states that are in none."""
    length_F: NDArray[np.int64]
    row_F: NDArray[np.int64]
    """The first of each family's rows."""
    rows_F: NDArray[np.int64]
    moves_RK: NDArray[np.bool_]
    """Where a row's target is relative: it lies as far behind what the row says as the state lies behind the row's."""

    @property
    def states(self) -> int:
        return int(self.begin_F[-1] + self.length_F[-1])

    def rows(self, state_N: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns the row of each state, and how far a state lies behind the first one with its targets."""
        family_N = np.searchsorted(self.begin_F, state_N, side="right") - 1
        inside = family_N >= 0
        family_N = family_N.clip(min=0)
        place_N = state_N - self.begin_F[family_N]
        row_N = (place_N - self.length_F[family_N] + self.rows_F[family_N]).clip(min=0)
        return (
            np.where(inside, self.row_F[family_N] + row_N, state_N),
            np.where(inside, place_N - row_N, 0),
        )


@dataclass(frozen=True, eq=False)
class TokenAutomaton:
    """Holds a language of token sequences; from every state that `advance` gives `done` can be reached. All arrays are
    on the host. Without `families` rows and states are the same."""

    class_V: IntArray
    """The class of each token, `REFUSED` for one that no state takes."""
    next_SK: IntArray
    """The state that follows, or `REFUSED`; one row for each state that is in no family, then the families' rows."""
    distance_S: IntArray
    """Of each row, the fewest tokens to `done`, the end token included."""
    start: int
    end_tokens: tuple[int, ...]
    fill_token: int
    families: Families | None = None

    @property
    def done(self) -> int:
        """Returns the state after the end: the last one that is in no family."""
        return len(self.next_SK) - 1 if self.families is None else int(self.families.begin_F[0]) - 1

    @property
    def states(self) -> int:
        return len(self.next_SK) if self.families is None else self.families.states

    @property
    def vocab_size(self) -> int:
        return len(self.class_V)

    @property
    def shortest(self) -> int:
        """Returns the number of tokens of the shortest valid output, the end token included."""
        return self.distance(self.start)

    @cached_property
    def longest(self) -> int | None:
        """Returns the number of tokens of the longest valid output, the end token included; None where there is no
        longest, or a counter bounds it so that none of usual length meets it."""
        if self.families is not None:
            return None
        source, kind = np.nonzero(self.next_SK >= 0)
        target = self.next_SK[source, kind]
        inner = source != self.done
        height = heights(*distinct_pairs(source[inner], target[inner], self.states), self.states)[self.start]
        return None if height == FAR else int(height)

    @cached_property
    def accepting_S(self) -> NDArray[np.bool_]:
        """Tells of each row whether the text may end; `done` is among them."""
        return np.asarray(self.distance_S <= 1)

    def distance(self, state: int) -> int:
        """Returns the fewest tokens from a state to `done`, the end token included."""
        return int(self.distances(np.array([state]))[0])

    def distances(self, state_N: NDArray[np.int64]) -> IntArray:
        """Returns the distances of several states."""
        return self.distance_S[state_N if self.families is None else self.families.rows(state_N)[0]]

    def after(self, state: int) -> NDArray[np.int64]:
        """Returns the state that follows each class of tokens, or `REFUSED`."""
        if self.families is None:
            row: NDArray[np.int64] = self.next_SK[state].astype(np.int64)
            return row
        (place,), (offset,) = self.families.rows(np.array([state]))
        moved: NDArray[np.int64] = self.next_SK[place] + self.families.moves_RK[place] * offset
        return moved

    @cached_property
    def first_token_K(self) -> NDArray[np.int64]:
        """Returns the lowest token of each class."""
        classes, firsts = np.unique(self.class_V, return_index=True)
        return firsts[classes >= 0]

    def advance(self, state: int, tokens: Iterable[int]) -> int:
        """Returns the state after `tokens`, or `REFUSED`."""
        for token in tokens:
            kind = int(self.class_V[token]) if 0 <= token < len(self.class_V) else REFUSED
            state = REFUSED if kind < 0 or state < 0 else int(self.after(state)[kind])
            if state < 0:
                return REFUSED
        return state

    def completion(self, state: int) -> list[int]:
        """Returns one of the shortest sequences from `state` to `done`, the end token included; of equals the lowest
        ids."""
        tokens = []
        while state != self.done:
            row = self.after(state)
            nearer = np.flatnonzero((row >= 0) & (self.distances(row) == self.distance(state) - 1))
            kind = nearer[self.first_token_K[nearer].argmin()]
            tokens.append(int(self.first_token_K[kind]))
            state = int(row[kind])
        return tokens

    @classmethod
    def assemble(
        cls,
        class_V: IntArray,
        transitions: Transitions,
        accepting_S: NDArray[np.bool_],
        start: int,
        end_tokens: tuple[int, ...],
        fill_token: int | None = None,
    ) -> "TokenAutomaton":
        """Adds the end to an automaton over texts, drops useless states, and merges classes that are alike.

        Args:
            class_V: of each token; end tokens and the filling token are no text, whatever is written here.
            transitions: between text states.
            accepting_S: where the text may end.
            start: a text state.
            end_tokens: each ends the text.
            fill_token: what follows the end; without it the first end token.

        Raises:
            OptionError: no sequence of tokens is accepted.
        """
        fill = end_tokens[0] if fill_token is None else fill_token
        states = len(accepting_S)
        transitions, class_V = transitions.with_ends(class_V, accepting_S, end_tokens, fill, states)
        source, target = transitions.pairs(states + 1)
        distance_S = steps(target, source, states + 1, np.array([states]))
        reached_S = steps(source, target, states + 1, np.array([start])) < FAR
        kept = np.flatnonzero(reached_S & (distance_S < FAR))
        if distance_S[start] == FAR:
            raise OptionError(UNSPELLABLE)
        number = np.full(states + 1, REFUSED, dtype=np.int32)
        number[kept] = np.arange(len(kept))
        next_SK, place_K = transitions.merged(number, number, len(kept), len(kept))
        column_V = np.append(place_K, REFUSED).astype(np.int32)[class_V]
        return cls(column_V, next_SK, distance_S[kept], int(number[start]), tuple(end_tokens), fill)
