"""Makes a graph deterministic: the automaton over sets of its states that texts lead to."""

from contextlib import suppress

from gesso.constraints.byte_groups import Groups
from gesso.constraints.counted_subsets import CountedSubsets
from gesso.constraints.deterministic import Table, breadth_first
from gesso.constraints.nondeterministic import Graph
from gesso.constraints.plain_subsets import plain_table
from gesso.constraints.regions import SharedCountError
from gesso.constraints.transitions import host_kernels


def determinize(graph: Graph, begin: int, end: int) -> Table:
    """Returns the automaton of all texts that lead from `begin` to `end`.

    Raises:
        AmbiguousCountError: a counter cannot be kept.
        OptionError: it has too many states.
    """
    groups = Groups(graph)
    if not graph.steps and (kernels := host_kernels()) is not None:
        return plain_table(kernels, graph, groups, begin, end)
    while True:
        with suppress(SharedCountError):
            table = CountedSubsets(graph, groups, begin, end).table()
            return table if graph.steps else breadth_first(table)
