"""Writes the kernels of RMSNorm and of turned heads for training, each way one pass over a row.

    N rows   D features, a multiple of 16   H heads of K features, half of which are a multiple of 16

Kept for the way back are the rows as they came and one over the root of each mean square.
"""

from llvmlite import ir

from gesso.kernels.host.llvm_ir import F32, Loop, constant, zeros
from gesso.kernels.host.row_writer import PART, Chunks, RowWriter


def write_norm_forward(module: ir.Module, name: str, *, weighted: bool, narrow: bool = False) -> None:
    """Writes `name(x, weight, out, inverses, begin, end, D, eps)`: the norm of rows `begin` to `end`, which
    may be `narrow`."""
    build = RowWriter(module, name, 4, 3, 1, narrow=[2] if narrow else [])
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
    build.put(found, target, loop.index)
    loop.close()
    rows.close()
    build.ret_void()


def write_norm_backward(module: ir.Module, name: str, *, weighted: bool, narrow: bool = False) -> None:
    """Writes `name(grad, x, weight, inverses, to_x, sums, begin, end, N, D)`: the gradients of a norm of chunks `begin`
    to `end`; `sums` [chunks, D] get the weights'. The gradient of what came out may be `narrow`."""
    build = RowWriter(module, name, 6, 4, narrow=[0] if narrow else [])
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


def write_heads_forward(module: ir.Module, name: str, *, turned: bool = True, narrow: bool = False) -> None:
    """Writes `name(x, weight, cos, sin, out, inverses, begin, end, K, H, stride, eps)`: heads x [N, H, K] normed, and
    times their weights and turned by cos and sin [N, K] where they are `turned`. The heads of tokens of x are `stride`
    apart. They may be `narrow`, with what comes out."""
    build = RowWriter(module, name, 6, 5, 1, narrow=[0, 4] if narrow else [])
    x, weight, cos, sin, out, inverses, begin, end, width, heads, stride, eps = build.arguments
    tokens, half = Loop(build, begin, end), build.udiv(width, constant(2))
    cosine, sine = (build.row(held, tokens.index, width) for held in (cos, sin))
    of_token = build.row(x, tokens.index, stride)
    head = Loop(build, constant(0), heads)
    number = build.add(build.mul(tokens.index, heads), head.index)
    row, target = build.row(of_token, head.index, width), build.row(out, number, width)
    inverse = build.inverse(row, width, eps)
    build.write(inverse, inverses, number)
    times = build.lanes(inverse)
    loop = build.loop_parts(half)
    places = loop.index, build.add(loop.index, half)
    first, second = (build.fmul(build.part(row, place), times) for place in places)
    if turned:
        first, second = (
            build.fmul(part, build.part(weight, place)) for part, place in zip((first, second), places, strict=True)
        )
    for place, own, other in ((places[0], first, build.fneg(second)), (places[1], second, first)):
        found = own
        if turned:
            found = build.fma(other, build.part(sine, place), build.fmul(own, build.part(cosine, place)))
        build.put(found, target, place)
    loop.close()
    head.close()
    tokens.close()
    build.ret_void()


def write_heads_backward(
    module: ir.Module, name: str, *, turned: bool = True, narrow: bool = False, added: bool = False
) -> None:
    """Writes `name(grad, x, weight, cos, sin, inverses, to_x, sums, begin, end, N, K, H, stride)`: the gradients of
    `write_heads_forward` for chunks of tokens, which may be `added` to what is there; `sums` [chunks, K] get the
    weights', of turned heads."""
    build = RowWriter(module, name, 8, 6, narrow=[0, 1, 6] if narrow else [])
    grad, x, weight, cos, sin, inverses, to_x, sums, begin, end, count, width, heads, stride = build.arguments
    half, scratch = build.udiv(width, constant(2)), build.scratch(to_x, width)
    chunks = Chunks(build, begin, end, count)
    of_weight = chunks.sums(sums, 1, width)[0] if turned else None
    tokens = chunks.rows()
    cosine, sine = (build.row(held, tokens.index, width) for held in (cos, sin))
    of_token, to_token = (build.row(held, tokens.index, stride) for held in (x, to_x))
    head = Loop(build, constant(0), heads)
    number = build.add(build.mul(tokens.index, heads), head.index)
    own, row, target = build.row(grad, number, width), *(build.row(t, head.index, width) for t in (of_token, to_token))
    held = target if scratch is None else scratch
    inverse = build.read(inverses, F32, number)
    times = build.lanes(inverse)
    loop = build.loop_parts(half, zeros(PART))
    places = loop.index, build.add(loop.index, half)
    changes = [build.part(own, place) for place in places]
    if turned:
        first, second = changes
        sines = [build.part(sine, place) for place in places]
        changes = [
            build.fma(second, sines[1], build.fmul(first, build.part(cosine, places[0]))),
            build.fma(build.fneg(first), sines[0], build.fmul(second, build.part(cosine, places[1]))),
        ]
    product = loop.carried[0]
    for place, change in zip(places, changes, strict=True):
        part, weighted = build.part(row, place), change
        if of_weight is not None:
            build.add_to(of_weight, place, build.fmul(change, times), part)
            weighted = build.fmul(change, build.part(weight, place))
            build.write(weighted, held, place)
        product = build.fma(weighted, part, product)
    loop.close(product)
    along = build.along(inverse, loop.carried[0], width)
    loop = build.loop_parts(width)
    change = build.fmul(build.part(held if turned else own, loop.index), times)
    found = build.fma(build.part(row, loop.index), along, change)
    build.put(build.fadd(build.part(target, loop.index), found) if added else found, target, loop.index)
    loop.close()
    head.close()
    tokens.close()
    chunks.close()
