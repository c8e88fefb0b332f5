"""Puts bytes into groups that no state of a graph tells apart."""

import numpy as np

from gesso.constraints.blocks import Kind
from gesso.constraints.nondeterministic import Graph


class Groups:
    """Holds the groups of a graph, runs of bytes that are numbered in order, and the automata of its blocks over
    them."""

    def __init__(self, graph: Graph) -> None:
        borders = {0, 256}
        borders.update(low for edges in graph.edges if edges for low, _, _ in edges)
        borders.update(high + 1 for edges in graph.edges if edges for _, high, _ in edges)
        kinds = {id(block.next_SG): block for block in graph.blocks.all}
        borders.update(border for block in kinds.values() for border in block.borders)
        ordered = sorted(borders)
        self.count = len(ordered) - 1
        self.place = {border: group for group, border in enumerate(ordered)}
        """The group that begins with a byte; 256 is behind the last."""
        self.group_B = np.repeat(np.arange(self.count), np.diff(ordered))
        firsts = np.array(ordered[:-1])
        self.kinds = {kind: Kind(block, firsts) for kind, block in kinds.items()}
        """Kinds by the identity of the blocks' rows."""
