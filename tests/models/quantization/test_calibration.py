"""Calibrated conversions: what scales are found, that folding them changes nothing by itself, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from oracle import Shape, random_model
from safetensors.torch import load_file, save_file
from torch import Tensor

from gesso.config import LoraConfig
from gesso.errors import CheckpointError, OptionError
from gesso.models.adapter_files import load_adapter, save_adapter
from gesso.models.adapters import attach
from gesso.models.describe import describe
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.models.loading import load_folder
from gesso.models.quantization import calibration, convert, resume
from gesso.models.quantization.activations import OBSERVED, observe
from gesso.models.quantization.calibration import Calibration
from gesso.models.quantization.convert import quantize_folder
from gesso.models.quantization.folding import fold
from gesso.models.quantization.plan import Quantization, read_quantization, replace_layers
from gesso.models.quantization.scales import EXPONENTS, Product, choose_exponent, scale_of
from gesso.models.quantization.tiles import places
from gesso.models.saving import save_folder
from gesso.models.weight_index import INDEX
from gesso.nn.quant.base import Format
from gesso.nn.quant.integer import Int4, Int8
from gesso.nn.quant.nf4 import NF4

SHAPE = Shape(layers="sf", hidden=32, mlp=64, head_dim=16, full_head_dim=32, expert_size=32, bias=True)
CHOSEN = Quantization(Int4(32), NF4())
PROMPTS = Calibration(tuple(tuple(range(first, first + 24)) for first in (3, 40, 77)))
DENSE_NORMS = {"input_norm", "pre_mlp_norm"}
NORM = "model.decoder.layers.0.input_layernorm.weight"
COPY = "model.encoder.language_model.layers.0.input_layernorm.weight"


def lopsided(seed: int = 0) -> DiffusionGemma:
    """A random model a few of whose features are large, as those of trained ones are."""
    model = random_model(SHAPE)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.removesuffix(".weight").endswith(OBSERVED):
                parameter.mul_(torch.randn(parameter.shape, generator=generator).mul_(1.5).exp_())
    return model


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole checkpoint with a second copy of a norm. Do not write into it."""
    folder = tmp_path_factory.mktemp("calibration") / "source"
    save_folder(lopsided(), folder, dtype="bfloat16")
    tensors = load_file(folder / "model.safetensors")
    tensors[COPY] = tensors[NORM].clone()
    save_file(tensors, folder / "model.safetensors")
    return folder


@pytest.fixture(scope="module")
def made(source: Path) -> Path:
    """What becomes of the source. Do not write into it."""
    quantize_folder(source, source.with_name("made"), CHOSEN, calibrate=PROMPTS)
    return source.with_name("made")


def outputs(model: DiffusionGemma) -> Tensor:
    cache = model.new_cache(1)
    model.encode(torch.arange(11)[None], cache)
    first = model.denoise(torch.arange(16)[None] * 3, cache)
    return model.denoise(torch.arange(16)[None] * 5, cache, model.self_conditioning_embeddings(first))


def forms_of(model: DiffusionGemma, chosen: Quantization) -> dict[str, Format]:
    with torch.device("meta"):
        return replace_layers(DiffusionGemma(model.config), chosen)


def test_folding_changes_no_output() -> None:
    model = lopsided().double().bfloat16().float()
    state, experts = model.state_dict(), model.config.num_experts
    seen, forms = observe(model, PROMPTS.prompts), forms_of(model, CHOSEN)
    before, scaled = outputs(model), 0
    folded = {name: tensor.clone() for name, tensor in state.items()}
    for part in ("layers.0.", "layers.1.", "self_conditioning."):
        found = fold(part, forms, seen, lambda name, place: state[name][place].bfloat16(), experts)
        scaled += sum(choice.exponent > 0 for choice in found.choices.values())
        for name in found.columns | found.rows:
            for place in places(state[name]):
                folded[name][place] = found.apply(name, place, state[name][place])
        folded |= {name: tensor.float() for name, tensor in found.norms.items()}
    for name in ("input_norm.weight", "mlp.up_proj.weight", "experts.down_proj"):
        assert not torch.equal(folded[f"layers.0.{name}"], state[f"layers.0.{name}"])
    model.load_state_dict(folded)
    assert scaled == 12  # five a layer, two of the conditioner
    torch.testing.assert_close(outputs(model), before, atol=3e-3, rtol=1e-2)


@pytest.mark.parametrize("form", [Int4(32), NF4(), Int8()], ids=["int4", "nf4", "int8"])
def test_the_exponent_that_errs_least_is_chosen(form: Format) -> None:
    generator = torch.Generator().manual_seed(3)
    sizes = torch.randn(64, generator=generator).mul(2).exp()
    x = torch.randn(40, 64, generator=generator) * sizes
    products = [Product(x, torch.randn(48, 64, generator=generator), x.abs().mean(dim=0))]
    choice = choose_exponent(products, form)
    assert choice.exponent in EXPONENTS[1:]
    assert 0 < choice.after < 0.9 * choice.before
    even = [Product(torch.randn(40, 64, generator=generator), products[0].weight_ND, torch.ones(64))]
    assert choose_exponent(even, form).after == choose_exponent(even, form).before


