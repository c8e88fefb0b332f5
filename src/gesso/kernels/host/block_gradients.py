"""Writes the kernels of what stands between a block's products in training: residual sums and the norms beside them.

    N rows   D features, a multiple of 16

A row is read and written once each way. Kept are the rows that norms were taken of, and one over the root of each mean
square; what is made of these is made again. The `narrow` kernels have in bfloat16 what products read and make.
"""

from llvmlite import ir

from gesso.kernels.host.llvm_ir import F32, Loop, Value, constant, zeros
from gesso.kernels.host.row_writer import PART, Chunks, RowWriter


def write_attended_forward(module: ir.Module, name: str, *, narrow: bool = False) -> None:
    """Writes `name(x, branch, weight, to_first, to_second, to_third, sum, first, second, third, inverses, begin, end,
    N, D, eps, factor)`: x + norm(branch), and the norms of that with three weights, of which the third is multiplied by
    `factor`; `inverses` [2, N] are of the branch and of the sum. Branch and norms may be `narrow`."""
    build = RowWriter(module, name, 11, 4, 2, narrow=[1, 7, 8, 9] if narrow else [])
    x, branch, weight, *scales, total, first, second, third, inverses = build.arguments[:11]
    begin, end, count, width, eps, factor = build.arguments[11:]
    rows = Loop(build, begin, end)
    row, more, target = (build.row(held, rows.index, width) for held in (x, branch, total))
    inverse = build.inverse(more, width, eps)
    build.write(inverse, inverses, rows.index)
    times = build.lanes(inverse)
    loop = build.loop_parts(width, zeros(PART))
    normed = build.fmul(build.fmul(build.part(more, loop.index), times), build.part(weight, loop.index))
    added = build.fadd(build.part(row, loop.index), normed)
    build.write(added, target, loop.index)
    loop.close(build.fma(added, added, loop.carried[0]))
    inverse = build.mean_inverse(loop.carried[0], width, eps)
    build.write(inverse, inverses, build.add(count, rows.index))
    times, factors = build.lanes(inverse), build.lanes(factor)
    outputs = [build.row(held, rows.index, width) for held in (first, second, third)]
    loop = build.loop_parts(width)
    normed = build.fmul(build.part(target, loop.index), times)
    for number, (scale, out) in enumerate(zip(scales, outputs, strict=True)):
        found = build.fmul(normed, build.part(scale, loop.index))
        build.put(build.fmul(found, factors) if number == 2 else found, out, loop.index)
    loop.close()
    rows.close()
    build.ret_void()


def write_attended_backward(module: ir.Module, name: str, *, narrow: bool = False) -> None:
    """Writes `name(of_sum, of_first, of_second, of_third, sum, branch, weight, to_first, to_second, to_third, inverses,
    to_x, to_branch, sums, begin, end, N, D, factor)`: the gradients of `write_attended_forward` for chunks `begin` to
    `end`; `sums` [chunks, 4, D] get the weights'."""
    build = RowWriter(module, name, 14, 4, 1, narrow=[1, 2, 3, 5, 12] if narrow else [])
    of_sum, *of_norms, total, branch, weight, first, second, third, inverses, to_x, to_branch, sums = build.arguments[
        :14
    ]
    begin, end, count, width, factor = build.arguments[14:]
    chunks = Chunks(build, begin, end, count)
    of_weight, *of_scales = chunks.sums(sums, 4, width)
    rows = chunks.rows()
    straight, row, more, target, further = (
        build.row(held, rows.index, width) for held in (of_sum, total, branch, to_x, to_branch)
    )
    changes = [build.row(held, rows.index, width) for held in of_norms]
    own = build.read(inverses, F32, build.add(count, rows.index))
    times, factors = build.lanes(own), build.lanes(factor)
    loop = build.loop_parts(width, zeros(PART))
    part, gathered = build.part(row, loop.index), zeros(PART)
    normed = build.fmul(part, times)
    for number, (held, scale, of_scale) in enumerate(zip(changes, (first, second, third), of_scales, strict=True)):
        change = build.part(held, loop.index)
        if number == 2:
            change = build.fmul(change, factors)
        build.add_to(of_scale, loop.index, change, normed)
        gathered = build.fma(change, build.part(scale, loop.index), gathered)
    build.write(gathered, target, loop.index)
    loop.close(build.fma(gathered, part, loop.carried[0]))
    along = build.along(own, loop.carried[0], width)
    of_branch = build.read(inverses, F32, rows.index)
    branch_times = build.lanes(of_branch)
    loop = build.loop_parts(width, zeros(PART))
    change = build.fma(build.part(target, loop.index), times, build.part(straight, loop.index))
    change = build.fma(build.part(row, loop.index), along, change)
    build.write(change, target, loop.index)
    part = build.part(more, loop.index)
    build.add_to(of_weight, loop.index, change, build.fmul(part, branch_times))
    loop.close(build.fma(build.fmul(change, build.part(weight, loop.index)), part, loop.carried[0]))
    along = build.along(of_branch, loop.carried[0], width)
    loop = build.loop_parts(width)
    change = build.fmul(build.fmul(build.part(target, loop.index), build.part(weight, loop.index)), branch_times)
    build.put(build.fma(build.part(more, loop.index), along, change), further, loop.index)
    loop.close()
    rows.close()
    chunks.close()


