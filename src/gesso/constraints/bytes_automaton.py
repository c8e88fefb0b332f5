"""An expression as the minimal deterministic automaton over the bytes of UTF-8.

Life cycle: `compile_bytes` walks the expression into a nondeterministic automaton (`nondeterministic.Graph`), finds
the sets of its states that can be reached (the subset construction), and merges states that no continuation tells
apart (Moore's refinement). What cannot be said with single steps (intersections, anchors inside a larger text) is
compiled by itself first and put in as a graph.

    S states   B = 256 bytes   G groups of bytes that no state tells apart
"""

from bisect import bisect_left
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from gesso.constraints.expression import Anchor, Expression, Intersection, Joined, Repeat, Sequence, Union, Whole
from gesso.constraints.nondeterministic import Graph
from gesso.constraints.placeholders import encode
from gesso.errors import OptionError

MAX_STATES = 20_000
"""Of one deterministic automaton: 20 MiB while it is built."""

IntArray = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class ByteAutomaton:
    """States are numbered from 0; every one is reachable, and can reach an accepting one unless it is `empty`."""

    next_SB: IntArray
    """The state that follows, -1 where there is none."""
    accepting_S: NDArray[np.bool_]
    start: int

    @property
    def empty(self) -> bool:
        """Whether it accepts no text at all."""
        return not bool(self.accepting_S.any())

    def matches(self, text: str) -> bool:
        """Whether the text as a whole is in the language."""
        state = self.start
        for byte in encode(text):
            state = int(self.next_SB[state, byte])
            if state < 0:
                return False
        return bool(self.accepting_S[state])


def compile_bytes(expression: Expression) -> ByteAutomaton:
    """The minimal automaton of the expression's texts.

    Raises:
        OptionError: it would have too many states.
    """
    graph = Graph()
    begin = graph.add()
    end = _build(graph, expression.body if isinstance(expression, Whole) else expression, begin)
    return _minimal(*_subsets(graph, begin, end))


def intersect(one: ByteAutomaton, other: ByteAutomaton) -> ByteAutomaton:
    """The minimal automaton of the texts that both accept.

    Raises:
        OptionError: it would have too many states.
    """
    width = len(other.accepting_S)
    start = one.start * width + other.start
    order, rows = [np.array([start])], []
    seen = np.array([start])
    while len(order[-1]):
        first, second = np.divmod(order[-1], width)
        next_one, next_other = one.next_SB[first].astype(np.int64), other.next_SB[second]
        codes = np.where((next_one >= 0) & (next_other >= 0), next_one * width + next_other, -1)
        rows.append(codes)
        order.append(np.setdiff1d(codes[codes >= 0], seen))
        seen = np.union1d(seen, order[-1])
        _check_size(len(seen))
    pairs, codes = np.concatenate(order), np.concatenate(rows)
    sorter = np.argsort(pairs)
    found = sorter[np.searchsorted(pairs, np.where(codes < 0, start, codes), sorter=sorter)]
    first, second = np.divmod(pairs, width)
    accepting = one.accepting_S[first] & other.accepting_S[second]
    return _minimal(np.where(codes < 0, -1, found).astype(np.int32), accepting, 0)


def _build(graph: Graph, expression: Expression, source: int) -> int:
    """Add the expression behind the state `source`; return the state behind it."""
    match expression:
        case Sequence(parts):
            for part in parts:
                source = _build(graph, part, source)
            return source
        case Union(options):
            return graph.merge([_build(graph, option, source) for option in options])
        case Repeat():
            return _build_repeat(graph, expression, source)
        case Joined(items, separator):
            return _build_joined(graph, items, separator, source)
        case Intersection(parts):
            return _embed(graph, reduce(intersect, map(compile_bytes, parts)), source)
        case Whole(body):
            if _has_anchor(body):
                return _embed(graph, compile_bytes(expression), source)
            return _build(graph, body, source)
        case _:
            return graph.add_leaf(expression, source)


def _build_repeat(graph: Graph, repeat: Repeat, source: int) -> int:
    ends = [source] if repeat.least == 0 else []
    last = max(repeat.least, 1) if repeat.most is None else repeat.most
    for count in range(1, last + 1):
        if count > 1:
            source = graph.add_text(repeat.separator, source)
        # A state of its own: neither the loop nor the way out may lead back to what stood before.
        entry = graph.step(source)
        source = graph.step(_build(graph, repeat.body, entry))
        if count >= repeat.least:
            ends.append(source)
    if repeat.most is None:
        graph.link(graph.add_text(repeat.separator, source), entry)
    return graph.merge(ends)


