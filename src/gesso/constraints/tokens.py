"""Turns an automaton over bytes into one over a vocabulary's tokens.

A token acts on the states of a byte automaton as a function: where each state goes when the token's bytes follow.
Tokens with equal functions are one class, and there are far fewer functions than tokens: a function is composed
from that of the token without its last byte, so the vocabulary is walked as a tree, level by level, and a pair of a
function and a kind of byte is worked out once however many tokens share it.

A counted state takes part with a few of its counts: the last ones, and before them one from which no token comes near
the end, for that is what all lower counts are like. What a token does from there is *relative* where it stays with the
same counter without entering it anew. To know which, functions lead from a copy of the counted states, kept apart from
those that are entered on the way: what ends in the copy is relative.

    S states   D states that functions are defined on   V vocabulary   F functions
    G kinds of bytes that no state tells apart   R rows   K classes   N nodes of a level
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from gesso.constraints import budget
from gesso.constraints.automaton import (
    REFUSED,
    UNSPELLABLE,
    Families,
    IntArray,
    TokenAutomaton,
    distinct_columns,
    with_ends,
)
from gesso.constraints.byte_table import ByteAutomaton
from gesso.constraints.determinize import ABSOLUTE, Counts
from gesso.constraints.minimize import FAR, distinct_pairs, steps
from gesso.constraints.vocabulary_tree import VocabularyTree
from gesso.errors import OptionError

_UNKNOWN = -1
_BATCH = 1 << 22


def token_automaton(
    texts: ByteAutomaton, tree: VocabularyTree, end_tokens: Sequence[int], fill_token: int | None = None
) -> TokenAutomaton:
    """Returns the sequences of tokens whose bytes, joined, the byte automaton accepts.

    Raises:
        OptionError: there are none, or the automaton is too large.
    """
    ends = tuple(end_tokens)
    while texts.counts is not None:
        counts = texts.counts
        rows_L = len(tree.parents) // counts.least_bytes_L + 3
        long_L = counts.length_L > rows_L
        if long_L.all():
            made = _with_families(texts, tree, rows_L, ends, ends[0] if fill_token is None else fill_token)
            if isinstance(made, TokenAutomaton):
                return made
            # The way to the end depends on the count: such a counter is spelled out.
            long_L &= ~np.isin(counts.length_L, sorted(made))
        texts = texts.spelled(long_L)
    next_SG, group_of_group = np.unique(texts.next_SG, axis=1, return_inverse=True)
    functions, class_V, used = _classes(
        next_SG, group_of_group.reshape(-1)[texts.group_B], np.arange(len(texts.accepting_S)), tree
    )
    next_SK = np.ascontiguousarray(functions.table_FD[used].T)
    return TokenAutomaton.assemble(class_V, next_SK, texts.accepting_S, texts.start, ends, fill_token)


def _classes(
    next_SG: IntArray, group_of_byte: NDArray[np.int64], from_D: NDArray[np.int64], tree: VocabularyTree
) -> tuple["_Functions", IntArray, NDArray[np.int64]]:
    """The functions of all tokens, the class of each token, and each class's function."""
    functions = _Functions(next_SG, from_D)
    function_V = np.full(tree.size, functions.NOWHERE)
    above = np.array([functions.IDENTITY])
    for parents, labels, (tokens, nodes) in zip(tree.parents, tree.labels, tree.ends, strict=True):
        above = functions.follow(above[parents], group_of_byte[labels])
        function_V[tokens] = above[nodes]
    used, class_V = np.unique(function_V, return_inverse=True)
    return functions, class_V.astype(np.int32), used


