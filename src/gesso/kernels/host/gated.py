"""Writes the kernels of a gated feed-forward for training: gelu(gate) * up by the tanh approximation, and its way back.

With u = sqrt(2 / pi) (x + 0.044715 x³), gelu(x) = x / (1 + exp(-2u)): the same function as 0.5 x (1 + tanh(u)), without
the cancellation of 1 + tanh where x is negative. The
error of gelu is 3e-7 of its value or of 1, whichever is larger; below -12 or so, where that is under the least float,
it is no zero but about -1e-37.
"""

from llvmlite import ir

from gesso.kernels.host.exponential import MOST, all_lanes, exp
from gesso.kernels.host.llvm_ir import Loop, Value
from gesso.kernels.host.row_writer import PART, RowWriter

ROOT = 0.7978845608028654
"""The root of 2 / pi."""
CUBIC = 0.044715


def _sigmoid(build: RowWriter, x: Value) -> tuple[Value, Value, Value]:
    """Returns s = 1 / (1 + exp(-2u)), 1 - s, and x²."""
    square = build.fmul(x, x)
    inner = build.fmul(x, build.fma(square, all_lanes(-2 * ROOT * CUBIC), all_lanes(-2 * ROOT)))
    inner = build.own("llvm.maxnum.v16f32", PART, inner, all_lanes(-MOST))
    inner = build.own("llvm.minnum.v16f32", PART, inner, all_lanes(MOST))
    power = exp(build, inner)
    share = build.fdiv(all_lanes(1.0), build.fadd(power, all_lanes(1.0)))
    return share, build.fmul(power, share), square


def write_gated_forward(module: ir.Module, name: str, *, narrow: bool = False) -> None:
    """Writes `name(gate, up, out, begin, end, F, stride)`: gelu(gate) * up of rows `begin` to `end`; rows of gate and
    up are `stride` apart, those of out F; all may be `narrow`, bfloat16."""
    build = RowWriter(module, name, 3, 4, narrow=range(3) if narrow else [])
    gate, up, out, begin, end, width, stride = build.arguments
    rows = Loop(build, begin, end)
    one, other = (build.row(held, rows.index, stride) for held in (gate, up))
    target = build.row(out, rows.index, width)
    loop = build.loop_parts(width)
    x = build.part(one, loop.index)
    share, _, _ = _sigmoid(build, x)
    build.put(build.fmul(build.fmul(x, share), build.part(other, loop.index)), target, loop.index)
    loop.close()
    rows.close()
    build.ret_void()


def write_gated_backward(module: ir.Module, name: str, *, narrow: bool = False) -> None:
    """Writes `name(grad, gate, up, to_gate, to_up, begin, end, F, stride)`: the gradients of `write_gated_forward`;
    rows of gate, up and their gradients are `stride` apart, those of grad F; all may be `narrow`, bfloat16."""
    build = RowWriter(module, name, 5, 4, narrow=range(5) if narrow else [])
    grad, gate, up, to_gate, to_up, begin, end, width, stride = build.arguments
    rows = Loop(build, begin, end)
    whole = build.row(grad, rows.index, width)
    one, other, to_one, to_other = (build.row(held, rows.index, stride) for held in (gate, up, to_gate, to_up))
    loop = build.loop_parts(width)
    change, x = (build.part(held, loop.index) for held in (whole, one))
    share, rest, square = _sigmoid(build, x)
    value = build.fmul(x, share)
    build.put(build.fmul(change, value), to_other, loop.index)
    # d gelu / dx = s + x s (1 - s) 2u', and u' = sqrt(2 / pi) (1 + 3 * 0.044715 x²).
    slope = build.fma(square, all_lanes(6 * ROOT * CUBIC), all_lanes(2 * ROOT))
    rising = build.fmul(build.fmul(value, rest), slope)
    change = build.fmul(change, build.part(other, loop.index))
    build.put(build.fmul(change, build.fadd(share, rising)), to_one, loop.index)
    loop.close()
    rows.close()
    build.ret_void()
