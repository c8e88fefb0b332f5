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
from contextlib import suppress
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from gesso.constraints import budget
from gesso.constraints.automaton import Families, TokenAutomaton
from gesso.constraints.byte_table import ByteAutomaton
from gesso.constraints.deterministic import ABSOLUTE, Counts
from gesso.constraints.distances import FAR, distinct_pairs, steps
from gesso.constraints.token_functions import CollisionError, Functions
from gesso.constraints.transitions import REFUSED, IntArray, Transitions
from gesso.constraints.vocabulary_tree import VocabularyTree
from gesso.errors import OptionError

_PART = 1 << 20
"""Cells of a table that are worked on at a time."""


def token_automaton(
    texts: ByteAutomaton, tree: VocabularyTree, end_tokens: Sequence[int], fill_token: int | None = None
) -> TokenAutomaton:
    """Returns the sequences of tokens whose bytes, joined, the byte automaton accepts.

    Raises:
        OptionError: there are none, or the automaton is too large.
    """
    ends = tuple(end_tokens)
    fill = ends[0] if fill_token is None else fill_token
    while texts.counts is not None:
        counts = texts.counts
        steady_L = len(tree.parents) // counts.least_bytes_L + 2
        long_L = counts.length_L > steady_L + 1
        if long_L.all():
            # Near its end a counter may be in the way of the shortest way on: then more of its last values have rows.
            # Where the end is out of reach the shortest text counts farther; then it is spelled out if there is room.
            uneven: set[int] = set()
            last_L, goes_on = np.ones_like(steady_L), True
            while goes_on and (counts.length_L > steady_L + last_L).all():
                made = _with_families(texts, tree, steady_L, steady_L + last_L, ends, fill)
                if isinstance(made, TokenAutomaton):
                    return made
                uneven, cut_short = made
                first = bool((last_L == 1).all())
                spelled_out = counts.length_L[np.isin(counts.length_L, sorted(uneven))].sum() + len(texts.accepting_S)
                goes_on = first or (cut_short and spelled_out > budget.current().max_states)
                last_L = steady_L + 1 if first else 2 * last_L
            # The way to the end depends on the count: such a counter is spelled out.
            long_L &= ~np.isin(counts.length_L, sorted(uneven))
        texts = texts.spelled(long_L)
    class_V, transitions = _classes(texts.next_SG, texts.group_B, np.arange(len(texts.accepting_S)), tree)
    return TokenAutomaton.assemble(class_V, transitions, texts.accepting_S, texts.start, ends, fill_token)


def _classes(
    next_SG: IntArray, group_B: NDArray[np.int64], from_D: NDArray[np.int64], tree: VocabularyTree
) -> tuple[IntArray, Transitions]:
    """The class of each token, and what the tokens of each class do, from places in `from_D`."""
    for seed in range(10):
        with suppress(CollisionError):
            functions = Functions(next_SG, from_D, seed)
            function_V = np.full(tree.size, functions.NOWHERE, dtype=np.int32)
            above = np.array([functions.IDENTITY], dtype=np.int32)
            for parents, labels, (tokens, nodes) in zip(tree.parents, tree.labels, tree.ends, strict=True):
                above = functions.descend(above, parents, labels, group_B)
                function_V[tokens] = above[nodes]
            used_F = np.zeros(len(functions.length_F), dtype=np.bool_)
            used_F[function_V] = True
            class_F = used_F.cumsum(dtype=np.int32) - 1
            return class_F.take(function_V), functions.transitions(np.flatnonzero(used_F))
    raise AssertionError("functions fell together")


