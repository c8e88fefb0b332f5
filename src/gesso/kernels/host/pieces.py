"""Says how rows of activations are cut into pieces, and goes through these, one matrix after the other.

R rows that are multiplied at a time
"""

from gesso.kernels.host.dots import Dot
from gesso.kernels.host.layouts import LAYOUTS
from gesso.kernels.host.llvm_ir import I64, Value, Writer, constant
from gesso.kernels.host.words import MATRIX, word_of

TILED = (*range(16, 3, -1), 2, 1)
"""Rows of activations of a piece, where these are rounded."""
TILES: dict[Dot, dict[int, int]] = {
    "vnni512": {8: 2, 4: 4, 2: 4, 1: 4},
    "vnni256": {4: 1, 2: 2, 1: 4},
    "avx2": {4: 1, 2: 2, 1: 4},
    "plain": {4: 1, 2: 2, 1: 4},
}
"""The same where they are not, and rows of the matrix that are multiplied by them: as many sums as there are
registers."""
PLAIN_TILES: dict[Dot, dict[int, int]] = {**TILES, "vnni512": {4: 4, 2: 8, 1: 16}}
"""The same where weights are read as they are, so that it costs nothing to read them again for other rows."""
LINE = 64
"""Bytes of a line of a cache."""


def is_tiled(name: str) -> bool:
    """Says whether a layout's activations are rounded, and multiplied in tiles: its weights are whole numbers."""
    return LAYOUTS[name].floats is None


def sizes_of(name: str, kind: Dot) -> tuple[int, ...]:
    """Returns how many rows of activations a piece may have for a layout's kernel, the most first."""
    return TILED if is_tiled(name) else tuple(float_tiles(name, kind))


def float_tiles(name: str, kind: Dot) -> dict[int, int]:
    """Returns the tiles of a layout whose activations are not rounded."""
    return (PLAIN_TILES if name == "fp32" else TILES)[kind]


class Run:
    """Goes through the pieces by matrix: those of one stand side by side, and share what of it is in a near cache.

    What is built between making it and `close` is done for each matrix, and its pieces `first` to before `end`.
    """

    def __init__(self, build: Writer, pieces: Value, count: Value) -> None:
        self._build, before = build, build.block
        self._head, some, scan, look, found, self._done = (build.made.append_basic_block() for _ in range(6))
        build.branch(self._head)
        build.position_at_end(self._head)
        self.first = build.phi(I64)
        self.first.add_incoming(constant(0), before)
        build.cbranch(build.icmp_signed("<", self.first, count), some, self._done)
        build.position_at_end(some)
        self.matrix = build.read(pieces, I64, word_of(build, self.first, MATRIX))
        following = build.add(self.first, constant(1))
        build.branch(scan)
        build.position_at_end(scan)
        self.end = build.phi(I64)
        self.end.add_incoming(following, some)
        build.cbranch(build.icmp_signed("<", self.end, count), look, found)
        build.position_at_end(look)
        same = build.icmp_signed("==", build.read(pieces, I64, word_of(build, self.end, MATRIX)), self.matrix)
        following = build.add(self.end, constant(1))
        self.end.add_incoming(following, look)
        build.cbranch(same, scan, found)
        build.position_at_end(found)

    def close(self) -> None:
        """Ends the body."""
        self.first.add_incoming(self.end, self._build.block)
        self._build.branch(self._head)
        self._build.position_at_end(self._done)
