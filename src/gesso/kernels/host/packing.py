"""Writes the kernels that pack weights, as `nn.quant.integer` defines it bit by bit, and measure what is lost.

A matrix is read once, in float32 or bfloat16; rows, or groups, are shared out among threads.
"""

from llvmlite import ir

from gesso.kernels.host.activations import LANES
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

F64 = ir.DoubleType()
FLOATS, WHOLES, DOUBLES = vector(F32, LANES), vector(I32, LANES), vector(F64, LANES)
TINY = 2.0**-126


class _Packer(Writer):
    """Builds `name(weights, features, begin, end, codes, scales, offsets, errors)`.

    `errors` are two doubles of the thread's own: the sums of (packed - weight)² and of weight².
    """

    def __init__(self, module: ir.Module, name: str, *, half: bool) -> None:
        super().__init__(module, name, VOID, [POINTER, I64, I64, I64, POINTER, POINTER, POINTER, POINTER])
        self.half = half
        self.weights, self.features, self.begin, self.end = self.made.args[:4]
        self.codes, self.scales, self.offsets, self.errors = self.made.args[4:]

    def piece(self, index: Value) -> Value:
        """Reads 16 weights."""
        if self.half:
            return self.bfloat16(self.read(self.weights, vector(I16, LANES), index))
        return self.read(self.weights, FLOATS, index)

    def extreme(self, values: list[Value], *, most: bool) -> Value:
        """Returns the smallest, or largest, number of several vectors; not a number where one is not."""
        word = "maximum" if most else "minimum"
        found = values[0]
        for value in values[1:]:
            found = self.own(f"llvm.{word}.v16f32", FLOATS, found, value)
        return self.own(f"llvm.vector.reduce.f{word}.v16f32", F32, found)

    def rounded(self, value: Value) -> tuple[Value, Value]:
        """Rounds to bfloat16: its bits, and the number that they stand for."""
        bits = self.bitcast(value, I32)
        even = self.and_(self.lshr(bits, constant(16, I32)), constant(1, I32))
        bits = self.lshr(self.add(self.add(bits, constant(0x7FFF, I32)), even), constant(16, I32))
        short = self.trunc(bits, I16)
        return short, self.bfloat16(short)

    def nearest(self, value: Value, low: float, high: float) -> Value:
        """Rounds to the nearest whole number, halves to even, and no further than `low` and `high`."""
        whole = self.own("llvm.rint.v16f32", FLOATS, value)
        whole = self.own("llvm.maxnum.v16f32", FLOATS, whole, constants([low] * LANES, F32))
        return self.own("llvm.minnum.v16f32", FLOATS, whole, constants([high] * LANES, F32))

    def measure(self, sums: list[Value], error: Value, weight: Value) -> list[Value]:
        """Adds the squares of 16 errors and weights to the sums."""
        wide = [self.fpext(value, DOUBLES) for value in (error, weight)]
        return [self.own("llvm.fma.v16f64", DOUBLES, w, w, total) for w, total in zip(wide, sums, strict=True)]

    def finish(self, sums: list[Value]) -> None:
        """Stores the sums and returns."""
        for i, total in enumerate(sums):
            start = ir.Constant(F64, 0.0)
            value = self.own("llvm.vector.reduce.fadd.v16f64", F64, start, total)
            self.store(value, self.at(self.errors, constant(i), F64))
        self.ret_void()


def write_pack_int4(module: ir.Module, name: str, group_size: int, *, half: bool) -> None:
    """Writes the kernel for `Int4`: groups `begin` to `end`."""
    build = _Packer(module, name, half=half)
    groups = Loop(build, build.begin, build.end, carried=[zeros(DOUBLES)] * 2)
    first, parts = build.mul(groups.index, constant(group_size)), group_size // LANES
    weights = [build.piece(build.add(first, constant(LANES * i))) for i in range(parts)]
    none = ir.Constant(F32, 0.0)
    low = build.own("llvm.minimum.f32", F32, build.extreme(weights, most=False), none)
    high = build.own("llvm.maximum.f32", F32, build.extreme(weights, most=True), none)
    scale_bits, scale = build.rounded(build.fdiv(build.fsub(high, low), ir.Constant(F32, 15.0)))
    offset_bits, offset = build.rounded(low)
    build.write(scale_bits, build.scales, groups.index)
    build.write(offset_bits, build.offsets, groups.index)
    divisor = build.splat(build.own("llvm.maxnum.f32", F32, scale, ir.Constant(F32, TINY)), LANES)
    scales, offsets = build.splat(scale, LANES), build.splat(offset, LANES)
    codes, sums = [], list(groups.carried)
    for weight in weights:
        code = build.nearest(build.fdiv(build.fsub(weight, offsets), divisor), 0.0, 15.0)
        sums = build.measure(sums, build.fsub(build.fadd(build.fmul(code, scales), offsets), weight), weight)
        codes.append(build.trunc(build.own("llvm.fptosi.sat.v16i32.v16f32", WHOLES, code), vector(I8, LANES)))
    for i in range(parts // 2):
        high_half = build.shl(codes[parts // 2 + i], constants([4] * LANES, I8))
        place = build.add(build.mul(groups.index, constant(group_size // 2)), constant(LANES * i))
        build.write(build.or_(codes[i], high_half), build.codes, place)
    groups.close(*sums)
    build.finish(groups.carried)


def write_pack_int8(module: ir.Module, name: str, *, half: bool) -> None:
    """Writes the kernel for `Int8`: rows `begin` to `end` of `features`, a multiple of 16."""
    build = _Packer(module, name, half=half)
    rows = Loop(build, build.begin, build.end, carried=[zeros(DOUBLES)] * 2)
    first = build.mul(rows.index, build.features)
    largest = Loop(build, constant(0), build.features, step=LANES, carried=[zeros(FLOATS)])
    size = build.own("llvm.fabs.v16f32", FLOATS, build.piece(build.add(first, largest.index)))
    largest.close(build.own("llvm.maximum.v16f32", FLOATS, largest.carried[0], size))
    scale = build.fdiv(build.extreme(largest.carried, most=True), ir.Constant(F32, 127.0))
    build.write(scale, build.scales, rows.index)
    divisor = build.splat(build.own("llvm.maxnum.f32", F32, scale, ir.Constant(F32, TINY)), LANES)
    scales = build.splat(scale, LANES)
    inside = Loop(build, constant(0), build.features, step=LANES, carried=rows.carried)
    place = build.add(first, inside.index)
    weight = build.piece(place)
    code = build.nearest(build.fdiv(weight, divisor), -127.0, 127.0)
    whole = build.own("llvm.fptosi.sat.v16i32.v16f32", WHOLES, code)
    build.write(build.trunc(whole, vector(I8, LANES)), build.codes, place)
    inside.close(*build.measure(inside.carried, build.fsub(build.fmul(code, scales), weight), weight))
    rows.close(*inside.carried)
    build.finish(rows.carried)
