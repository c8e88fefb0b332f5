"""LoRA: what a delta computes and trains, merging once, and PEFT's format both ways against `peft` itself."""

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from oracle import SHAPES, ReferenceRun, load_reference, make_oracle, random_model, variant
from safetensors.torch import load_file, save_file
from torch import Tensor

from gesso.config import LoraConfig
from gesso.errors import CheckpointError, OptionError
from gesso.models import adapter_switch
from gesso.models.adapter_files import load_adapter, save_adapter
from gesso.models.adapter_switch import AdapterSwitch
from gesso.models.adapters import adapted_layers, adapter_parameters, attach, merge, merge_if_possible, targets
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.models.loading import load_folder
from gesso.models.run_folders import ADAPTER_CONFIG, ADAPTER_WEIGHTS
from gesso.models.saving import save_folder
from gesso.nn.quant.layers import QuantizedExperts, QuantizedLinear
from gesso.nn.quant.nf4 import dequantize

WIDE = variant(SHAPES["plain"], mlp=48, expert_size=16)
"""Widths that 4 bits can be grouped in."""
EVERYTHING = LoraConfig(rank=3, alpha=5.0, targets=("*",))
CONFIGS = {
    "default": LoraConfig(rank=4, alpha=8.0),
    "everything": EVERYTHING,
    "experts": LoraConfig(rank=2, alpha=3.0, targets=("layers.*.experts",)),
    "one layer": LoraConfig(rank=2, alpha=2.0, targets=("layers.1.attention.q_proj",)),
    "stabilised": LoraConfig(rank=4, alpha=2.0, rank_stabilised=True),
}


def randomise_adapter(model: DiffusionGemma, seed: int = 7) -> None:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in adapter_parameters(model).values():
            parameter.copy_(0.2 * torch.randn(parameter.shape, generator=generator))


def outputs(model: DiffusionGemma, vocab: int = 131, canvas: int = 16) -> tuple[Tensor, Tensor]:
    """Encoder logits of a prompt, and logits of a self-conditioned canvas after it."""
    generator = torch.Generator().manual_seed(1)
    prompt = torch.randint(vocab, (1, 21), generator=generator)
    noisy = torch.randint(vocab, (1, canvas), generator=generator)
    model.eval()
    with torch.no_grad():
        cache = model.new_cache(1)
        scores = model.logits(model.encode(prompt, cache))
        first = model.denoise(noisy, cache)
        return scores, model.denoise(noisy, cache, model.self_conditioning_embeddings(first))


def assert_same(found: tuple[Tensor, Tensor], expected: tuple[Tensor, Tensor], atol: float = 5e-4) -> None:
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, atol=atol, rtol=1e-4)


def assert_unlike(found: tuple[Tensor, Tensor], expected: tuple[Tensor, Tensor]) -> None:
    assert all((one - other).abs().max() > 0.01 for one, other in zip(found, expected, strict=True))


@pytest.mark.parametrize("name", CONFIGS)
def test_a_fresh_adapter_changes_nothing_and_is_all_that_is_trained(name: str) -> None:
    model = random_model(SHAPES["plain"])
    before = outputs(model)
    attach(model, CONFIGS[name])
    assert_same(outputs(model), before, atol=0)
    trained = {label for label, parameter in model.named_parameters() if parameter.requires_grad}
    assert trained == set(adapter_parameters(model))
    randomise_adapter(model)
    assert_unlike(outputs(model), before)


def test_the_default_leaves_experts_and_router_alone() -> None:
    model = random_model(SHAPES["plain"])
    names = targets(model, LoraConfig())
    assert not [name for name in names if "expert" in name or "router" in name]
    per_layer = {"attention.q_proj", "attention.k_proj", "attention.o_proj", "mlp.gate_proj", "mlp.up_proj",
                 "mlp.down_proj"}  # fmt: skip
    assert {name.removeprefix("layers.0.") for name in names if name.startswith("layers.0.")} == per_layer | {
        "attention.v_proj"
    }
    assert {name.removeprefix("layers.1.") for name in names if name.startswith("layers.1.")} == per_layer
    assert [name for name in names if name.startswith("self")] == [
        f"self_conditioning.mlp.{part}_proj" for part in ("gate", "up", "down")
    ]


