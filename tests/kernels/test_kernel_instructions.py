"""Instructions that a processor may lack, by what they are defined to compute: the same on every processor."""

import functools
import importlib.util
from typing import Any

import pytest
import torch

from gesso.nn.quant.base import Format

if importlib.util.find_spec("llvmlite") is None:
    pytest.skip("llvmlite is not installed", allow_module_level=True)

from llvmlite import ir

from gesso.kernels.host import library, mix, packed
from gesso.kernels.host.dots import Dot
from gesso.kernels.host.llvm_ir import F32, I8, I16, I32, I64, POINTER, VOID, Loop, Writer, constant, vector, zeros
from gesso.kernels.host.mix import ByteMixture
from gesso.kernels.host.mixing_weights import ROWS as ROWS_TOGETHER
from gesso.kernels.host.mixing_weights import TOP
from kernels.packed_forms import ROWS, bound, forms, levels, random


def by_definition(build: Writer, start: Any, *bytes_: Any) -> Any:
    """What `vpdpbusd` computes, in LLVM's own words: start [n] and the products of four bytes each of 4n. A function of
    its own, so that compiling takes no longer."""
    lanes, narrow = start.type.count, bytes_[0].type
    name = f"defined_{lanes}"
    if name not in build.module.globals:
        inner = Writer(build.module, name, start.type, [start.type, narrow, narrow])
        inner.made.linkage = "internal"
        inner.made.attributes.add("noinline")
        total, unsigned, signed = inner.made.args
        wide = ir.VectorType(ir.IntType(32), 4 * lanes)
        products = inner.mul(inner.zext(unsigned, wide), inner.sext(signed, wide))
        for first in range(4):
            total = inner.add(total, inner.pick(products, products, range(first, 4 * lanes, 4)))
        inner.ret(total)
    return build.call(build.module.globals[name], [start, *bytes_])


