"""A layer whose norms are fused into kernels beside packed weights: the bits of one whose norms are not."""

import importlib.util
from typing import Any

import pytest
import torch
from oracle import Shape, random_model
from torch import Tensor

from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.models.quantization.plan import Quantization, replace_layers
from gesso.nn import attention, fused_norms
from gesso.nn.quant.integer import Int4, Int8
from gesso.nn.quant.layers import quantized_tensors

if importlib.util.find_spec("llvmlite") is None:
    pytest.skip("llvmlite is not installed", allow_module_level=True)

from gesso.kernels.host import normed

pytestmark = pytest.mark.numbers
SHAPE = Shape(
    layers="sf", hidden=64, mlp=64, head_dim=32, full_head_dim=64, experts=16, expert_size=64, canvas=8, kv_heads=2
)


@pytest.fixture
def packed() -> DiffusionGemma:
    """The random model in 4 bits, its table in 8."""
    whole = random_model(SHAPE)
    model = DiffusionGemma(whole.config)
    forms = replace_layers(model, Quantization(Int4(), Int4(), Int8()))
    state: dict[str, Tensor] = {}
    for name, tensor in whole.state_dict().items():
        owner = name.rpartition(".")[0]
        if owner == "vocabulary":
            state |= {
                f"vocabulary.{part}": held for part, held in zip(Int8.parts, Int8().quantize(tensor), strict=True)
            }
        else:
            state |= quantized_tensors(name, tensor, forms[owner]) if owner in forms else {name: tensor}
    model.load_state_dict(state, assign=True)
    return model.eval()


@torch.no_grad()
def passes(model: DiffusionGemma) -> list[Tensor]:
    cache = model.new_cache()
    tokens = torch.arange(40) % SHAPE.vocab
    encoded = [model.encode_flat(part, [len(part)], cache) for part in tokens[:31].split([9, 1, 3, 18])]
    return [*encoded, model.denoise_flat(tokens[31:39], [8], cache, torch.ones(8, SHAPE.hidden))]


def test_fused_layers_give_the_bits_of_those_that_are_not(
    packed: DiffusionGemma, monkeypatch: pytest.MonkeyPatch
) -> None:
    fused, add = [], normed.add_norm

    def counted(*given: Any) -> Any:
        fused.append(len(given[0]))
        return add(*given)

    monkeypatch.setattr(normed, "add_norm", counted)
    monkeypatch.setattr(packed.listed, "run", lambda *_, **__: None)  # no compiled steps
    found = passes(packed)
    assert fused == [9, 9, 1, 1, 3, 3, 18, 18, 8, 8]
    for module in (fused_norms, attention):
        monkeypatch.setattr(module, "fuses", lambda *_: False)
    expected = passes(packed)
    assert len(fused) == 10
    assert all(torch.equal(*pair) for pair in zip(found, expected, strict=True))


def test_a_norm_that_somebody_observes_is_called(packed: DiffusionGemma) -> None:
    seen: list[int] = []
    for name in ("input_norm", "pre_mlp_norm", "pre_experts_norm", "router"):
        module = packed.layers[0].get_submodule(name)
        module.register_forward_hook(lambda _module, given, _made: seen.append(len(given[0])))
    with torch.no_grad():
        packed.encode_flat(torch.arange(6), [6], packed.new_cache())
    assert seen == [6] * 4


@pytest.mark.parametrize("threads", [2, 3])
def test_a_token_has_the_same_bits_by_any_number_of_threads(
    packed: DiffusionGemma, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gesso.kernels.host import packed as products

    monkeypatch.setattr(products, "MULTIPLIED_ALONE", 0)
    before, found = torch.get_num_threads(), list[list[Tensor]]()
    for count in (1, threads):
        torch.set_num_threads(count)
        try:
            seen = passes(packed)
            outcome = packed.vocabulary.predict(seen[1], torch.ones(1), torch.tensor([0.3]), mix=False)
        finally:
            torch.set_num_threads(before)
        found.append([*seen, outcome.sample_N, outcome.entropy_N, outcome.normaliser_N])
    assert all(torch.equal(*pair) for pair in zip(*found, strict=True))
