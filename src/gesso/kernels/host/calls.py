"""Writes the kernel that does a part of several products, which threads share as one job (see `team`).

What the products are stands in 64-bit words: `SHARED` of all of them, then `OWN` of each. Columns of what comes out are
numbered through all products, `UNIT` to a unit; a product begins with a unit of its own.
"""

from collections.abc import Sequence

from llvmlite import ir

from gesso.kernels.host.llvm_ir import F32, I32, I64, POINTER, VOID, Loop, Value, Writer, constant

UNIT = 16
"""Columns that a thread takes at least: of one expert's matrix 23 kB in 4 bits where rows are 2,816 long."""
SHARED = ("kernel", "products", "scratch", "room", "pieces", "count", "blocks", "x", "x_scales", "x_sums")
"""The address of a format's `multiply`, the number of products, scratch memory and how many floats of it a thread has,
and what `multiply` is given."""
OWN = ("codes", "scales", "third", "out", "columns", "first")
"""What it is given of each product, and the product's first unit."""
_MULTIPLY = ir.FunctionType(VOID, [POINTER] * 9 + [I64] * 5)


def units(columns: int) -> int:
    """Returns how many units so many columns take."""
    return -(-columns // UNIT)


def words(shared: Sequence[int], products: Sequence[Sequence[int]]) -> list[int]:
    """Returns the words of products, each given without its first unit."""
    assert len(shared) == len(SHARED)
    found, first = list(shared), 0
    for own in products:
        found += (*own, first)
        first += units(own[-1])
    return found


def write_multiply_all(module: ir.Module, name: str) -> None:
    """Writes `name(words, thread, begin, end)`, which computes units `begin` to before `end`."""
    build = Writer(module, name, VOID, [POINTER, I64, I64, I64])
    held, thread, begin, end = build.made.args
    shared = {name: build.read(held, I64, constant(i)) for i, name in enumerate(SHARED)}
    scratch = build.at(build.inttoptr(shared["scratch"], POINTER), build.mul(thread, shared["room"]), F32)
    kernel = build.inttoptr(shared["kernel"], _MULTIPLY.as_pointer())
    products = Loop(build, constant(0), shared["products"])
    place = build.add(constant(len(SHARED)), build.mul(products.index, constant(len(OWN))))
    own = {name: build.read(held, I64, build.add(place, constant(i))) for i, name in enumerate(OWN)}
    edges = [_column(build, edge, own["first"], own["columns"]) for edge in (begin, end)]
    with build.if_then(build.icmp_signed("<", *edges)):
        addresses = [shared["x"], shared["x_scales"], shared["x_sums"], *(own[name] for name in OWN[:4])]
        pointers = [build.inttoptr(address, POINTER) for address in addresses]
        pieces = build.inttoptr(shared["pieces"], POINTER)
        numbers = [shared["count"], own["columns"], shared["blocks"], *edges]
        build.call(kernel, [*pointers, scratch, pieces, *numbers])
    products.close()
    build.ret_void()


def _column(build: Writer, edge: Value, first: Value, columns: Value) -> Value:
    """Returns the column of a product that a unit begins with, or the nearest that there is."""
    column = build.mul(build.sub(edge, first), constant(UNIT))
    column = build.select(build.icmp_signed("<", column, constant(0)), constant(0), column)
    return build.select(build.icmp_signed("<", columns, column), columns, column)


TAKEN = ("work", "context", "count", "step", "next", "thread")
"""Words of a job that threads share as they come: the address of a function (context, thread, begin, end), its context,
how many units there are and how many are taken at a time, the next one, and the number of the next thread."""
_WORK = ir.FunctionType(VOID, [POINTER, I64, I64, I64])


def write_take_units(module: ir.Module, name: str) -> None:
    """Writes `name(words)`, which several threads call at once: each takes units until there are none left."""
    build = Writer(module, name, VOID, [POINTER])
    (words,) = build.made.args
    held = {name: build.at(words, constant(i), I64) for i, name in enumerate(TAKEN)}
    work, context, count, step = (build.read(held[name], I64) for name in TAKEN[:4])
    thread = build.atomic_rmw("add", held["thread"], constant(1), "seq_cst")
    kernel, context = build.inttoptr(work, _WORK.as_pointer()), build.inttoptr(context, POINTER)
    head, body, done = (build.made.append_basic_block() for _ in range(3))
    build.branch(head)
    build.position_at_end(head)
    begin = build.atomic_rmw("add", held["next"], step, "seq_cst")
    build.cbranch(build.icmp_signed("<", begin, count), body, done)
    build.position_at_end(body)
    build.call(kernel, [context, thread, begin, build.least(build.add(begin, step), count)])
    build.branch(head)
    build.position_at_end(done)
    build.ret_void()


def write_call_rows(module: ir.Module, name: str, pointers: int, wholes: int, floats: int) -> None:
    """Writes `name(words, thread, begin, end)`: calls the function whose address is the first word with so many
    addresses, `begin`, `end`, and then numbers of 64 bits and floats, the bits of a word each."""
    build = Writer(module, name, VOID, [POINTER, I64, I64, I64])
    words, _, *edges = build.made.args
    address, *given = (build.read(words, I64, constant(i)) for i in range(1 + pointers + wholes + floats))
    given[pointers:pointers] = edges
    last = pointers + len(edges) + wholes
    given[last:] = [build.bitcast(build.trunc(word, I32), F32) for word in given[last:]]
    kind = ir.FunctionType(VOID, [I64] * last + [F32] * floats)
    build.call(build.inttoptr(address, kind.as_pointer()), given)
    build.ret_void()