def test_scales_stand_around_one_and_idle_features_keep_one() -> None:
    magnitude = torch.tensor([[1.0, 100.0, 0.0, 10.0], [0.0, 0.0, 0.0, 0.0]])
    scale = scale_of(magnitude, 0.5)
    torch.testing.assert_close(scale, torch.tensor([[10**-0.5, 10**0.5, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0]]))
    assert torch.equal(scale_of(magnitude, 0.0), torch.ones(2, 4))


def test_a_calibrated_checkpoint_is_nearer_to_its_source(source: Path, made: Path, tmp_path: Path) -> None:
    exact = outputs(load_folder(source, "cpu", "float32"))
    assert quantize_folder(source, tmp_path / "plain", CHOSEN).calibration is None
    errors = [(outputs(load_folder(f, "cpu", "float32")) - exact).norm() for f in (tmp_path / "plain", made)]
    assert errors[1] < errors[0]
    names = [set(json.loads((f / INDEX).read_text("utf-8"))["weight_map"]) for f in (tmp_path / "plain", made)]
    assert names[0] - names[1] == {COPY}  # of a norm that is another now
    assert not (made / resume.ACTIVATIONS).exists()
    assert describe(made)["quantized"] == "dense int4 (groups of 32), experts nf4; calibrated on 3 prompts"
    assert describe(tmp_path / "plain")["quantized"] == "dense int4 (groups of 32), experts nf4"


def test_parts_that_stay_whole_are_not_scaled() -> None:
    model = lopsided()
    state, seen = model.state_dict(), observe(model, PROMPTS.prompts)
    for chosen, norms in ((Quantization(None, Int4(32)), {"pre_experts_norm"}), (Quantization(Int8()), DENSE_NORMS)):
        found = fold("layers.1.", forms_of(model, chosen), seen, lambda name, place: state[name][place], 4)
        assert found.norms.keys() == {f"layers.1.{norm}.weight" for norm in norms}


def test_a_conversion_that_was_broken_off_does_not_observe_again(
    source: Path, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "resumed"

    def refuse(*given: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(convert, "write_tensors", refuse)
        with pytest.raises(KeyboardInterrupt):
            quantize_folder(source, out, CHOSEN, calibrate=PROMPTS)
    monkeypatch.setattr(calibration, "observe", refuse)
    report = quantize_folder(source, out, CHOSEN, calibrate=PROMPTS).calibration
    assert report is not None
    assert report.after < 0.9 * report.before
    assert (report.products, report.scaled) == (12, 12)
    for path in made.glob("*.safetensors"):
        assert path.read_bytes() == (out / path.name).read_bytes()
    with pytest.raises(KeyboardInterrupt):  # other prompts are another conversion
        quantize_folder(source, tmp_path / "others", CHOSEN, calibrate=Calibration(PROMPTS.prompts[:1]))


@pytest.mark.parametrize(
    ("chosen", "prompts", "told"),
    [
        (CHOSEN, (), "calibration needs a prompt"),
        (CHOSEN, ((1, 2), ()), "none that is empty"),
        (Quantization(embedding=Int8()), ((1, 2),), "neither is packed"),
    ],
)
def test_what_cannot_be_calibrated_is_refused(
    source: Path, tmp_path: Path, chosen: Quantization, prompts: tuple[tuple[int, ...], ...], told: str
) -> None:
    with pytest.raises(OptionError, match=told):
        quantize_folder(source, tmp_path / "out", chosen, calibrate=Calibration(prompts))


def test_adapters_fit_the_scales_that_they_were_trained_with(source: Path, made: Path, tmp_path: Path) -> None:
    config = LoraConfig(rank=2)
    for folder, name in ((source, "whole"), (made, "scaled")):
        model = load_folder(folder, "cpu", "float32")
        attach(model, config)
        save_adapter(model, config, tmp_path / name, str(folder))
    load_adapter(load_folder(made, "cpu"), tmp_path / "scaled")
    load_adapter(load_folder(source, "cpu"), tmp_path / "whole")
    with pytest.raises(CheckpointError, match=r"were not calibrated: quantize .* without --calibrate"):
        load_adapter(load_folder(made, "cpu"), tmp_path / "whole")
    with pytest.raises(CheckpointError, match="were calibrated otherwise"):
        load_adapter(load_folder(source, "cpu"), tmp_path / "scaled")


@pytest.mark.parametrize("told", ["yes", {"prompts": 3}, {"prompts": 3, "tokens": 4, "id": ""}])
def test_a_calibration_that_is_not_understood_is_refused(told: object) -> None:
    with pytest.raises(CheckpointError, match=r"quantization_config\.calibration .* is not understood"):
        read_quantization({"quantization_config": {"quant_method": "gesso", "calibration": told}})
