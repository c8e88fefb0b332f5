"""Writes the kernel that makes whole numbers of the weights that rows of a table of bytes are mixed by.

    N mixtures   V rows of the table, each with a factor of its own   G groups of sixteen mixtures   S V / 64

`ROWS` neighbouring rows of the table share a scale for each mixture: the largest product of a weight and a factor, over
`TOP`. Each product is off by half a scale at most. A whole number is two signed bytes, which processors multiply best,
or else 16 bits. Numbers that are not finite make their block's scale not finite.
"""

from llvmlite import ir

from gesso.kernels.host import amx
from gesso.kernels.host.activations import LANES, MAGNITUDE, ONES, ONES_BITS
from gesso.kernels.host.dots import FLOATS, WHOLES, Dot
from gesso.kernels.host.llvm_ir import (
    F32,
    I8,
    I16,
    I32,
    I64,
    POINTER,
    VOID,
    Loop,
    Value,
    Writer,
    constant,
    constants,
    vector,
    zeros,
)

STEP = 64
"""Rows of the table whose weights, of sixteen mixtures, lie together."""
ROWS = 256
"""Rows of the table whose products are added up as whole numbers."""
PARTS = 2 * amx.SIDE * STEP
"""Bytes of weights that lie together: two planes of bytes [2, 16, 64], the upper and the lower ones, or numbers of 16
bits [16, 64]."""
TOP = 127 * 256 + 127
"""The largest whole number of a weight: two signed bytes, the lower of which may be negative."""
LEAST = 2.0**-100
"""Blocks whose weights are all below weigh nothing: `TOP` over them could be past the largest float."""


def in_words(kind: Dot) -> bool:
    """Says whether weights are numbers of 16 bits: AVX2's products of bytes are not exact."""
    return kind == "avx2"


def is_raised(kind: Dot) -> bool:
    """Says whether the table's bytes are multiplied as unsigned ones, 128 too large."""
    return kind in ("vnni512", "vnni256")


def read_words(build: Writer, words: Value, pointers: int, wholes: int) -> tuple[list[Value], list[Value]]:
    """Reads a job's addresses, then its whole numbers."""
    held = [build.read(words, I64, constant(i)) for i in range(pointers + wholes)]
    return [build.inttoptr(address, POINTER) for address in held[:pointers]], held[pointers:]


def write_split_weights(module: ir.Module, name: str, kind: Dot) -> None:
    """Writes `name(words, thread, begin, end)`, which makes whole numbers of the weights of mixtures `begin` to `end`.

    Words, of 64 bits: weights float, mixtures `stride` apart; factors float [V]; parts, `PARTS` bytes [G, S]; scales
    float [16 G, V / ROWS]; starts int32, as many: -128 times the sum of weights; V, a multiple of `ROWS`; the stride.
    """
    build = Writer(module, name, VOID, [POINTER] + [I64] * 3)
    words, _, begin, end = build.made.args
    (weights, factors, parts, scales, starts), (table, stride) = read_words(build, words, 5, 2)
    blocks, steps = (build.udiv(table, constant(rows)) for rows in (ROWS, STEP))
    row = Loop(build, begin, end)
    group, lane = (divided(row.index, constant(amx.SIDE)) for divided in (build.udiv, build.urem))
    own, group = build.at(weights, build.mul(row.index, stride), F32), build.mul(group, steps)
    block = Loop(build, constant(0), blocks)
    first = build.mul(block.index, constant(ROWS))
    products, largest = list[Value](), zeros(WHOLES)
    for begin in range(0, ROWS, LANES):
        place = build.add(first, constant(begin))
        products.append(build.fmul(*(build.read(numbers, FLOATS, place) for numbers in (own, factors))))
        # Magnitudes are in order as their bits are, infinity and NaN above all others.
        size = build.and_(build.bitcast(products[-1], WHOLES), constants([MAGNITUDE] * LANES, I32))
        largest = build.select(build.icmp_unsigned(">", size, largest), size, largest)
    most = build.bitcast(build.own(f"llvm.vector.reduce.umax.v{LANES}i32", I32, largest), F32)
    none = build.fcmp_ordered("<", most, ir.Constant(F32, LEAST))
    zero, top = ir.Constant(F32, 0.0), ir.Constant(F32, float(TOP))
    inverse = build.splat(build.select(none, zero, build.fdiv(top, most)), LANES)
    place = build.add(build.mul(row.index, blocks), block.index)
    build.write(build.select(none, zero, build.fdiv(most, top)), scales, place)
    total = zeros(WHOLES)
    for i, product in enumerate(products):
        near = build.bitcast(build.fma(product, inverse, constants([ONES] * LANES, F32)), WHOLES)
        whole = build.sub(near, constants([ONES_BITS] * LANES, I32))
        total = build.add(total, whole)
        step = build.add(build.mul(block.index, constant(ROWS // STEP)), constant(i * LANES // STEP))
        held = build.at(parts, build.mul(build.add(group, step), constant(PARTS)), I8)
        _write_whole(build, kind, whole, held, build.add(build.mul(lane, constant(STEP)), constant(i * LANES % STEP)))
    if is_raised(kind):
        total = build.own(f"llvm.vector.reduce.add.v{LANES}i32", I32, total)
        build.write(build.mul(total, constant(-128, I32)), starts, place)
    block.close()
    row.close()
    build.ret_void()


def _write_whole(build: Writer, kind: Dot, whole: Value, parts: Value, place: Value) -> None:
    """Writes sixteen weights where the first one's place is."""
    if in_words(kind):
        build.write(build.trunc(whole, vector(I16, LANES)), build.at(parts, place, I16))
        return
    upper = build.ashr(build.add(whole, constants([128] * LANES, I32)), constants([8] * LANES, I32))
    for plane, value in enumerate((upper, whole)):
        held = build.at(parts, build.add(place, constant(plane * amx.SIDE * STEP)), I8)
        build.write(build.trunc(value, vector(I8, LANES)), held)
