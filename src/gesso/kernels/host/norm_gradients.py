"""Writes the kernels of RMSNorm and of turned heads for training, each way one pass over a row.

    N rows   D features, a multiple of 16   H heads of K features, half of which are a multiple of 16

Kept for the way back are the rows as they came and one over the root of each mean square.
"""

from llvmlite import ir

from gesso.kernels.host.llvm_ir import F32, Loop, constant, zeros
from gesso.kernels.host.row_writer import PART, Chunks, RowWriter


def write_norm_forward(module: ir.Module, name: str, *, weighted: bool) -> None:
    """Writes `name(x, weight, out, inverses, begin, end, D, eps)`: the norm of rows `begin` to `end`."""
    build = RowWriter(module, name, 4, 3, 1)
    x, weight, out, inverses, begin, end, width, eps = build.arguments
    rows = Loop(build, begin, end)
    row, target = (build.row(held, rows.index, width) for held in (x, out))
    inverse = build.inverse(row, width, eps)
    build.write(inverse, inverses, rows.index)
    times = build.lanes(inverse)
    loop = build.loop_parts(width)
    found = build.fmul(build.part(row, loop.index), times)
    if weighted:
        found = build.fmul(found, build.part(weight, loop.index))
    build.write(found, target, loop.index)
    loop.close()
    rows.close()
    build.ret_void()


def write_norm_backward(module: ir.Module, name: str, *, weighted: bool) -> None:
    """Writes `name(grad, x, weight, inverses, to_x, sums, begin, end, N, D)`: the gradients of a norm of chunks `begin`
    to `end`; `sums` [chunks, D] get the weights'."""
    build = RowWriter(module, name, 6, 4)
    grad, x, weight, inverses, to_x, sums, begin, end, count, width = build.arguments
    chunks = Chunks(build, begin, end, count)
    of_weight = chunks.sums(sums, 1, width)[0] if weighted else None
    rows = chunks.rows()
    own, row, target = (build.row(held, rows.index, width) for held in (grad, x, to_x))
    inverse = build.read(inverses, F32, rows.index)
    times = build.lanes(inverse)
    loop = build.loop_parts(width, zeros(PART))
    change, part = build.part(own, loop.index), build.part(row, loop.index)
    if of_weight is not None:
        build.add_to(of_weight, loop.index, build.fmul(change, times), part)
        change = build.fmul(change, build.part(weight, loop.index))
    loop.close(build.fma(change, part, loop.carried[0]))
    along = build.along(inverse, loop.carried[0], width)
    loop = build.loop_parts(width)
    change = build.part(own, loop.index)
    if weighted:
        change = build.fmul(change, build.part(weight, loop.index))
    build.write(build.fma(build.part(row, loop.index), along, build.fmul(change, times)), target, loop.index)
    loop.close()
    rows.close()
    chunks.close()


def write_heads_forward(module: ir.Module, name: str) -> None:
    """Writes `name(x, weight, cos, sin, out, inverses, begin, end, K, H, eps)`: heads x [N, H, K] normed and turned by
    cos and sin [N, K]."""
    build = RowWriter(module, name, 6, 4, 1)
    x, weight, cos, sin, out, inverses, begin, end, width, heads, eps = build.arguments
    tokens, half = Loop(build, begin, end), build.udiv(width, constant(2))
    cosine, sine = (build.row(held, tokens.index, width) for held in (cos, sin))
    head = Loop(build, constant(0), heads)
    number = build.add(build.mul(tokens.index, heads), head.index)
    row, target = (build.row(held, number, width) for held in (x, out))
    inverse = build.inverse(row, width, eps)
    build.write(inverse, inverses, number)
    times = build.lanes(inverse)
    loop = build.loop_parts(half)
    places = loop.index, build.add(loop.index, half)
    first, second = (
        build.fmul(build.fmul(build.part(row, place), times), build.part(weight, place)) for place in places
    )
    for place, own, other in ((places[0], first, build.fneg(second)), (places[1], second, first)):
        kept = build.fmul(own, build.part(cosine, place))
        build.write(build.fma(other, build.part(sine, place), kept), target, place)
    loop.close()
    head.close()
    tokens.close()
    build.ret_void()


def write_heads_backward(module: ir.Module, name: str) -> None:
    """Writes `name(grad, x, weight, cos, sin, inverses, to_x, sums, begin, end, N, K, H)`: the gradients of
    `write_heads_forward` for chunks of tokens; `sums` [chunks, K] get the weights'."""
    build = RowWriter(module, name, 8, 5)
    grad, x, weight, cos, sin, inverses, to_x, sums, begin, end, count, width, heads = build.arguments
    half = build.udiv(width, constant(2))
    chunks = Chunks(build, begin, end, count)
    of_weight = chunks.sums(sums, 1, width)[0]
    tokens = chunks.rows()
    cosine, sine = (build.row(held, tokens.index, width) for held in (cos, sin))
    head = Loop(build, constant(0), heads)
    number = build.add(build.mul(tokens.index, heads), head.index)
    own, row, target = (build.row(held, number, width) for held in (grad, x, to_x))
    inverse = build.read(inverses, F32, number)
    times = build.lanes(inverse)
    loop = build.loop_parts(half, zeros(PART))
    places = loop.index, build.add(loop.index, half)
    first, second = (build.part(own, place) for place in places)
    sines = [build.part(sine, place) for place in places]
    turned = (
        build.fma(second, sines[1], build.fmul(first, build.part(cosine, places[0]))),
        build.fma(build.fneg(first), sines[0], build.fmul(second, build.part(cosine, places[1]))),
    )
    product = loop.carried[0]
    for place, change in zip(places, turned, strict=True):
        part = build.part(row, place)
        build.add_to(of_weight, place, build.fmul(change, times), part)
        weighted = build.fmul(change, build.part(weight, place))
        build.write(weighted, target, place)
        product = build.fma(weighted, part, product)
    loop.close(product)
    along = build.along(inverse, loop.carried[0], width)
    loop = build.loop_parts(width)
    change = build.fmul(build.part(target, loop.index), times)
    build.write(build.fma(build.part(row, loop.index), along, change), target, loop.index)
    loop.close()
    head.close()
    tokens.close()
    chunks.close()