def _inverses(build: RowWriter, inverses: Value, row: Value, count: Value, number: int) -> Value:
    return build.at(inverses, build.add(build.mul(count, constant(number)), row), F32)


def write_mixed_forward(module: ir.Module, name: str, *, narrow: bool = False) -> None:
    """Writes `name(x, one, other, of_one, of_other, of_sum, out, inverses, begin, end, N, D, eps, factor)`:
    (x + norm(norm(one) + norm(other))) * factor; `inverses` [3, N] are of one, of other and of their sum. One may be
    `narrow`."""
    build = RowWriter(module, name, 8, 4, 2, narrow=[1] if narrow else [])
    x, one, other, of_one, of_other, of_sum, out, inverses = build.arguments[:8]
    begin, end, count, width, eps, factor = build.arguments[8:]
    rows = Loop(build, begin, end)
    row, target = (build.row(held, rows.index, width) for held in (x, out))
    branches = [build.row(held, rows.index, width) for held in (one, other)]
    times = []
    for number, branch in enumerate(branches):
        inverse = build.inverse(branch, width, eps)
        build.write(inverse, _inverses(build, inverses, rows.index, count, number))
        times.append(build.lanes(inverse))
    loop = build.loop_parts(width, zeros(PART))
    added = _sum_of_norms(build, branches, times, (of_one, of_other), loop.index)
    build.write(added, target, loop.index)
    loop.close(build.fma(added, added, loop.carried[0]))
    inverse = build.mean_inverse(loop.carried[0], width, eps)
    build.write(inverse, _inverses(build, inverses, rows.index, count, 2))
    own, factors = build.lanes(inverse), build.lanes(factor)
    loop = build.loop_parts(width)
    normed = build.fmul(build.fmul(build.part(target, loop.index), own), build.part(of_sum, loop.index))
    build.write(build.fmul(build.fadd(build.part(row, loop.index), normed), factors), target, loop.index)
    loop.close()
    rows.close()
    build.ret_void()


def _sum_of_norms(
    build: RowWriter, branches: list[Value], times: list[Value], weights: tuple[Value, Value], index: Value
) -> Value:
    one, other = (
        build.fmul(build.fmul(build.part(branch, index), inverse), build.part(weight, index))
        for branch, inverse, weight in zip(branches, times, weights, strict=True)
    )
    return build.fadd(one, other)


def write_mixed_backward(module: ir.Module, name: str, *, narrow: bool = False) -> None:
    """Writes `name(grad, one, other, of_one, of_other, of_sum, inverses, to_x, to_one, to_other, sums, begin, end, N,
    D, factor)`: the gradients of `write_mixed_forward` for chunks `begin` to `end`; `sums` [chunks, 3, D] get the
    weights'."""
    build = RowWriter(module, name, 11, 4, 1, narrow=[1, 8] if narrow else [])
    grad, one, other, of_one, of_other, of_sum, inverses, to_x, to_one, to_other, sums = build.arguments[:11]
    begin, end, count, width, factor = build.arguments[11:]
    scratch = build.scratch(to_one, width)
    chunks = Chunks(build, begin, end, count)
    *of_weights, of_last = chunks.sums(sums, 3, width)
    rows = chunks.rows()
    whole, target = (build.row(held, rows.index, width) for held in (grad, to_x))
    branches = [build.row(held, rows.index, width) for held in (one, other)]
    outputs = [build.row(held, rows.index, width) for held in (to_one, to_other)]
    scalars = [build.read(_inverses(build, inverses, rows.index, count, number), F32) for number in range(3)]
    *times, own = (build.lanes(inverse) for inverse in scalars)
    factors = build.lanes(factor)
    # The sum of both norms is made again, in the place of the first branch's gradient where that is fp32.
    held, through = outputs[0] if scratch is None else scratch, outputs[1]
    loop = build.loop_parts(width, zeros(PART))
    change = build.fmul(build.part(whole, loop.index), factors)
    build.write(change, target, loop.index)
    added = _sum_of_norms(build, branches, times, (of_one, of_other), loop.index)
    build.write(added, held, loop.index)
    build.add_to(of_last, loop.index, build.fmul(change, own), added)
    loop.close(build.fma(build.fmul(change, build.part(of_sum, loop.index)), added, loop.carried[0]))
    along = build.along(scalars[2], loop.carried[0], width)
    loop = build.loop_parts(width, zeros(PART), zeros(PART))
    change = build.fmul(build.fmul(build.part(target, loop.index), build.part(of_sum, loop.index)), own)
    change = build.fma(build.part(held, loop.index), along, change)
    build.write(change, through, loop.index)
    products = []
    for number, weight in enumerate((of_one, of_other)):
        part = build.part(branches[number], loop.index)
        build.add_to(of_weights[number], loop.index, build.fmul(change, times[number]), part)
        weighted = build.fmul(change, build.part(weight, loop.index))
        products.append(build.fma(weighted, part, loop.carried[number]))
    loop.close(*products)
    alongs = [build.along(scalars[number], loop.carried[number], width) for number in range(2)]
    loop = build.loop_parts(width)
    change = build.part(through, loop.index)
    for number, weight in enumerate((of_one, of_other)):
        own_change = build.fmul(build.fmul(change, build.part(weight, loop.index)), times[number])
        found = build.fma(build.part(branches[number], loop.index), alongs[number], own_change)
        build.put(found, outputs[number], loop.index)
    loop.close()
    rows.close()
    chunks.close()
