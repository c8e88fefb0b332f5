"""Writes the kernels that sum rows up for training: a token's rows among the experts', and their gradients.

N tokens   k rows of each   D features, a multiple of 16   M rows; `slots` [N, k] say which are a token's
"""

from llvmlite import ir

from gesso.kernels.host.llvm_ir import F32, I64, Loop, constant, zeros
from gesso.kernels.host.row_writer import PART, RowWriter


def write_mix_forward(module: ir.Module, name: str, *, weighted: bool, narrow: bool = False) -> None:
    """Writes `name(x, slots, weights, out, begin, end, k, D)`: the sum of each token's rows, times their weights
    [N, k]. Rows may be `narrow`, and sums without weights with them."""
    build = RowWriter(module, name, 4, 4, narrow=[] if not narrow else [0] if weighted else [0, 3])
    x, slots, weights, out, begin, end, each, width = build.arguments
    tokens = Loop(build, begin, end)
    first, target = build.mul(tokens.index, each), build.row(out, tokens.index, width)
    loop = build.loop_parts(width)
    terms = Loop(build, constant(0), each, carried=[zeros(PART)])
    number = build.add(first, terms.index)
    part = build.part(build.row(x, build.read(slots, I64, number), width), loop.index)
    if weighted:
        terms.close(build.fma(build.lanes(build.read(weights, F32, number)), part, terms.carried[0]))
    else:
        terms.close(build.fadd(part, terms.carried[0]))
    build.put(terms.carried[0], target, loop.index)
    loop.close()
    tokens.close()
    build.ret_void()


def write_mix_backward(module: ir.Module, name: str, *, narrow: bool = False) -> None:
    """Writes `name(grad, x, slots, weights, to_x, to_weights, begin, end, k, D)`: the gradients of rows, each of which
    is one token's at most, and of weights. Rows that are nobody's are left as they are. Rows and their gradients may
    be `narrow`."""
    build = RowWriter(module, name, 6, 4, narrow=[1, 4] if narrow else [])
    grad, x, slots, weights, to_x, to_weights, begin, end, each, width = build.arguments
    tokens = Loop(build, begin, end)
    first, own = build.mul(tokens.index, each), build.row(grad, tokens.index, width)
    terms = Loop(build, constant(0), each)
    number = build.add(first, terms.index)
    slot = build.read(slots, I64, number)
    row, target = (build.row(held, slot, width) for held in (x, to_x))
    weight = build.lanes(build.read(weights, F32, number))
    loop = build.loop_parts(width, zeros(PART))
    change = build.part(own, loop.index)
    build.put(build.fmul(change, weight), target, loop.index)
    loop.close(build.fma(change, build.part(row, loop.index), loop.carried[0]))
    build.write(build.total(loop.carried[0]), to_weights, number)
    terms.close()
    tokens.close()
    build.ret_void()
