"""Writes the kernel that hands rows of activations to kernels for so many rows and so many rows of a matrix, piece by
piece and one matrix after the other.

    M rows   N rows of a matrix, what comes out   G blocks of 64 features   R rows that are multiplied at a time
"""

from typing import Any

from llvmlite import ir

from gesso.kernels.host.activations import BLOCK
from gesso.kernels.host.dots import Dot
from gesso.kernels.host.llvm_ir import F32, I64, POINTER, VOID, Loop, Value, Writer, constant
from gesso.kernels.host.words import MATRIX, OUT, ROW, SIZE, word_of

TILES: dict[Dot, dict[int, int]] = {
    "amx": dict.fromkeys((*range(16, 3, -1), 2, 1), 16),
    "vnni512": {8: 2, 4: 4, 2: 4, 1: 4},
    "vnni256": {4: 1, 2: 2, 1: 4},
    "avx2": {4: 1, 2: 2, 1: 4},
    "plain": {4: 1, 2: 2, 1: 4},
}
"""Rows of activations that are multiplied at a time, and rows of the matrix: as many sums as there are registers."""
PLAIN_TILES: dict[Dot, dict[int, int]] = {**TILES, "vnni512": {4: 4, 2: 8, 1: 16}}
"""The same where weights are read as they are, so that it costs nothing to read them again for other rows."""
LINE = 64
"""Bytes of a line of a cache."""
NEAR = 64
"""Rows of a matrix that all rows of activations of its own are multiplied by before the next ones: they stay in a near
cache."""


def tiles_of(name: str, kind: Dot) -> dict[int, int]:
    """Returns the tiles of a layout's kernel."""
    return (PLAIN_TILES if name == "fp32" else TILES)[kind]


def write_over_pieces(
    module: ir.Module, name: str, tiles_of_kind: dict[int, int], inner: dict[tuple[int, int], Value], x_kind: Any
) -> None:
    """Writes the kernel that hands pieces to those of `inner`, by rows of activations and of the matrix.

    Args:
        tiles_of_kind: see `TILES`.
        x_kind: of the numbers of x.
    """
    build = Writer(module, name, VOID, [POINTER] * 9 + [I64] * 5)
    x, x_scales, x_sums, codes, scales, third, out, scratch, pieces = build.made.args[:9]
    count, columns, blocks, begin, end = build.made.args[9:]
    run = Run(build, pieces, count)
    before = build.mul(run.matrix, columns)  # rows of the matrices that come before
    tiles = Loop(build, begin, end, step=NEAR)
    last = build.add(tiles.index, constant(NEAR))
    last = build.select(build.icmp_signed("<", last, end), last, end)
    loop = Loop(build, run.first, run.end)
    row, size, first_out = (build.read(pieces, I64, word_of(build, loop.index, word)) for word in (ROW, SIZE, OUT))
    shift = build.mul(row, blocks)
    rows = [
        build.at(x, build.mul(shift, constant(BLOCK)), x_kind),
        build.at(x_scales, shift, F32),
        build.at(x_sums, shift, F32),
    ]
    target = build.at(out, build.mul(first_out, columns), F32)
    for rows_at_once, most in tiles_of_kind.items():
        with build.if_then(build.icmp_signed("==", size, constant(rows_at_once))):
            even = build.mul(build.sdiv(build.sub(last, tiles.index), constant(most)), constant(most))
            edges = [tiles.index, build.add(tiles.index, even), last]
            for beside, first, final in ((most, *edges[:2]), (1, *edges[1:]))[: 1 if most == 1 else 2]:
                with build.if_then(build.icmp_signed("<", first, final)):
                    parts = [*rows, codes, scales, third, target, scratch, before, columns, blocks, first, final]
                    build.call(inner[rows_at_once, beside], parts)
    loop.close()
    tiles.close()
    run.close()
    build.ret_void()


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