class Tiles:
    """AMX's instructions as they are defined, in LLVM's own words: tiles are memory of the module."""

    def __init__(self, module: ir.Module) -> None:
        self.module = module
        self.shapes, self.tiles = (self._memory(name, size) for name, size in (("shapes", 64), ("tiles", 8 * 1024)))

    @staticmethod
    def of(module: ir.Module) -> "Tiles":
        if not hasattr(module, "tiles_by_definition"):
            module.tiles_by_definition = Tiles(module)
        found: Tiles = module.tiles_by_definition
        return found

    def _memory(self, name: str, size: int) -> Any:
        made = ir.GlobalVariable(self.module, ir.ArrayType(I8, size), f"defined_{name}")
        made.linkage, made.initializer = "internal", ir.Constant(made.value_type, None)
        return made

    def call(self, build: Writer, name: str, arguments: tuple[Any, ...]) -> Any:
        """Calls a function of its own, so that compiling takes no longer."""
        short = name.removeprefix("llvm.x86.")
        defined = f"defined_{short}"
        if defined not in self.module.globals:
            inner = Writer(self.module, defined, VOID, [argument.type for argument in arguments])
            inner.made.linkage = "internal"
            inner.made.attributes.add("noinline")
            getattr(self, short)(inner, *inner.made.args)
            inner.ret_void()
        return build.call(self.module.globals[defined], arguments)

    def _begin(self, build: Writer, memory: Any) -> Any:
        return build.inttoptr(build.ptrtoint(memory, I64), POINTER)  # without the type that llvmlite gives it

    def _at(self, build: Writer, tile: Any) -> Any:
        return build.at(self._begin(build, self.tiles), build.mul(build.zext(tile, I64), constant(1024)), I8)

    def _rows(self, build: Writer, tile: Any) -> Any:
        place = build.add(build.zext(tile, I64), constant(48))
        return build.zext(build.read(self._begin(build, self.shapes), I8, place), I64)

    def _width(self, build: Writer, tile: Any) -> Any:
        place = build.add(build.mul(build.zext(tile, I64), constant(2)), constant(16))
        return build.zext(build.read(self._begin(build, self.shapes), I8, place), I64)

    def ldtilecfg(self, build: Writer, shapes: Any) -> None:
        build.write(build.read(shapes, vector(I8, 64)), self._begin(build, self.shapes))

    def tilerelease(self, build: Writer) -> None:
        build.write(zeros(vector(I8, 64)), self._begin(build, self.shapes))

    def tilezero(self, build: Writer, tile: Any) -> None:
        loop = Loop(build, constant(0), constant(1024))
        build.write(constant(0, I8), self._at(build, tile), loop.index)
        loop.close()

    def _copy(self, build: Writer, tile: Any, address: Any, stride: Any, *, loads: bool) -> None:
        rows = Loop(build, constant(0), self._rows(build, tile))
        columns = Loop(build, constant(0), self._width(build, tile))
        inside = build.at(self._at(build, tile), build.mul(rows.index, constant(64)), I8)
        outside = build.at(address, build.mul(rows.index, stride), I8)
        source, target = (outside, inside) if loads else (inside, outside)
        build.write(build.read(source, I8, columns.index), target, columns.index)
        columns.close()
        rows.close()

    def tileloadd64(self, build: Writer, tile: Any, address: Any, stride: Any) -> None:
        self._copy(build, tile, address, stride, loads=True)

    def tilestored64(self, build: Writer, tile: Any, address: Any, stride: Any) -> None:
        self._copy(build, tile, address, stride, loads=False)

    def tdpbssd(self, build: Writer, total: Any, first: Any, second: Any) -> None:
        row = Loop(build, constant(0), self._rows(build, total))
        column = Loop(build, constant(0), build.udiv(self._width(build, total), constant(4)))
        place = build.add(build.mul(row.index, constant(16)), column.index)
        inner = Loop(
            build, constant(0), self._width(build, first), carried=[build.read(self._at(build, total), I32, place)]
        )
        of_first = build.add(build.mul(row.index, constant(64)), inner.index)
        word = build.add(build.mul(build.udiv(inner.index, constant(4)), constant(16)), column.index)
        of_second = build.add(build.mul(word, constant(4)), build.urem(inner.index, constant(4)))
        bytes_ = build.read(self._at(build, first), I8, of_first), build.read(self._at(build, second), I8, of_second)
        inner.close(build.add(inner.carried[0], build.mul(*(build.sext(byte, I32) for byte in bytes_))))
        build.write(inner.carried[0], self._at(build, total), place)
        column.close()
        row.close()

    def tdpbf16ps(self, build: Writer, total: Any, first: Any, second: Any) -> None:
        row = Loop(build, constant(0), self._rows(build, total))
        column = Loop(build, constant(0), build.udiv(self._width(build, total), constant(4)))
        place = build.add(build.mul(row.index, constant(16)), column.index)
        begin, width = (
            build.read(self._at(build, total), F32, place),
            build.udiv(self._width(build, first), constant(2)),
        )
        inner = Loop(build, constant(0), width, carried=[begin])
        of_first = build.add(build.mul(row.index, constant(32)), inner.index)
        word = build.add(build.mul(build.udiv(inner.index, constant(2)), constant(16)), column.index)
        of_second = build.add(build.mul(word, constant(2)), build.urem(inner.index, constant(2)))
        factors = [
            build.bfloat16(build.read(self._at(build, tile), I16, place))
            for tile, place in ((first, of_first), (second, of_second))
        ]
        inner.close(build.fadd(inner.carried[0], build.fmul(*factors)))
        build.write(inner.carried[0], self._at(build, total), place)
        column.close()
        row.close()


def looked_up(build: Writer, entries: Any, places: Any) -> Any:
    """Looks 64 places below 16 up in a table, by an instruction that takes half as many."""
    halves = [
        build.own("llvm.x86.avx2.pshuf.b", vector(I8, 32), *(build.pick(x, x, lanes) for x in (entries, places)))
        for lanes in (range(32), range(32, 64))
    ]
    return build.pick(*halves, range(64))


def with_definitions(patch: pytest.MonkeyPatch) -> None:
    """Puts definitions in the place of instructions."""
    own = Writer.own

    def defined(build: Writer, name: str, result: Any, *arguments: Any) -> Any:
        if "tile" in name or "tdpb" in name:
            return Tiles.of(build.module).call(build, name, arguments)
        if "pshuf.b.512" in name:
            return looked_up(build, *arguments)
        return by_definition(build, *arguments) if "vpdpbusd" in name else own(build, name, result, *arguments)

    patch.setattr(Writer, "own", defined)


@functools.cache
def defined_kernels(name: str, kind: Dot) -> library.Kernels:
    """Compiles a format's kernels with the definition in the instruction's place."""
    with pytest.MonkeyPatch.context() as patch:
        with_definitions(patch)
        return library.kernels.__wrapped__(name, kind)


DOTS: list[Dot] = ["amx", "vnni512", "vnni256", "avx2", "plain"]
MIXING = mix.mixing


@functools.cache
def defined_mixing(kind: Dot) -> mix.Mixing:
    with pytest.MonkeyPatch.context() as patch:
        with_definitions(patch)
        return MIXING.__wrapped__(kind)


