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

from gesso.kernels.host import library, packed
from gesso.kernels.host.dots import Dot
from gesso.kernels.host.llvm_ir import Writer
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


@functools.cache
def defined_kernels(name: str, kind: Dot) -> library.Kernels:
    """Compiles a format's kernels with the definition in the instruction's place."""
    own = Writer.own

    def defined(build: Writer, name: str, result: Any, *arguments: Any) -> Any:
        return by_definition(build, *arguments) if "vpdpbusd" in name else own(build, name, result, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Writer, "own", defined)
        return library.kernels.__wrapped__(name, kind)


@forms
@pytest.mark.parametrize("kind", ["vnni512", "vnni256"])
@pytest.mark.parametrize("blocks", [2, 12])
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
