"""Lanes that kernels leave undefined reach no result: here they are no numbers, and results are as they were.

LLVM may put anything there, and puts something else on every kind of processor.
"""

import importlib.util
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

if importlib.util.find_spec("llvmlite") is None:
    pytest.skip("llvmlite is not installed", allow_module_level=True)

from llvmlite import binding

from gesso.kernels.host import bfloat16, library, normed, packed
from gesso.nn.quant.base import Format
from gesso.nn.quant.fp8 import FP8
from gesso.nn.quant.integer import Int4, Int8
from gesso.nn.quant.nf4 import NF4
from gesso.nn.quant.nvfp4 import NVFP4

pytestmark = pytest.mark.numbers
NO_NUMBER = {"float": "0x7FF8000000000000", "double": "0x7FF8000000000000"}
FORMS: list[Format] = [Int8(), Int4(), Int4(32), NF4(), NVFP4(), FP8()]
MADE = (library.kernels, library.norms, library.bfloat16_kernel)


def random(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def products() -> list[torch.Tensor]:
    rows = random(7, 256)
    made = [packed.matmul(rows, form.kernel, form.quantize(random(37, 256))) for form in FORMS]
    return [*made, packed.matmul(rows, "fp32", (random(37, 256),))]


def between_products() -> list[torch.Tensor]:
    q, keys, values = random(10, 32), random(2, 21, 32), random(2, 21, 32)
    heads, weight, turn = random(5, 3, 64), random(64), (random(5, 1, 64), random(5, 1, 64))
    return [
        normed.attend(q, keys, values),
        normed.gated(random(3, 48), random(3, 48)),
        *normed.choose(random(3, 32), random(32), 4),
        normed.norm_heads(heads, weight, turn, 1e-6),
        normed.norm_heads(heads, None, None, 1e-6),
    ]


def whole() -> list[torch.Tensor]:
    matrix = random(40, 64).bfloat16()
    return [bfloat16.matmul(random(5, width).bfloat16(), each, None) for width, each in ((64, matrix), (40, matrix.T))]


def poisoned(parse: Callable[[str], Any], changed: list[str]) -> Callable[[str], Any]:
    """Makes a function that compiles with no numbers where nothing is defined."""

    def element(found: re.Match[str]) -> str:
        changed.append(found[0])
        return f"{found[1]} {NO_NUMBER.get(found[1], '85')}"

    def vector(found: re.Match[str]) -> str:
        changed.append(found[0])
        one = f"{found[2]} {NO_NUMBER.get(found[2], '85')}"
        return f"<{found[1]} x {found[2]}> <{', '.join([one] * int(found[1]))}>"

    def other(text: str) -> Any:
        text = re.sub(r"<(\d+) x (\w+)> undef", vector, text)
        return parse(re.sub(r"\b(float|double|i\d+) undef", element, text))

    return other


@pytest.mark.parametrize("results", [products, between_products, whole])
def test_undefined_lanes_reach_no_result(
    results: Callable[[], list[torch.Tensor]], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, changed = results(), list[str]()
    for made in MADE:
        made.cache_clear()
    monkeypatch.setenv("GESSO_KERNEL_CACHE", "")
    monkeypatch.setattr(binding, "parse_assembly", poisoned(binding.parse_assembly, changed))
    try:
        found = results()
    finally:
        monkeypatch.undo()
        for made in MADE:
            made.cache_clear()
    assert changed
    for ours, theirs in zip(found, expected, strict=True):
        assert torch.equal(ours, theirs)
