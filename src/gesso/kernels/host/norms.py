"""Writes the kernels of what stands between a layer's products: norms, residual sums, turns of heads, mixtures.

    N rows   D features of a row, a multiple of 8   H heads of K features, a multiple of 16

They compute what `nn.norm` and `nn.rope` do by array operations, to the same bits: squares are added up in eight lanes,
the lanes one after the other, and every other operation is rounded by itself, but for a mixture's products, which are
rounded with their sums. A row depends on that row alone.
"""

from collections.abc import Sequence

from llvmlite import ir

from gesso.kernels.host.llvm_ir import F32, I64, POINTER, VOID, Loop, Value, Writer, constant, vector, zeros

LANES = 8
"""Sums of squares that PyTorch keeps side by side, whatever vectors it has."""
_PART = vector(F32, LANES)


class _Rows(Writer):
    def read_part(self, row: Value, index: Value) -> Value:
        return self.read(row, _PART, index)

    def row(self, rows: Value, number: Value, width: Value) -> Value:
        """Returns where a row begins."""
        return self.at(rows, self.mul(number, width), F32)

    def inverse(self, row: Value, width: Value, eps: Value) -> Value:
        """Returns one over the root of the mean square of a row, in all lanes."""
        loop = Loop(self, constant(0), width, step=LANES, carried=[zeros(_PART)])
        part = self.read_part(row, loop.index)
        loop.close(self.fadd(loop.carried[0], self.fmul(part, part)))
        total = self.extract_element(loop.carried[0], constant(0))
        for lane in range(1, LANES):
            total = self.fadd(total, self.extract_element(loop.carried[0], constant(lane)))
        root = self.own("llvm.sqrt.f32", F32, total)
        mean = self.fdiv(self.fmul(root, root), self.sitofp(width, F32))
        root = self.own("llvm.sqrt.f32", F32, self.fadd(mean, eps))
        return self.splat(self.fdiv(ir.Constant(F32, 1.0), root), LANES)

    def normed(self, row: Value, inverse: Value, weight: Value, index: Value) -> Value:
        """Returns eight features of a normed row, times their weights."""
        return self.fmul(self.fmul(self.read_part(row, index), inverse), self.read_part(weight, index))


def _begin(module: ir.Module, name: str, pointers: int, floats: int) -> tuple[_Rows, Sequence[Value], Loop]:
    """Begins a kernel `name(pointers..., begin, end, D, floats...)`, and its loop over rows."""
    build = _Rows(module, name, VOID, [POINTER] * pointers + [I64] * 3 + [F32] * floats)
    arguments = build.made.args
    return build, arguments, Loop(build, arguments[pointers], arguments[pointers + 1])


def _end(build: _Rows, rows: Loop) -> None:
    rows.close()
    build.ret_void()


def write_norm(module: ir.Module, name: str) -> None:
    """Writes `name(x, weight, out, begin, end, D, eps)`: the norm of rows `begin` to `end` of x [N, D]."""
    build, (x, weight, out, _, _, width, eps), rows = _begin(module, name, 3, 1)
    row, target = (build.row(held, rows.index, width) for held in (x, out))
    inverse = build.inverse(row, width, eps)
    loop = Loop(build, constant(0), width, step=LANES)
    build.write(build.normed(row, inverse, weight, loop.index), target, loop.index)
    loop.close()
    _end(build, rows)


def write_add_norm(module: ir.Module, name: str) -> None:
    """Writes `name(x, branch, weight, sum, first, second, third, to_first, to_second, to_third, begin, end, D, eps,
    factor)`: x + norm(branch), and the norms of that with three weights, of which the third is multiplied by
    `factor`."""
    build, arguments, rows = _begin(module, name, 10, 2)
    x, branch, weight, total, *pairs = arguments[:10]
    width, eps, factor = arguments[12:]
    row, more, target = (build.row(held, rows.index, width) for held in (x, branch, total))
    inverse = build.inverse(more, width, eps)
    loop = Loop(build, constant(0), width, step=LANES)
    added = build.fadd(build.read_part(row, loop.index), build.normed(more, inverse, weight, loop.index))
    build.write(added, target, loop.index)
    loop.close()
    inverse, times = build.inverse(target, width, eps), build.splat(factor, LANES)
    outputs = [build.row(held, rows.index, width) for held in pairs[3:]]
    loop = Loop(build, constant(0), width, step=LANES)
    for number, (scale, out) in enumerate(zip(pairs[:3], outputs, strict=True)):
        found = build.normed(target, inverse, scale, loop.index)
        build.write(build.fmul(found, times) if number == 2 else found, out, loop.index)
    loop.close()
    _end(build, rows)