def _build_joined(graph: Graph, items: tuple[tuple[Expression, bool], ...], separator: str, source: int) -> int:
    none: int | None = source
    some: int | None = None
    for item, required in items:
        ways = [] if none is None else [none]
        ways += [] if some is None else [graph.add_text(separator, some)]
        ends = [_build(graph, item, graph.merge(ways))]
        if required:
            none = None
        elif some is not None:
            ends.append(some)
        some = graph.merge(ends)
    return graph.merge([state for state in (none, some) if state is not None])


def _has_anchor(expression: Expression) -> bool:
    match expression:
        case Anchor():
            return True
        case Sequence(parts) | Union(parts):
            return any(map(_has_anchor, parts))
        case Repeat(body):
            return _has_anchor(body)
        case Joined(items):
            return any(_has_anchor(item) for item, _ in items)
        case _:
            return False


def _embed(graph: Graph, automaton: ByteAutomaton, source: int) -> int:
    states = [graph.add() for _ in automaton.accepting_S]
    graph.link(source, states[automaton.start])
    for state, row in enumerate(automaton.next_SB):
        borders = [0, *(np.flatnonzero(np.diff(row)) + 1).tolist(), 256]
        for low, high in pairwise(borders):
            if row[low] >= 0:
                graph.edges[states[state]].append((low, high - 1, states[row[low]]))
    return graph.merge([states[state] for state in np.flatnonzero(automaton.accepting_S)])


def _check_size(states: int) -> None:
    if states > MAX_STATES:
        raise OptionError(f"the constraint is too large: its automaton needs more than {MAX_STATES} states")


def _subsets(graph: Graph, begin: int, end: int) -> tuple[IntArray, NDArray[np.bool_], int]:
    """Table, accepting states and start of the deterministic automaton, its states in the order they are found."""
    first = graph.closure([begin], at_begin=True)
    order = [first]
    number = {first: 0}
    after: dict[frozenset[int], int] = {}
    rows: list[IntArray] = []
    for states in order:
        row = np.full(256, -1, dtype=np.int32)
        edges = [edge for state in states for edge in graph.edges[state]]
        borders = sorted({border for low, high, _ in edges for border in (low, high + 1)})
        targets: list[set[int]] = [set() for _ in borders]
        for low, high, target in edges:
            for place in range(bisect_left(borders, low), bisect_left(borders, high + 1)):
                targets[place].add(target)
        for place, (low, high) in enumerate(pairwise(borders)):
            if not targets[place]:
                continue
            key = frozenset(targets[place])
            if key not in after:
                closed = graph.closure(key)
                after[key] = number.setdefault(closed, len(order))
                if after[key] == len(order):
                    order.append(closed)
                    _check_size(len(order))
            row[low:high] = after[key]
        rows.append(row)
    accepting = [end in graph.closure(states, at_begin=not place, at_end=True) for place, states in enumerate(order)]
    return np.stack(rows), np.array(accepting), 0


def _minimal(next_SB: IntArray, accepting_S: NDArray[np.bool_], start: int) -> ByteAutomaton:
    """Merge states that accept the same continuations, and drop those that accept none."""
    sink = len(accepting_S)
    table = np.vstack([next_SB, np.full((1, 256), -1, dtype=np.int32)])
    table[table < 0] = sink
    # States are told apart by their hashes. That none fell together by chance is checked; if so, again.
    for seed in range(10):
        labels = _refined(np.unique(table, axis=1), np.append(accepting_S, False), seed)
        _, firsts = np.unique(labels, return_index=True)
        if np.array_equal(labels[table], labels[table][firsts][labels]):
            break
    else:
        raise AssertionError("states fell together")
    kept = firsts[firsts != firsts[labels[sink]]]
    if labels[start] == labels[sink]:
        return ByteAutomaton(np.full((1, 256), -1, dtype=np.int32), np.zeros(1, dtype=np.bool_), 0)
    number = np.full(len(firsts), -1, dtype=np.int32)
    number[labels[kept]] = np.arange(len(kept))
    return ByteAutomaton(number[labels[table[kept]]], np.append(accepting_S, False)[kept], int(number[labels[start]]))


def _refined(columns_SG: IntArray, accepting_S: NDArray[np.bool_], seed: int) -> NDArray[np.int64]:
    random = np.random.default_rng(seed)
    of_label = random.integers(2**64, size=len(accepting_S), dtype=np.uint64)
    of_column = random.integers(2**64, size=columns_SG.shape[1], dtype=np.uint64)
    labels = accepting_S.astype(np.int64)
    count = len(np.unique(labels))
    while True:
        hashes = (of_label[labels][columns_SG] * of_column).sum(axis=1, dtype=np.uint64)
        hashes += of_label[labels] * np.uint64(seed + 3)
        labels = np.unique(hashes, return_inverse=True)[1]
        if (found := int(labels.max()) + 1) == count:
            return labels
        count = found