def test_a_pattern_that_matches_nothing_is_refused() -> None:
    with pytest.raises(OptionError, match=r"'q_proj' matches no layer; layers are called such as layers\.0\."):
        attach(random_model(SHAPES["plain"]), LoraConfig(targets=("layers.*.mlp.*", "q_proj")))


def test_two_adapters_on_one_model_are_refused() -> None:
    model = random_model(SHAPES["plain"])
    attach(model, LoraConfig())
    with pytest.raises(OptionError, match="has an adapter already"):
        attach(model, LoraConfig())


@pytest.mark.parametrize(
    "settings",
    [{"rank": 0}, {"rank": 1.5}, {"alpha": 0.0}, {"dropout": 1.0}, {"dropout": -0.1}, {"targets": ()}],
)
def test_impossible_settings_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=f"^{next(iter(settings))} must be"):
        LoraConfig(**settings)


@pytest.mark.parametrize("name", CONFIGS)
def test_merging_adds_each_delta_once(name: str) -> None:
    model = random_model(SHAPES["plain"])
    attach(model, CONFIGS[name])
    randomise_adapter(model)
    expected = outputs(model)
    merge(model)
    assert not list(adapted_layers(model))
    assert set(model.state_dict()) == set(random_model(SHAPES["plain"]).state_dict())
    assert_same(outputs(model), expected)


def test_four_bit_weights_are_not_merged_into(tmp_path: Path) -> None:
    save_folder(random_model(WIDE), tmp_path)
    model = load_folder(tmp_path, "cpu", "float32", quantize="nf4")
    attach(model, LoraConfig())
    with pytest.raises(OptionError, match=r"layers\.0\.attention\.q_proj is quantized"):
        merge(model)
    assert list(adapted_layers(model)), "nothing was merged halfway"
    randomise_adapter(model)
    beside = outputs(model)
    merge_if_possible(model)
    assert list(adapted_layers(model)), "left beside what it cannot be merged into"
    assert_same(outputs(model), beside)
    whole = random_model(WIDE)
    attach(whole, LoraConfig())
    merge_if_possible(whole)
    assert not list(adapted_layers(whole))


@pytest.mark.usefixtures("dequantized")
def test_an_adapter_works_the_same_over_four_bit_weights(tmp_path: Path) -> None:
    save_folder(random_model(WIDE), tmp_path)
    model = load_folder(tmp_path, "cpu", "float32", quantize="nf4")
    same = load_folder(tmp_path, "cpu", "float32")
    with torch.no_grad():
        for name, module in same.named_modules():
            four = model.get_submodule(name)
            if isinstance(four, QuantizedLinear):
                module.weight.copy_(dequantize(four.codes, four.scales, torch.float32))
            elif isinstance(four, QuantizedExperts):
                module.gate_up_proj.copy_(dequantize(four.gate_up_codes, four.gate_up_scales, torch.float32))
                module.down_proj.copy_(dequantize(four.down_codes, four.down_scales, torch.float32))
    assert_same(outputs(model), outputs(same))
    for one in (model, same):
        attach(one, EVERYTHING)
        randomise_adapter(one)
    assert_same(outputs(model), outputs(same))


def test_dropout_acts_in_training_only() -> None:
    model = random_model(SHAPES["plain"])
    attach(model, LoraConfig(dropout=0.5))
    randomise_adapter(model)
    layer = dict(adapted_layers(model))["layers.0.attention.q_proj"]
    x = torch.ones(4, 32)
    assert torch.equal(layer.eval()(x), layer(x))
    layer.train()
    assert not torch.equal(layer(x), layer(x))


