"""Builds automata over arrays whose items all differ.

That two texts of any length differ is nothing that an automaton can find out. What it can: each item has a *sum*, over
the bytes of a string or the digits of a number, modulo a small number; of an object it is that of one named member,
where that comes first. Equal values have equal sums however they are written, so items whose sums differ are different.
The states say which sums were there already, and what the item that is being written adds up to.

    P states of an item and of what adds up   B = 256 bytes   G groups of bytes that do the same   M sums
"""

from collections.abc import Iterator
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

from gesso.constraints import budget
from gesso.constraints.byte_table import ByteAutomaton, minimal
from gesso.constraints.deterministic import Table

IntArray = NDArray[np.int64]
WAYS = ((13, 4), (13, 3), (11, 3), (8, 3), (6, 3), (5, 3), (13, 2), (8, 2), (4, 2), (1, 1))
"""Numbers of sums, and how many items an array has at most, from wide to narrow."""
_QUOTE = b'"'
"""JSON's quotation mark."""
_START, _VALUE, _STRING, _ESCAPED, _NUMBER, _FRACTION, _WORD, _BEHIND = range(8)
"""States of what adds up; those from `_BEHIND` on read what stands before the member of an object."""


def distinct_items(
    item: ByteAutomaton,
    before: bytes,
    separator: bytes,
    least: int,
    most: int | None,
    max_states: int,
    quote: bytes = _QUOTE,
) -> ByteAutomaton:
    """Returns arrays of items that differ in their sums; of fewer items, or fewer sums, where there is no room.

    Args:
        item: one item, without counters; equal strings have one text only.
        before: what an object begins with, up to the value of the member that counts; empty where none does. No
            object has that member twice, or has it but does not begin with it.
        separator: between two items.
        max_states: of the whole, before equal ones are merged.
        quote: the byte around a string, in which there are escapes where it is JSON's.

    Raises:
        OptionError: the budget is used up.
    """
    next_PB, weight_PB, accepting_P = _summed(item, before, quote)
    pairs = len(accepting_P)
    sums, count = next((m, k) for m, k in WAYS if sum(comb(m, j) for j in range(k)) * pairs * m <= max_states or m == 1)
    most = count if most is None else min(most, count)
    weight_PB %= sums
    next_PG, weight_PG, group_B = _grouped(next_PB, weight_PB, b"[]" + separator)
    groups = next_PG.shape[1]
    width, steps = pairs * sums, len(separator) - 1
    seen = [frozenset(chosen) for size in range(most) for chosen in combinations(range(sums), size)]
    first = {chosen: place * width for place, chosen in enumerate(seen)}
    """Where the items begin before which there were these sums."""
    comma = {chosen: len(first) * width + place * steps for place, chosen in enumerate(seen)}
    """Where the rest of a separator begins that leads there."""
    begin = len(first) * (width + steps)
    opened, end = begin + 1, begin + 2
    budget.current().bytes((end + 1) * groups * 4)
    table = np.full((end + 1, groups), -1, dtype=np.int32)
    target_PMG = next_PG[:, None, :] * sums + (np.arange(sums)[:, None] + weight_PG[:, None, :]) % sums
    block = np.where(next_PG[:, None, :] < 0, -1, target_PMG).reshape(width, groups)
    opening, closing, *between = (int(group_B[byte]) for byte in b"[]" + separator)
    ended_P = np.flatnonzero(accepting_P)
    for chosen, place in first.items():
        own = np.where(block < 0, -1, block + place)
        for value in set(range(sums)) - chosen:
            rows = ended_P * sums + value
            own[rows, closing] = end if len(chosen) + 1 >= least else -1
            if (following := chosen | {value}) in first:
                own[rows, between[0]] = comma[following] if steps else first[following]
        table[place : place + width] = own
    for chosen, place in comma.items():
        for step, group in enumerate(between[1:]):
            table[place + step, group] = first[chosen] if step == steps - 1 else place + step + 1
    table[begin, opening] = opened
    if first:
        table[opened] = table[first[frozenset()]]
    table[opened, closing] = end if least == 0 else -1
    accepting = np.zeros(end + 1, dtype=np.bool_)
    accepting[end] = True
    return minimal(_reached(table, group_B, accepting, begin))


