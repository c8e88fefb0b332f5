"""Puts a deterministic automaton into a nondeterministic one."""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from gesso.constraints.byte_table import ByteAutomaton
from gesso.constraints.deterministic import ABSOLUTE, NEXT, SAME, Counts, IntArray
from gesso.constraints.nondeterministic import Graph
from gesso.constraints.regions import COUNT, ENTER, LEAVE, WHILE


def embedded(graph: Graph, automaton: ByteAutomaton, key: int, source: int) -> int:
    """Puts an automaton behind the state `source`; returns the state behind it.

    Args:
        key: what its counters are built for; see `nondeterministic.Region`.
    """
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
            graph.edge(place, low, high - 1, end)

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