@pytest.mark.parametrize("name", CONFIGS)
def test_an_adapter_survives_its_file(name: str, tmp_path: Path) -> None:
    model, config = random_model(SHAPES["plain"]), CONFIGS[name]
    attach(model, config)
    randomise_adapter(model)
    save_adapter(model, config, tmp_path, "base")
    again = random_model(SHAPES["plain"])
    read = load_adapter(again, tmp_path)
    assert_same(outputs(again), outputs(model), atol=0)
    assert (read.rank, read.alpha, read.rank_stabilised) == (config.rank, config.alpha, config.rank_stabilised)
    assert list(read.targets) == [label for label, _ in adapted_layers(model)]
    assert not [label for label, parameter in again.named_parameters() if parameter.requires_grad]


def test_adapters_are_switched_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed, name in enumerate(("one", "other")):
        made = random_model(SHAPES["plain"])
        attach(made, EVERYTHING)
        randomise_adapter(made, seed)
        save_adapter(made, EVERYTHING, tmp_path / name, "base")
    model = random_model(SHAPES["plain"])
    base = outputs(model)
    switch = AdapterSwitch(model)
    shutil.copytree(tmp_path / "other", tmp_path / "broken")
    tensors = load_file(tmp_path / "broken" / ADAPTER_WEIGHTS)
    last = max(tensors)
    save_file({**tensors, last: tensors[last][..., :-1].contiguous()}, tmp_path / "broken" / ADAPTER_WEIGHTS)
    with pytest.raises(CheckpointError):
        switch.load({"one": tmp_path / "one", "broken": tmp_path / "broken"})
    assert switch.names == ()
    assert_same(outputs(model), base, atol=0)

    switch.load({name: tmp_path / name for name in ("one", "other")})
    switch.activate("one")
    expected = outputs(model)
    switch.activate(None)
    put, calls = adapter_switch.put_layer, iter([None, None])

    def interrupted(*arguments: Any) -> None:
        if next(calls, 1) is not None:
            raise KeyboardInterrupt
        put(*arguments)

    monkeypatch.setattr(adapter_switch, "put_layer", interrupted)
    with pytest.raises(KeyboardInterrupt):
        switch.activate("other")
    monkeypatch.undo()
    switch.activate("one")
    assert_same(outputs(model), expected, atol=0)
    switch.activate(None)
    assert_same(outputs(model), base, atol=0)


def reference_outputs(model: Any) -> tuple[Tensor, Tensor]:
    """The two passes of `outputs`, by the reference."""
    generator = torch.Generator().manual_seed(1)
    prompt = torch.randint(131, (1, 21), generator=generator)
    noisy = torch.randint(131, (1, 16), generator=generator)
    run = ReferenceRun(model.eval())
    with torch.no_grad():
        hidden = run.encode(prompt)
        cap = model.config.text_config.final_logit_softcapping
        scores = torch.tanh(model.lm_head(hidden) / cap) * cap
        return scores, run.denoise(noisy, run.denoise(noisy))


@pytest.mark.parametrize("name", CONFIGS)
def test_peft_computes_what_our_adapter_does(name: str, tmp_path: Path) -> None:
    reference = make_oracle(tmp_path / "base")
    model = load_folder(tmp_path / "base", "cpu", "float32")
    attach(model, CONFIGS[name])
    randomise_adapter(model)
    save_adapter(model, CONFIGS[name], tmp_path / "adapter", "base")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from peft import PeftModel

        wrapped = PeftModel.from_pretrained(reference, str(tmp_path / "adapter"))
        assert_same(reference_outputs(wrapped.base_model.model), outputs(model))


