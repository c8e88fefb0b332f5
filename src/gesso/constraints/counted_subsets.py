"""Defines the subset construction with counters; also that without, where the compiled kernels are not there.

A deterministic state is a set of the graph's states, and where some of them are in a region, one for each count. All
counts of an interval for which the same steps are open are *one* state here, a counted one with a `length`: its rows
say where each of them goes, relative to its count (the same count, or the next one), but for the last of them, from
which counting leads out of the interval and which has rows of its own. So the construction takes as long for `a{4000}`
as for `a{40}`.

    S states   L counted states   G groups of bytes that no state tells apart
"""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from gesso.constraints import budget
from gesso.constraints.blocks import Block, Entered
from gesso.constraints.byte_groups import Groups
from gesso.constraints.deterministic import ABSOLUTE, NEXT, SAME, Counts, IntArray, Table
from gesso.constraints.nondeterministic import Graph
from gesso.constraints.regions import NO_COUNT, AmbiguousCountError, Closed
from gesso.constraints.transitions import within

Together = frozenset[Block]
"""Blocks of the same automaton that are gone through at once, as those of two branches of `anyOf`."""
_Run = tuple[int, int, int, int]
"""First group, the group behind the last, the state that follows, how the count goes on."""
_Entry = tuple[frozenset[int], tuple[int, ...], int, int]
MAX_TOGETHER = 64