def write_add_branches(module: ir.Module, name: str) -> None:
    """Writes `name(x, one, one_weight, other, other_weight, weight, out, begin, end, D, eps, factor)`:
    (x + norm(norm(one) + norm(other))) * factor."""
    build, arguments, rows = _begin(module, name, 7, 2)
    x, one, one_weight, other, other_weight, weight, out = arguments[:7]
    width, eps, factor = arguments[9:]
    row, first, second, target = (build.row(held, rows.index, width) for held in (x, one, other, out))
    of_first, of_second = (build.inverse(branch, width, eps) for branch in (first, second))
    loop = Loop(build, constant(0), width, step=LANES)
    added = build.fadd(
        build.normed(first, of_first, one_weight, loop.index),
        build.normed(second, of_second, other_weight, loop.index),
    )
    build.write(added, target, loop.index)
    loop.close()
    inverse, times = build.inverse(target, width, eps), build.splat(factor, LANES)
    loop = Loop(build, constant(0), width, step=LANES)
    found = build.fadd(build.read_part(row, loop.index), build.normed(target, inverse, weight, loop.index))
    build.write(build.fmul(found, times), target, loop.index)
    loop.close()
    _end(build, rows)


def write_norm_heads(module: ir.Module, name: str, *, turned: bool) -> None:
    """Writes `name(x, weight, cos, sin, out, begin, end, K, H, eps)`: norms of heads, x [N * H, K], and their turn by
    cos and sin [N, K].

    Args:
        turned: without it heads are normed alone, and not even multiplied by weights.
    """
    build = _Rows(module, name, VOID, [POINTER] * 5 + [I64] * 4 + [F32])
    x, weight, cos, sin, out, begin, end, width, heads, eps = build.made.args
    rows = Loop(build, begin, end)
    row, target = (build.row(held, rows.index, width) for held in (x, out))
    inverse = build.inverse(row, width, eps)
    if not turned:
        loop = Loop(build, constant(0), width, step=LANES)
        build.write(build.fmul(build.read_part(row, loop.index), inverse), target, loop.index)
        loop.close()
        _end(build, rows)
        return
    angle = build.udiv(rows.index, heads)
    cosine, sine = (build.row(held, angle, width) for held in (cos, sin))
    half = build.udiv(width, constant(2))
    loop = Loop(build, constant(0), half, step=LANES)
    places = (loop.index, build.add(loop.index, half))
    first, second = (build.normed(row, inverse, weight, place) for place in places)
    for place, own, other in ((places[0], first, build.fneg(second)), (places[1], second, first)):
        found = build.fmul(own, build.read_part(cosine, place))
        build.write(build.fadd(found, build.fmul(other, build.read_part(sine, place))), target, place)
    loop.close()
    _end(build, rows)


def write_mix_rows(module: ir.Module, name: str, *, placed: bool) -> None:
    """Writes `name(x, weights, out, begin, end, D, k)`: each row of `out` is the sum of its k neighbouring rows of x,
    times a weight each, one after the other.

    Args:
        placed: it is `name(x, weights, slots, out, begin, end, D, k)`, and `slots` say where those rows are.
    """
    build = _Rows(module, name, VOID, [POINTER] * (4 if placed else 3) + [I64] * 4)
    x, weights, *slots, out, begin, end, width, each = build.made.args
    rows = Loop(build, begin, end)
    first, target = build.mul(rows.index, each), build.row(out, rows.index, width)
    loop = Loop(build, constant(0), width, step=LANES)
    terms = Loop(build, constant(0), each, carried=[zeros(_PART)])
    number = build.add(first, terms.index)
    weight = build.splat(build.read(weights, F32, number), LANES)
    place = build.read(slots[0], I64, number) if placed else number
    part = build.read_part(build.row(x, place, width), loop.index)
    terms.close(build.fma(weight, part, terms.carried[0]))
    build.write(terms.carried[0], target, loop.index)
    loop.close()
    _end(build, rows)