def _with_families(
    texts: ByteAutomaton,
    tree: VocabularyTree,
    steady_L: NDArray[np.int64],
    rows_L: NDArray[np.int64],
    ends: tuple[int, ...],
    fill: int,
) -> TokenAutomaton | tuple[set[int], bool]:
    """The automaton where every counted state becomes a family; or lengths of counters that cannot be one, and whether
    the end is out of reach from some of their values, as it may be for want of rows alone.

    Args:
        steady_L: more values than a token counts, and so many of the first rows must be as far from the end: then all
            values before them are.
        rows_L: of each family.
    """
    counts = texts.counts
    assert counts is not None
    short = replace(texts, counts=replace(counts, length_L=rows_L))
    spelled, begin_S = short.spelled(), short.begins()
    states, families = len(spelled.accepting_S), len(rows_L)
    own, copies_CG = _copies(counts, rows_L, begin_S[counts.state_L], spelled.next_SG)
    copy_of = np.full(states, REFUSED)
    copy_of[own] = states + np.arange(len(own))
    next_SG = np.vstack([spelled.next_SG, copies_CG])
    plain = np.flatnonzero(copy_of == REFUSED)
    from_D = np.concatenate([plain, states + np.arange(len(own))])
    class_V, found = _classes(next_SG, texts.group_B, from_D, tree)

    # Rows: the plain states, done, the families'. Targets, first as rows: to hold them against each other is easy so.
    first_row = len(plain) + 1
    row_of = np.full(states + len(own) + 1, REFUSED)
    row_of[plain] = np.arange(len(plain))
    row_of[own] = row_of[copy_of[own]] = first_row + np.arange(len(own))
    done = states + len(own)
    row_of[done] = len(plain)
    listed, class_V = found.with_ends(class_V, spelled.accepting_S[np.concatenate([plain, own])], ends, fill, done)
    # The row of `done` comes behind the plain states', not behind all.
    row_D = np.append(np.delete(np.arange(len(from_D) + 1), len(plain)), len(plain))
    rows = len(from_D) + 1
    source, target = listed.pairs(len(row_of))
    first, second = distinct_pairs(row_D[source], row_of[target], rows)
    distance_R = steps(second, first, rows, np.array([len(plain)]))
    start = int(row_of[begin_S[texts.start]])
    row_F = first_row + rows_L.cumsum() - rows_L
    distances = [np.unique(distance_R[row : row + steady]) for row, steady in zip(row_F, steady_L, strict=True)]
    uneven = {int(length) for length, found in zip(counts.length_L, distances, strict=True) if len(found) > 1}
    if distance_R[start] == FAR:
        return uneven or set(counts.length_L.tolist()), True
    if uneven:
        return uneven, any(len(found) > 1 and found[-1] == FAR for found in distances)
    begin_F = first_row + counts.length_L.cumsum() - counts.length_L
    if begin_F[-1] + counts.length_L[-1] > np.iinfo(np.int32).max:
        raise OptionError("the constraint is too large: its counters have more than 2^31 values in all")
    family_R = np.repeat(np.arange(families), rows_L)
    state_of_row = np.arange(first_row + len(own))
    state_of_row[first_row:] += (begin_F - row_F)[family_R]
    # A number for a row, and whether it is relative.
    code_of = 2 * row_of
    code_of[states:done] += 1
    code_of[(row_of < 0) | (distance_R[row_of] == FAR)] = REFUSED
    code_RK, column_K = listed.merged(row_D.astype(np.int32), code_of.astype(np.int32), rows, 2 * rows)
    column_V = np.append(column_K, REFUSED).astype(np.int32)[class_V]
    state_of_code = np.append(np.repeat(state_of_row, 2), REFUSED).astype(np.int32)
    moves_of_code = np.append(np.arange(2 * rows) % 2 == 1, False)
    # In place and by parts: the table may be as large as memory allows, and NumPy widens what it looks up with.
    moves_RK = np.empty(code_RK.shape, dtype=np.bool_)
    part = max(1, _PART // max(1, code_RK.shape[1]))
    for begin in range(0, len(code_RK), part):
        codes = code_RK[begin : begin + part]
        moves_RK[begin : begin + part] = moves_of_code[codes]
        codes[:] = state_of_code[codes]
    made = Families(begin_F, counts.length_L, row_F, rows_L, moves_RK)
    return TokenAutomaton(column_V, code_RK, distance_R, int(state_of_row[start]), ends, fill, made)


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