@pytest.mark.parametrize("experts", [False, True])
@pytest.mark.parametrize("stabilised", [False, True])
def test_we_compute_what_pefts_adapter_does(experts: bool, stabilised: bool, tmp_path: Path) -> None:
    reference = make_oracle(tmp_path / "base")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import peft

        settings = peft.LoraConfig(
            r=3,
            lora_alpha=5,
            use_rslora=stabilised,
            target_modules=r".*(decoder|language_model)\.layers\.\d+\.(self_attn|mlp)\.\w+_proj|.*self_conditioning\.\w+_proj",
            target_parameters=["experts.gate_up_proj", "experts.down_proj"] if experts else None,
        )
        wrapped = peft.get_peft_model(reference, settings)
        generator = torch.Generator().manual_seed(7)
        parameters = dict(wrapped.named_parameters())
        with torch.no_grad():
            for name, parameter in parameters.items():
                if "lora_" in name and ".decoder." in name:
                    parameter.copy_(0.2 * torch.randn(parameter.shape, generator=generator))
            for name, parameter in parameters.items():
                if "lora_" in name and ".encoder." in name:
                    parameter.copy_(parameters[name.replace("encoder.language_model", "decoder")])
        expected = reference_outputs(wrapped.base_model.model)
        wrapped.save_pretrained(tmp_path / "adapter")
    model = load_folder(tmp_path / "base", "cpu", "float32")
    before = outputs(model)
    read = load_adapter(model, tmp_path / "adapter")
    assert any(name.endswith("experts") for name in read.targets) == experts
    assert_same(outputs(model), expected)
    assert_unlike(outputs(model), before)


def test_a_merged_checkpoint_loads_in_the_reference(tmp_path: Path) -> None:
    make_oracle(tmp_path / "base")
    model = load_folder(tmp_path / "base", "cpu", "float32")
    attach(model, EVERYTHING)
    randomise_adapter(model)
    expected = outputs(model)
    merge(model)
    save_folder(model, tmp_path / "merged", source=tmp_path / "base")
    reference, report = load_reference(tmp_path / "merged")
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    assert_same(reference_outputs(reference), expected)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    model = random_model(SHAPES["plain"])
    attach(model, EVERYTHING)
    randomise_adapter(model)
    save_adapter(model, EVERYTHING, tmp_path, "base")
    return tmp_path


def edit_config(folder: Path, **changes: object) -> None:
    path = folder / ADAPTER_CONFIG
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | changes), "utf-8")


def edit_weights(folder: Path, change: Any) -> None:
    tensors = load_file(folder / ADAPTER_WEIGHTS)
    change(tensors)
    save_file(tensors, folder / ADAPTER_WEIGHTS)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"peft_type": "LOHA"}, "peft_type 'LOHA' is not LORA"),
        ({"use_dora": True}, "use_dora = True is not supported"),
        ({"bias": "all"}, "bias = 'all' is not supported"),
        ({"modules_to_save": ["lm_head"]}, "modules_to_save"),
        ({"rank_pattern": {"q_proj": 4}}, "rank_pattern"),
        ({"alpha_pattern": {"q_proj": 4}}, "alpha_pattern"),
        ({"r": None}, "r is missing or no number"),
        ({"lora_alpha": "8"}, "lora_alpha is missing or no number"),
        ({"lora_dropout": "x"}, "lora_dropout is missing or no number"),
        ({"use_rslora": "no"}, "use_rslora = 'no' is not supported"),
        ({"arrow_config": {"top_k": 2}}, "arrow_config"),
        ({"use_bdlora": {"nblocks": 2}}, "use_bdlora"),
        ({"kasa_config": {}}, "kasa_config"),
        ({"monteclora_config": {}}, "monteclora_config"),
        ({"velora_config": {}}, "velora_config"),
        ({"lora_alpha": float("inf")}, "adapter_config.json: alpha must be a finite number, got inf"),
        ({"lora_alpha": float("nan")}, "alpha must be"),
        ({"lora_alpha": 1e300}, "alpha must be"),
        ({"lora_alpha": 10**400}, "alpha must be"),
        ({"r": 10**30}, "rank must be at most 65536"),
        ({"r": 2**31}, "rank must be at most 65536"),
        ({"r": 60_000}, "r is 60000, and no matrix has more than"),
    ],
)
def test_settings_that_are_not_computed_are_refused(saved: Path, changes: dict[str, object], message: str) -> None:
    edit_config(saved, **changes)
    with pytest.raises(CheckpointError, match=message):
        load_adapter(random_model(SHAPES["plain"]), saved)