@forms
@pytest.mark.parametrize("kind", ["amx", "vnni512", "vnni256"])
@pytest.mark.parametrize("blocks", [2, 12, 18])
def test_instructions_that_this_processor_may_lack_are_used_as_they_are_defined(
    form: Format, kind: Dot, blocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts, x = form.quantize(random(37, 64 * blocks)), random(ROWS, 64 * blocks, seed=1)
    with monkeypatch.context() as patch:
        patch.setattr(packed, "kernels", defined_kernels)
        found = packed.matmul(x, form.kernel, parts, dot=kind)
        rows = [packed.matmul(x[i : i + 1], form.kernel, parts, dot=kind) for i in range(ROWS)]
    weight = levels(form, parts)
    assert ((found.double() - x.double() @ weight.double().T).abs() <= bound(x, weight)).all()
    assert torch.equal(torch.cat(rows), found)
    if kind == "vnni256":
        assert torch.equal(found, packed.matmul(x, form.kernel, parts, dot="plain"))


def mixed(weights: torch.Tensor, factors: torch.Tensor, codes: torch.Tensor, kind: Dot) -> ByteMixture:
    found = ByteMixture(len(weights), codes.shape[1], kind)
    found.add(weights, factors, codes)
    return found


def mix_bound(weights: torch.Tensor, factors: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
    """Half a scale for each row of the table, and the rounding of sums."""
    products, bound = weights.double() * factors.double(), torch.zeros(len(weights), codes.shape[1], dtype=torch.double)
    for part, rows in zip(products.split(ROWS_TOGETHER, dim=1), codes.split(ROWS_TOGETHER), strict=True):
        scale = part.abs().amax(dim=1, keepdim=True) / TOP
        bound += 0.501 * scale * rows.abs().double().sum(dim=0)
    return bound + 2.0**-20 * products.abs() @ codes.abs().double()


@pytest.mark.parametrize("defined", [True, False], ids=["by definition", "as it is"])
@pytest.mark.parametrize("kind", ["amx", "vnni512", "vnni256"])
@pytest.mark.parametrize(("count", "table", "width"), [(21, 100, 64), (5, 33, 128), (3, 1100, 64), (16, 512, 64)])
def test_rows_of_bytes_are_mixed(
    count: int, table: int, width: int, kind: Dot, defined: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All instructions make the same bits; a mixture's are its own; what was mixed before is shrunk."""
    if defined:
        monkeypatch.setattr(mix, "mixing", lambda kind: MIXING(kind) if kind == "avx2" else defined_mixing(kind))
    elif DOTS.index(kind) < DOTS.index(library.best_dot()):
        pytest.skip("this processor has no such instruction")
    weights, factors = random(count, table + 7)[:, :table], random(table, seed=1).abs()
    weights[0, :3], factors[7] = torch.tensor([1e30, -1e-30, 0.0]), -1.0
    codes = (random(table, width, seed=2) * 60).clamp(-128, 127).to(torch.int8)
    exact, bound = (weights.double() * factors) @ codes.double(), mix_bound(weights, factors, codes)
    found = mixed(weights, factors, codes, kind)
    assert ((found.take() - exact).abs() <= bound).all()
    assert torch.equal(found.take(), mixed(weights, factors, codes, "avx2").take())
    rows = [mixed(row[None], factors, codes, kind).take()[0] for row in weights]
    assert torch.equal(found.take(), torch.stack(rows))
    shrink = torch.rand(count, 1, generator=torch.Generator().manual_seed(3))
    before = found.take().clone()
    found.shrink(torch.ones(count, 1))
    assert torch.equal(found.take(), before)
    found.shrink(shrink)
    assert torch.equal(found.take(), before * shrink)
    found.add(weights, factors, codes)
    assert ((found.take() - exact * (1 + shrink.double())).abs() <= 2 * bound).all()


@pytest.mark.parametrize("bad", [torch.inf, torch.nan])
def test_a_weight_that_is_not_finite_is_seen_in_its_mixture_alone(bad: float) -> None:
    weights, codes = random(3, 300).abs(), torch.ones(300, 64, dtype=torch.int8)
    weights[1, 270] = bad
    found = mixed(weights, torch.ones(300), codes, library.best_dot()).take()
    assert found.isfinite().all(dim=1).tolist() == [True, False, True]


def test_weights_too_small_to_be_divided_by_weigh_nothing() -> None:
    weights, codes = torch.full((2, 256), 2.0**-110), torch.full((256, 64), 100, dtype=torch.int8)
    assert not mixed(weights, torch.ones(256), codes, library.best_dot()).take().any()
