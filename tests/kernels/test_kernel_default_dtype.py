"""Kernels for CPUs under another default dtype of PyTorch: they fill memory of their own type, to the same bits."""

import importlib.util
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

from gesso.nn import fused_norms
from gesso.nn.quant.integer import Int8
from gesso.nn.quant.vocabulary import QuantizedVocabulary

if importlib.util.find_spec("llvmlite") is None:
    pytest.skip("llvmlite is not installed", allow_module_level=True)

from gesso.kernels.host import bfloat16, normed, pack, packed

pytestmark = pytest.mark.numbers
WIDTH = 128


@pytest.fixture(params=[torch.bfloat16, torch.float64], ids=str)
def other_default(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Changes the default dtype when called, and forgets what was made before, for the length of a test."""
    before = torch.get_default_dtype()

    def change() -> None:
        torch.set_default_dtype(request.param)
        fused_norms.agree.cache_clear()
        for module in (packed, bfloat16):
            monkeypatch.setattr(module, "_kept", module._Kept())

    yield change
    torch.set_default_dtype(before)


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float32)


def products() -> list[Tensor]:
    """Products by matrices of 8, 4, 16 and 32 bits, and the first two matrices."""
    x, weight = random(5, WIDTH), random(48, WIDTH, seed=1)
    eight, four = pack.pack_int8(weight)[0], pack.pack_int4(weight, 32)[0]
    wide = bfloat16.matmul(x.bfloat16(), weight.bfloat16())
    whole = packed.matmul(x, "fp32", (weight,))
    return [packed.matmul(x, "int8", eight), packed.matmul(x, "int4", four), *eight, *four, wide, whole]


def norms() -> list[Tensor]:
    """Norms, sums of branches, mixtures, and whether all are PyTorch's."""
    x, weight, shares = random(6, WIDTH), random(WIDTH, seed=1), random(3, 2, seed=2)
    added = normed.add_norm(x, x, weight, (weight, weight, weight), 1e-6, 0.7)
    mixed = fused_norms.mix_neighbours(x, shares)
    return [normed.norm(x, weight, 1e-6), *added, normed.mix_rows(x, shares), mixed, torch.tensor(fused_norms.agree())]


def vocabulary() -> list[Tensor]:
    """A softmax pass over a packed table: of few rows without the mixture, and of chunks with it."""
    form = Int8()
    table = QuantizedVocabulary(300, WIDTH, 30.0, form)
    table.load_state_dict(dict(zip(form.parts, form.quantize(random(300, WIDTH)), strict=True)))
    ones, uniform = torch.ones(3, dtype=torch.float32), torch.tensor([0.1, 0.5, 0.9], dtype=torch.float32)
    found = [table.predict(random(3, WIDTH, seed=4), ones, uniform, mix=mix) for mix in (False, True)]
    names = ("sample_N", "argmax_N", "entropy_N", "normaliser_N", "embedding_ND")
    return [getattr(each, name) for each in found for name in names if getattr(each, name) is not None]


@pytest.mark.parametrize("compute", [products, norms, vocabulary])
@torch.no_grad()
def test_the_bits_are_those_under_float32(
    compute: Callable[[], list[Tensor]], other_default: Callable[[], None]
) -> None:
    expected = compute()
    other_default()
    found = compute()
    assert [out.dtype for out in found] == [out.dtype for out in expected]
    assert all(torch.equal(*pair) for pair in zip(found, expected, strict=True))