def _summed(item: ByteAutomaton, before: bytes, quote: bytes) -> tuple[IntArray, IntArray, NDArray[np.bool_]]:
    """The states of an item together with those of what adds up: what follows, and what each byte adds."""
    then_TB, weight_TB = _adding(before, quote)
    item_SB = item.next_SB
    number = {(item.start, _START): 0}
    order, rows, weights = [(item.start, _START)], [], []
    for state, adding in _growing(order):
        follows = (item_SB[state] >= 0) & (then_TB[adding] >= 0)
        codes = np.where(follows, item_SB[state].astype(np.int64) * len(then_TB) + then_TB[adding], -1)
        found, place_B = np.unique(codes, return_inverse=True)
        numbers = []
        for code in found.tolist():
            pair = divmod(code, len(then_TB))
            if code >= 0 and pair not in number:
                number[pair] = len(order)
                order.append(pair)
            numbers.append(number[pair] if code >= 0 else -1)
        rows.append(np.array(numbers)[place_B])
        weights.append(weight_TB[adding])
    accepting = item.accepting_S[[state for state, _ in order]]
    return np.stack(rows), np.stack(weights), accepting


def _growing(order: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    for place, pair in enumerate(order):
        if place % 64 == 0:
            budget.current().check()
            budget.current().states(len(order))
        yield pair


def _adding(before: bytes, quote: bytes) -> tuple[IntArray, IntArray]:
    """What adds up, as an automaton: of each state and byte the state that follows, and what is added."""
    states = _BEHIND + 1 + len(before)
    then_TB, weight_TB = np.full((states, 256), _BEHIND), np.zeros((states, 256), dtype=np.int64)
    each = np.arange(256)
    digits = np.arange(ord("0"), ord("9") + 1)
    small = np.arange(ord("a"), ord("z") + 1)
    for state in (_START, _VALUE, _NUMBER):
        then_TB[state, [ord("-"), *digits]] = _NUMBER
        weight_TB[state, digits] = digits - ord("0")
    # What follows the point says nothing: a float holds only some of it. With an exponent equal numbers differ.
    then_TB[_NUMBER, ord(".")] = then_TB[_FRACTION, digits] = _FRACTION
    then_TB[_NUMBER : _FRACTION + 1, [ord("e"), ord("E")]] = -1
    for state in (_START, _VALUE, _WORD):
        then_TB[state, small] = _WORD
        weight_TB[state, small] = small
    end = ord(quote)
    then_TB[[_START, _VALUE], end] = _STRING
    then_TB[_STRING], weight_TB[_STRING] = _STRING, each
    if quote == _QUOTE:
        then_TB[_STRING, ord("\\")] = _ESCAPED
    then_TB[_STRING, end], weight_TB[_STRING, end] = _BEHIND, 0
    then_TB[_ESCAPED], weight_TB[_ESCAPED] = _STRING, each
    for place, byte in enumerate(before):
        here = _START if place == 0 else _BEHIND + place
        then_TB[here, byte] = _VALUE if place == len(before) - 1 else _BEHIND + place + 1
    return then_TB, weight_TB


def _grouped(next_PB: IntArray, weight_PB: IntArray, alone: bytes) -> tuple[IntArray, IntArray, IntArray]:
    """What follows and what is added for each group of bytes that do the same, and the group of each byte; the bytes
    of `alone` are in groups of their own."""
    own_B = np.zeros(256, dtype=np.int64)
    own_B[list(alone)] = 1 + np.arange(len(alone))
    columns = np.ascontiguousarray(np.vstack([next_PB, weight_PB, own_B]).T)
    number: dict[bytes, int] = {}
    group_B = np.array([number.setdefault(column.tobytes(), len(number)) for column in columns])
    firsts = np.unique(group_B, return_index=True)[1]
    return next_PB[:, firsts], weight_PB[:, firsts], group_B


def _reached(table: NDArray[np.int32], group_B: IntArray, accepting: NDArray[np.bool_], begin: int) -> Table:
    """The states that are reached, the beginning as the first."""
    reached = np.zeros(len(table), dtype=np.bool_)
    frontier = np.array([begin])
    while len(frontier):
        reached[frontier] = True
        found = np.unique(table[frontier])
        frontier = found[(found >= 0) & ~reached[found]]
    kept = np.concatenate([[begin], np.flatnonzero(reached & (np.arange(len(table)) != begin))])
    budget.current().states(len(kept))
    numbers = np.full(len(table) + 1, -1, dtype=np.int32)
    numbers[kept] = np.arange(len(kept))
    return Table(numbers[table[kept]], group_B, accepting[kept], None)