class CountedSubsets:
    """Holds the states of a deterministic automaton while they are found."""

    def __init__(self, graph: Graph, groups: Groups, begin: int, end: int) -> None:
        self.graph, self.end = graph, end
        self.groups, self.place, self.kinds, self.group_B = groups.count, groups.place, groups.kinds, groups.group_B
        self.edges: dict[int, list[tuple[int, int, int]]] = {}
        self.entered: dict[Together, Entered] = {}
        """How each combination of blocks was entered, for those that were come to."""
        self.pending: list[tuple[Together, NDArray[np.int64]]] = []
        """Combinations of blocks, each with those of its states that have a number and no row yet."""
        self.order: list[_Entry | None] = []
        """What each state stands for: the graph's states, their regions, first and last count; None of a block's or a
        chain's."""
        self.links: list[tuple[int, int, int]] = []
        """States of chains, each with its number, the one group of bytes that leads on, and where that leads."""
        self.open_links: list[tuple[int, int, int]] = []
        """The same of those whose last is a state of the graph that has no number yet."""
        self.number: dict[tuple[frozenset[int], int], int] = {}
        self.after: dict[tuple[frozenset[int], int], tuple[Closed, int]] = {}
        self.after_one: dict[int, tuple[int, int]] = {}
        closed = graph.closure([begin], at_begin=True)
        self.own_state(closed)
        # Where all begins with a block, its start is met once more, and both are one in the end.
        self.state(closed)

    def state(self, closed: Closed) -> int:
        """Returns the number of the state for a set and a count."""
        if not closed.regions and len(closed.states) <= MAX_TOGETHER:
            edges = self.graph.edges
            if all(edges[state] is None for state in closed.states):
                found = self.in_blocks(closed.states)
                if found is not None:
                    return found
        return self.own_state(closed)

    def own_state(self, closed: Closed) -> int:
        """Returns the number of the state for a set and a count, of no block."""
        low, high = self.graph.interval(closed.regions, closed.count) if closed.regions else (NO_COUNT, NO_COUNT)
        key = (closed.states, low)
        if (found := self.number.get(key)) is None:
            if low == NO_COUNT and len(closed.states) == 1 and self.order:
                return self.chain(key)
            found = self.number[key] = self.add((closed.states, closed.regions, low, high))
        return found

    def add(self, entry: _Entry | None) -> int:
        """Adds a state, and returns its number."""
        found = len(self.order)
        self.order.append(entry)
        if not found % 128:
            budget.current().check()
            budget.current().states(found)
        return found

    def chain(self, key: tuple[frozenset[int], int]) -> int:
        """Returns the number of a set of one of the graph's states, and numbers what follows as long as one byte leads
        on from each, as in a text."""
        graph, begin = self.graph, len(self.order)
        while True:
            (state,) = key[0]
            edges = graph.edges[state]
            if (
                not edges
                or len(edges) > 1
                or edges[0][0] < edges[0][1]
                or state == self.end
                or state in graph.free_at[True]
            ):
                self.number[key] = self.add((key[0], (), NO_COUNT, NO_COUNT))
                return begin
            own = self.number[key] = self.add(None)
            byte, _, target = edges[0]
            if graph.edges[target] is None or not graph.ends_in(target):
                self.open_links.append((own, self.place[byte], target))
                return begin
            key = (frozenset((target,)), NO_COUNT)
            known = self.number.get(key)
            self.links.append((own, self.place[byte], own + 1 if known is None else known))
            if known is not None:
                return begin

    def in_blocks(self, states: frozenset[int]) -> int | None:
        """Returns the number of a state of blocks of the same automaton, that are in the same of its states; None where
        they are not."""
        blocks = [self.graph.blocks.at(state) for state in states]
        one, place = blocks[0], next(iter(states)) - blocks[0].first
        if any(
            state - block.first != place or block.next_SG is not one.next_SG
            for state, block in zip(states, blocks, strict=True)
        ):
            return None
        if one.accepting_S[place]:
            return None
        together = frozenset(blocks)
        if (entered := self.entered.get(together)) is None:
            entered = self.entered[together] = Entered(self.kinds[id(one.next_SG)])
        if (number := entered.number.get(place, -1)) < 0:
            fresh = entered.enter(place, len(self.order))
            number = entered.number[place]
            self.order += [None] * len(fresh)
            self.pending.append((together, fresh))
            budget.current().check()
            budget.current().states(len(self.order))
        return number

    def block_rows(self, together: Together, fresh: NDArray[np.int64]) -> tuple[list[int], IntArray]:
        """Returns the numbers of some states of blocks and their rows."""
        entered = self.entered[together]
        while entered.ends:
            place = entered.ends.pop()
            behind = self.graph.closure([block.first + place for block in together])
            entered.number[place] = self.state(behind)
        return [entered.number[place] for place in fresh.tolist()], entered.kind.rows(fresh, entered.number)

    def edges_of(self, state: int) -> list[tuple[int, int, int]]:
        """Returns a state's edges, in order: first group, the group behind the last, the state that follows."""
        if (known := self.edges.get(state)) is None:
            place, edges = self.place, self.graph.edges[state]
            if edges is not None:
                known = sorted([(place[low], place[high + 1], target) for low, high, target in edges])
            else:
                block = self.graph.blocks.at(state)
                begins, lows, highs, targets = self.kinds[id(block.next_SG)].runs
                first = block.first
                here = slice(begins[state - first], begins[state - first + 1])
                known = [
                    (low, high, first + target)
                    for low, high, target in zip(lows[here], highs[here], targets[here], strict=True)
                ]
            self.edges[state] = known
        return known

    def target(self, raw: frozenset[int], count: int, low: int) -> tuple[int, int]:
        """Returns where a set leads that bytes lead to from the count `count` of a state whose first is `low`."""
        if (known := self.after.get((raw, count))) is None:
            closed = self.graph.closure(raw, count)
            known = self.after[raw, count] = closed, self.state(closed)
        closed, state = known
        if not closed.regions:
            return state, ABSOLUTE
        entry = self.order[state]
        assert entry is not None
        first = entry[2]
        if not closed.entered and first == low:
            return state, SAME if closed.count == count else NEXT
        if closed.count != first:
            raise AmbiguousCountError({self.graph.regions[region].key for region in closed.regions})
        return state, ABSOLUTE

    def row(self, states: frozenset[int], count: int, low: int) -> list[_Run]:
        """Returns what follows a set: groups of bytes in order, where they lead, and how the count goes on."""
        edges = [edge for state in states for edge in self.edges_of(state)]
        if len(states) > 1:
            edges.sort()
        known = self.after_one if low == NO_COUNT else {}
        behind = 0
        for begin, end, _ in edges:
            if begin < behind:
                break
            behind = end
        else:
            return [
                (begin, end, *(known.get(target) or self.target_of_one(target, count, low)))
                for begin, end, target in edges
            ]
        borders = sorted({border for begin, end, _ in edges for border in (begin, end)})
        place_of = {border: place for place, border in enumerate(borders)}
        targets: list[list[int]] = [[] for _ in borders]
        for begin, end, target in edges:
            for place in range(place_of[begin], place_of[end]):
                targets[place].append(target)
        row: list[_Run] = []
        for found, (begin, end) in zip(targets, pairwise(borders), strict=False):
            if len(found) == 1:
                row.append((begin, end, *(known.get(found[0]) or self.target_of_one(found[0], count, low))))
            elif found:
                row.append((begin, end, *self.target(frozenset(found), count, low)))
        return row

    def target_of_one(self, target: int, count: int, low: int) -> tuple[int, int]:
        """Returns where a set of one leads; remembered where there is no count."""
        if low != NO_COUNT:
            return self.target(frozenset((target,)), count, low)
        if (known := self.after_one.get(target)) is None:
            if self.graph.ends_in(target):
                known = self.state(Closed(frozenset((target,)))), ABSOLUTE
            else:
                known = self.target(frozenset((target,)), count, low)
            self.after_one[target] = known
        return known

    def table(self) -> Table:
        """Finds all states and their rows.

        Raises:
            AmbiguousCountError: a counter cannot be kept.
            SharedCountError: all is to be done anew.
            OptionError: there are too many states.
        """
        rows: list[tuple[int, list[_Run]]] = []
        counted: list[tuple[int, list[_Run], list[_Run]]] = []
        of_blocks: list[tuple[list[int], IntArray]] = []
        place = 0
        while self.pending or self.open_links or place < len(self.order):
            if self.pending:
                of_blocks.append(self.block_rows(*self.pending.pop()))
                continue
            if self.open_links:
                number, group, target = self.open_links.pop()
                self.links.append((number, group, self.target_of_one(target, NO_COUNT, NO_COUNT)[0]))
                continue
            entry = self.order[place]
            place += 1
            if entry is None:
                continue
            states, regions, low, high = entry
            row = self.row(states, low, low)
            rows.append((place - 1, row))
            if regions and high > low:
                counted.append((place - 1, row, self.row(states, high, low)))
            elif regions and any(shift == NEXT for *_, shift in row):
                raise AssertionError("an only count leads to the next one")
        next_SG, _ = self.spread(rows, len(self.order))
        for numbers, block_rows in of_blocks:
            next_SG[numbers] = block_rows
        if self.links:
            number_N, group_N, target_N = np.array(self.links, dtype=np.int32).T
            next_SG[number_N, group_N] = target_N
        accepting_S = np.zeros(len(self.order), dtype=np.bool_)
        places = [place for place, _ in rows]
        accepting_S[places] = [self.accepts(place) for place in places]
        graph = self.graph
        counts = None
        if counted:
            ends = [entry for place, _, _ in counted if (entry := self.order[place]) is not None]
            _, shift_LG = self.spread([(place, row) for place, (_, row, _) in enumerate(counted)], len(counted))
            last_LG, last_shift_LG = self.spread(
                [(place, row) for place, (*_, row) in enumerate(counted)], len(counted)
            )
            counts = Counts(
                np.array([place for place, _, _ in counted]),
                np.array([high - low + 1 for _, _, low, high in ends]),
                np.array([min(graph.regions[region].least_bytes for region in regions) for _, regions, _, _ in ends]),
                shift_LG,
                last_LG,
                last_shift_LG,
            )
        return Table(next_SG, self.group_B, accepting_S, counts)

    def spread(self, rows: list[tuple[int, list[_Run]]], count: int) -> tuple[IntArray, NDArray[np.uint8]]:
        """Returns rows over all groups: where each leads, -1 where it does not, and how the count goes on."""
        groups = self.groups
        next_RG = np.full((count, groups), -1, dtype=np.int32)
        shift_RG = np.zeros((count, groups), dtype=np.uint8)
        runs = np.array(
            [(place * groups + begin, end - begin, *how) for place, row in rows for begin, end, *how in row],
            dtype=np.int64,
        ).reshape(-1, 4)
        places = within(runs[:, 0], runs[:, 1])
        next_RG.ravel()[places] = np.repeat(runs[:, 2], runs[:, 1])
        shift_RG.ravel()[places] = np.repeat(runs[:, 3], runs[:, 1])
        return next_RG, shift_RG

    def accepts(self, place: int) -> bool:
        """Tells whether the text may end in a state."""
        entry, graph = self.order[place], self.graph
        assert entry is not None
        states, _, low, _ = entry
        if self.end in states:
            return True
        if not graph.free_at[True] and (place or not graph.free_at[False]):
            # What leads on without a byte was followed already.
            return False
        return self.end in graph.closure(states, low, at_begin=not place, at_end=True).states