@pytest.mark.parametrize("start", ["pissa", "pissa_niter_4", "olora", "corda", "loftq", "lora_ga"])
def test_starts_that_change_the_base_weights_are_refused(saved: Path, start: str) -> None:
    edit_config(saved, init_lora_weights=start)
    with pytest.raises(CheckpointError, match=f"init_lora_weights = '{start}' is not supported") as caught:
        load_adapter(random_model(SHAPES["plain"]), saved)
    assert "path_initial_model_for_weight_conversion" in (caught.value.hint or "")


@pytest.mark.parametrize("start", [True, False, "gaussian", "eva", "orthogonal", "mica"])
def test_starts_of_the_deltas_alone_are_taken(saved: Path, start: object) -> None:
    edit_config(saved, init_lora_weights=start)
    assert load_adapter(random_model(SHAPES["plain"]), saved).rank == EVERYTHING.rank


KEY = "base_model.model.model.{}.layers.0.self_attn.q_proj.lora_B.weight"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop(KEY.format("decoder")), r"lacks .*decoder\.layers\.0\.self_attn\.q_proj\.lora_B"),
        (lambda t: t.pop(KEY.format("encoder.language_model")), r"lacks .*encoder\.language_model"),
        (lambda t: t.update({KEY.format("decoder"): torch.zeros(2, 2)}), r"has shape \[2, 2\], this model wants"),
        (lambda t: t.update({"base_model.model.model.vision.lora_A.weight": torch.zeros(1)}), r"fit no layer.*vision"),
        (lambda t: t.clear() or t.update({"x": torch.zeros(1)}), "has no delta for any layer"),
    ],
)
def test_weights_that_do_not_fit_are_refused(saved: Path, change: Any, message: str) -> None:
    edit_weights(saved, change)
    edit_config(saved, base_model_name_or_path="theirs")
    with pytest.raises(CheckpointError, match=message) as refused:
        load_adapter(random_model(SHAPES["plain"]), saved)
    assert str(refused.value).endswith(f"; {saved} was trained on theirs")


@pytest.mark.parametrize("kind", [torch.int64, torch.bool, torch.float8_e4m3fn])
@pytest.mark.parametrize("stack", ["decoder", "encoder.language_model"])
def test_deltas_of_types_that_no_delta_has_are_refused(saved: Path, kind: torch.dtype, stack: str) -> None:
    edit_weights(saved, lambda t: t.update({KEY.format(stack): t[KEY.format(stack)].to(kind)}))
    with pytest.raises(CheckpointError, match=f"{stack}.*q_proj.* is {str(kind).removeprefix('torch.')}: deltas are"):
        load_adapter(random_model(SHAPES["plain"]), saved)


def test_deltas_that_float32_cannot_hold_are_refused(saved: Path) -> None:
    key = KEY.format("decoder")
    edit_weights(saved, lambda t: t.update({key: torch.full_like(t[key], 1e300, dtype=torch.float64)}))
    with pytest.raises(CheckpointError, match=r"q_proj.* holds numbers that are too large for float32"):
        load_adapter(random_model(SHAPES["plain"]), saved)


def test_damaged_and_missing_files_are_refused(saved: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    empty = tmp_path_factory.mktemp("empty")
    with pytest.raises(CheckpointError, match="an adapter is a folder with"):
        load_adapter(random_model(SHAPES["plain"]), empty)
    shutil.copy(saved / ADAPTER_CONFIG, empty / ADAPTER_CONFIG)
    with pytest.raises(CheckpointError, match="cannot be read"):
        load_adapter(random_model(SHAPES["plain"]), empty)
    whole = (saved / ADAPTER_WEIGHTS).read_bytes()
    (empty / ADAPTER_WEIGHTS).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(CheckpointError, match="cannot be read"):
        load_adapter(random_model(SHAPES["plain"]), empty)
