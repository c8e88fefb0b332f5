"""Few rows on a CPU: fewer calls, and the bits of many rows."""

import importlib.util

import pytest
import torch

from gesso.nn import host_experts
from gesso.nn.linear import apply_together
from gesso.nn.quant.integer import Int4, Int8
from gesso.nn.quant.layers import QuantizedExperts, QuantizedLinear

if importlib.util.find_spec("llvmlite") is None:
    pytest.skip("llvmlite is not installed", allow_module_level=True)

pytestmark = pytest.mark.numbers
WIDTH, EXPERTS = 128, 40


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def linear(out: int, seed: int, form: Int4 | Int8) -> QuantizedLinear:
    made = QuantizedLinear(WIDTH, out, form=form)
    made.load_state_dict(dict(zip(form.parts, form.quantize(random(out, WIDTH, seed=seed)), strict=True)))
    return made


@pytest.mark.parametrize("rows", [1, 3, 20])
@torch.no_grad()
def test_layers_applied_together_give_the_bits_of_each(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    made = [linear(out, seed, Int4()) for seed, out in enumerate((70, 33, 8))]
    x, rounded = random(rows, WIDTH, seed=9), []
    alone = [layer(x) for layer in made]
    from gesso.kernels.host import packed

    count = packed.round_rows
    monkeypatch.setattr(packed, "round_rows", lambda *args: (rounded.append(1), count(*args))[1])
    together = apply_together(x, *made)
    assert len(rounded) == 1
    assert all(torch.equal(*pair) for pair in zip(alone, together, strict=True))


@torch.no_grad()
def test_layers_that_are_not_alike_are_applied_one_by_one() -> None:
    x, made = random(2, WIDTH, seed=9), [linear(40, 1, Int4()), linear(40, 2, Int8())]
    assert QuantizedLinear.together(made, x) is None
    assert all(torch.equal(out, layer(x)) for out, layer in zip(apply_together(x, *made), made, strict=True))
    plain = torch.nn.Linear(WIDTH, 40)
    assert QuantizedLinear.together([made[0], plain], x) is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@torch.no_grad()
def test_experts_of_few_rows_give_the_bits_of_many(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    form = Int4()
    made = QuantizedExperts(WIDTH, 64, EXPERTS, form)
    for name, part in made.named_buffers():
        part.copy_(random(*part.shape, seed=len(name)) * 0.01 if part.is_floating_point() else random(*part.shape) * 90)
    x, weights = random(9, WIDTH, seed=3).to(dtype), random(9, 2, seed=4).abs()
    chosen = torch.tensor([[0, 5], [5, 2], [1, 0], [3, 3], [2, 5], [4, 0], [0, 1], [5, 4], [2, 2]])
    few = made(x, weights, chosen)
    monkeypatch.setattr(host_experts, "FEW_CHOICES", 0)
    many = made(x, weights, chosen)
    assert torch.equal(few, many)
    monkeypatch.setattr(host_experts, "FEW_CHOICES", 4)
    assert torch.equal(torch.cat([made(x[i : i + 1], weights[i : i + 1], chosen[i : i + 1]) for i in range(9)]), many)