def _with_families(
    texts: ByteAutomaton, tree: VocabularyTree, rows_L: NDArray[np.int64], ends: tuple[int, ...], fill: int
) -> TokenAutomaton | set[int]:
    """The automaton where every counted state becomes a family; or lengths of counters that cannot be one."""
    counts = texts.counts
    assert counts is not None
    short = replace(texts, counts=replace(counts, length_L=rows_L))
    spelled, begin_S = short.spelled(), short.begins()
    states, families = len(spelled.accepting_S), len(rows_L)
    own, copies_CG = _copies(counts, rows_L, begin_S[counts.state_L], spelled.next_SG)
    copy_of = np.full(states, REFUSED)
    copy_of[own] = states + np.arange(len(own))
    next_SG, group_of_group = np.unique(np.vstack([spelled.next_SG, copies_CG]), axis=1, return_inverse=True)
    plain = np.flatnonzero(copy_of == REFUSED)
    functions, class_V, used = _classes(
        next_SG, group_of_group.reshape(-1)[texts.group_B], np.concatenate([plain, states + np.arange(len(own))]), tree
    )

    # Rows: the plain states, done, the families'. Targets, first as rows: to hold them against each other is easy so.
    first_row = len(plain) + 1
    row_of = np.full(states + len(own) + 1, REFUSED)
    row_of[plain] = np.arange(len(plain))
    row_of[own] = row_of[copy_of[own]] = first_row + np.arange(len(own))
    target_RK = functions.table_FD[used].T
    order = np.concatenate([plain, own])
    accepting, done = spelled.accepting_S[order], REFUSED - 1
    next_RK, class_V = with_ends(row_of[target_RK].astype(np.int32), class_V, accepting, ends, fill, done)
    next_RK = np.insert(next_RK[:-1], len(plain), next_RK[-1], axis=0)
    next_RK[next_RK == done] = len(plain)
    moves_RK = np.zeros_like(next_RK, dtype=np.bool_)
    moves_RK[:, : target_RK.shape[1]] = np.insert(target_RK >= states, len(plain), False, axis=0)
    source, kind = np.nonzero(next_RK >= 0)
    first, second = distinct_pairs(source, next_RK[source, kind], len(next_RK))
    distance_R = steps(second, first, len(next_RK), np.array([len(plain)]))
    start = int(row_of[begin_S[texts.start]])
    if distance_R[start] == FAR:
        raise OptionError(UNSPELLABLE)
    row_F = first_row + rows_L.cumsum() - rows_L
    uneven = {
        int(length)
        for length, row, rows in zip(counts.length_L, row_F, rows_L, strict=True)
        if len(np.unique(distance_R[row : row + rows - 1])) > 1
    }
    if uneven:
        return uneven
    dead = (next_RK < 0) | (distance_R[next_RK] == FAR)
    begin_F = first_row + counts.length_L.cumsum() - counts.length_L
    family_R = np.repeat(np.arange(families), rows_L)
    state_of_row = np.arange(first_row + len(own))
    state_of_row[first_row:] += (begin_F - row_F)[family_R]
    next_RK = np.where(dead, REFUSED, state_of_row[next_RK])
    moves_RK &= ~dead
    _, column_K, firsts = distinct_columns(np.where(dead, REFUSED, next_RK * 2 + moves_RK))
    column_V = np.where(class_V >= 0, column_K[class_V], REFUSED).astype(np.int32)
    table_RK, moves_RK = next_RK[:, firsts].astype(np.int32), moves_RK[:, firsts]
    made = Families(begin_F, counts.length_L, row_F, rows_L, moves_RK)
    first_state = int(state_of_row[start])
    return TokenAutomaton(column_V, table_RK, distance_R, first_state, ends, fill, made)


def _copies(
    counts: Counts, rows_L: NDArray[np.int64], begin_L: NDArray[np.int64], next_SG: IntArray
) -> tuple[NDArray[np.int64], IntArray]:
    """The counted states, and the rows of their copies, which stand behind all states."""
    own = np.concatenate([np.arange(begin, begin + rows) for begin, rows in zip(begin_L, rows_L, strict=True)])
    copy_of = np.full(len(next_SG), REFUSED)
    copy_of[own] = len(next_SG) + np.arange(len(own))
    stays_CG = np.repeat(counts.shift_LG != ABSOLUTE, rows_L, axis=0)
    stays_CG[rows_L.cumsum() - 1] = counts.last_shift_LG != ABSOLUTE
    rows_CG = next_SG[own]
    return own, np.where(stays_CG & (rows_CG >= 0), copy_of[rows_CG], rows_CG).astype(np.int32)


class _Functions:
    """Functions from states to states, each kept once, and what becomes of them when a kind of byte follows."""

    IDENTITY: ClassVar[int] = 0
    NOWHERE: ClassVar[int] = 1

    def __init__(self, next_SG: IntArray, from_D: NDArray[np.int64]) -> None:
        """The functions are defined on the states `from_D` only."""
        groups = next_SG.shape[1]
        # The row behind the last one is that of "no state", which is written -1 and so indexes it.
        self.next_SG = np.vstack([next_SG, np.full((1, groups), REFUSED, dtype=np.int32)])
        first = [from_D.astype(np.int32), np.full(len(from_D), REFUSED, dtype=np.int32)]
        self.number = {row.tobytes(): place for place, row in enumerate(first)}
        self.table_FD = np.stack(first)
        self.count = 2
        self.asked = budget.current()
        self.then_FG = np.full((2, groups), _UNKNOWN, dtype=np.int64)

    def follow(self, function_N: NDArray[np.int64], group_N: NDArray[np.int64]) -> NDArray[np.int64]:
        """Each function with one more byte."""
        groups = self.next_SG.shape[1]
        codes = function_N * groups + group_N
        flags = np.zeros(self.then_FG.size, dtype=np.bool_)
        flags[codes] = True
        new = np.flatnonzero(flags & (self.then_FG.ravel() == _UNKNOWN))
        stride = max(1, _BATCH // self.table_FD.shape[1])
        for begin in range(0, len(new), stride):
            self.asked.check()
            self._compose(*np.divmod(new[begin : begin + stride], groups))
        followers: NDArray[np.int64] = self.then_FG.ravel()[codes]
        return followers

    def _compose(self, functions: NDArray[np.int64], groups: NDArray[np.int64]) -> None:
        rows = self.next_SG[self.table_FD[functions], groups[:, None]]
        before = self.count
        found = np.array([self.number.setdefault(row.tobytes(), len(self.number)) for row in rows])
        self.count = len(self.number)
        self.asked.bytes(self.count * self.table_FD.shape[1] * 4)
        if self.count > len(self.table_FD):
            room = 2 * self.count - len(self.table_FD)
            self.table_FD = np.pad(self.table_FD, ((0, room), (0, 0)))
            self.then_FG = np.pad(self.then_FG, ((0, room), (0, 0)), constant_values=_UNKNOWN)
        fresh = found >= before
        self.table_FD[found[fresh]] = rows[fresh]
        self.then_FG[functions, groups] = found
