"""Writes the kernels that lay heads of flat rows out for attention, padded and head by head, and flat again.

    B rows   N tokens of all rows, flat   T tokens of a padded row   H heads of W parts, 64 bytes each

Numbers are moved as they are, whatever their type.
"""

from llvmlite import ir

from gesso.kernels.host.llvm_ir import I32, I64, POINTER, VOID, Loop, Value, Writer, constant, vector, zeros

WORDS = 16
"""Words of 32 bits that a part has."""
_PART = vector(I32, WORDS)


def write_spread(module: ir.Module, name: str) -> None:
    """Writes `name(flat, padded, begins, lengths, begin, end, H, T, W)`: rows `begin` to `end` of flat [N, H, W], which
    begin at `begins` and have `lengths`, in padded [B, H, T, W]; zeros behind their ends."""
    _write(module, name, spread=True)


def write_collect(module: ir.Module, name: str) -> None:
    """Writes `name(flat, padded, begins, lengths, begin, end, H, T, W)`: what `write_spread` does, back."""
    _write(module, name, spread=False)


def _write(module: ir.Module, name: str, *, spread: bool) -> None:
    build = Writer(module, name, VOID, [POINTER] * 4 + [I64] * 5)
    flat, padded, begins, lengths, begin, end, heads, tokens, parts = build.made.args
    rows = Loop(build, begin, end)
    first, length = (build.read(held, I64, rows.index) for held in (begins, lengths))
    head = Loop(build, constant(0), heads)
    place = build.mul(build.add(build.mul(rows.index, heads), head.index), tokens)
    token = Loop(build, constant(0), length)
    number = build.add(build.mul(build.add(first, token.index), heads), head.index)
    one, other = _at(build, flat, number, parts), _at(build, padded, build.add(place, token.index), parts)
    source, target = (one, other) if spread else (other, one)
    part = Loop(build, constant(0), build.mul(parts, constant(WORDS)), step=WORDS)
    build.write(build.read(source, _PART, part.index), target, part.index)
    part.close()
    token.close()
    if spread:
        behind = _at(build, padded, build.add(place, length), parts)
        rest = build.mul(build.sub(tokens, length), build.mul(parts, constant(WORDS)))
        part = Loop(build, constant(0), rest, step=WORDS)
        build.write(zeros(_PART), behind, part.index)
        part.close()
    head.close()
    rows.close()
    build.ret_void()


def _at(build: Writer, held: Value, number: Value, parts: Value) -> Value:
    return build.at(held, build.mul(number, parts), _PART)
