"""Adapters with one delta for the encoder and another for the decoder, as PEFT trains them on the reference."""

import dataclasses
import json
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from oracle import SHAPES, make_oracle, random_model
from safetensors.torch import load_file
from torch import Tensor

from gesso.config import LoraConfig
from gesso.errors import CheckpointError, OptionError
from gesso.models.adapter_files import (
    adapter_config_of,
    load_adapter,
    load_adapter_weights,
    save_adapter,
)
from gesso.models.adapter_switch import AdapterSwitch
from gesso.models.adapters import adapted_layers, adapter_parameters, attach, merge, separate
from gesso.models.loading import load_folder
from gesso.models.run_folders import ADAPTER_CONFIG, ADAPTER_WEIGHTS
from models.test_adapters import EVERYTHING, assert_same, assert_unlike, outputs, randomise_adapter, reference_outputs

LINEAR = r".*(decoder|language_model)\.layers\.\d+\.(self_attn|mlp)\.\w+_proj|.*self_conditioning\.\w+_proj"
SIDES = {
    "both": LINEAR,
    "decoder": r".*decoder\.layers\.\d+\.(self_attn|mlp)\.\w+_proj",
    "encoder": r".*encoder\.language_model\.layers\.\d+\.self_attn\.\w+_proj",
}


def write_peft_adapter(folder: Path, side: str, experts: bool = False) -> tuple[Tensor, Tensor]:
    """Writes a checkpoint and an adapter whose every delta is drawn by itself; returns what the reference computes."""
    reference = make_oracle(folder / "base")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import peft

        settings = peft.LoraConfig(
            r=3,
            lora_alpha=5,
            target_modules=SIDES[side],
            target_parameters=["experts.gate_up_proj", "experts.down_proj"] if experts else None,
        )
        wrapped = peft.get_peft_model(reference, settings)
        generator = torch.Generator().manual_seed(7)
        with torch.no_grad():
            for name, parameter in wrapped.named_parameters():
                if "lora_" in name:
                    parameter.copy_(0.2 * torch.randn(parameter.shape, generator=generator))
        wrapped.save_pretrained(folder / "adapter")
        return reference_outputs(wrapped.base_model.model)


@pytest.mark.parametrize(("side", "experts"), [("both", False), ("both", True), ("decoder", False), ("encoder", False)])
def test_we_compute_what_peft_does_with_two_deltas(side: str, experts: bool, tmp_path: Path) -> None:
    expected = write_peft_adapter(tmp_path, side, experts)
    model = load_folder(tmp_path / "base", "cpu", "float32")
    before = outputs(model)
    config = load_adapter(model, tmp_path / "adapter")
    assert config.separate
    assert any(name.endswith("experts") for name in config.targets) == experts
    assert_same(outputs(model), expected)
    if side == "both":
        assert_unlike(outputs(model), before)
    else:  # the canvas reads keys that the encoder has made
        assert_same(outputs(model)[:1], before[:1], atol=0) if side == "decoder" else None
        assert not torch.allclose(outputs(model)[1], before[1])


def test_it_is_told_apart_and_not_merged(tmp_path: Path) -> None:
    write_peft_adapter(tmp_path, "both")
    model = load_folder(tmp_path / "base", "cpu", "float32")
    config = load_adapter(model, tmp_path / "adapter")
    assert adapter_config_of(model.config, tmp_path / "adapter") == config
    expected = outputs(model)
    with pytest.raises(OptionError, match="one delta for the encoder and another for the decoder"):
        merge(model)
    assert_same(outputs(model), expected, atol=0)
    ours = random_model(SHAPES["plain"])
    attach(ours, EVERYTHING)
    randomise_adapter(ours)
    save_adapter(ours, EVERYTHING, tmp_path / "ours", "base")
    assert not load_adapter(random_model(SHAPES["plain"]), tmp_path / "ours").separate


def test_peft_reads_what_is_written_of_it(tmp_path: Path) -> None:
    reference = make_oracle(tmp_path / "base")
    model = load_folder(tmp_path / "base", "cpu", "float32")
    config = LoraConfig(rank=3, alpha=5.0, targets=("*",), separate=True)
    attach(model, config)
    assert_same(outputs(model), outputs(load_folder(tmp_path / "base", "cpu", "float32")), atol=0)
    randomise_adapter(model)
    assert separate(model)
    save_adapter(model, config, tmp_path / "adapter", "base")
    again = load_folder(tmp_path / "base", "cpu", "float32")
    assert load_adapter(again, tmp_path / "adapter").separate
    assert_same(outputs(again), outputs(model), atol=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from peft import PeftModel

        wrapped = PeftModel.from_pretrained(reference, str(tmp_path / "adapter"))
        assert_same(reference_outputs(wrapped.base_model.model), outputs(model))


def test_a_server_switches_between_it_and_others(tmp_path: Path) -> None:
    expected = write_peft_adapter(tmp_path, "both")
    model = load_folder(tmp_path / "base", "cpu", "float32")
    before = outputs(model)
    shared = load_folder(tmp_path / "base", "cpu", "float32")
    attach(shared, EVERYTHING)
    randomise_adapter(shared)
    save_adapter(shared, EVERYTHING, tmp_path / "shared", "base")
    switch = AdapterSwitch(model)
    switch.load({"peft": tmp_path / "adapter", "ours": tmp_path / "shared"})
    for _ in range(2):
        assert_same(outputs(model), before, atol=0)
        switch.activate("peft")
        assert_same(outputs(model), expected)
        switch.activate("ours")
        assert_same(outputs(model), outputs(shared), atol=0)
        switch.activate(None)


def test_a_delta_that_lacks_a_matrix_is_refused(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    write_peft_adapter(tmp_path, "both")
    tensors = load_file(tmp_path / "adapter" / ADAPTER_WEIGHTS)
    del tensors["base_model.model.model.encoder.language_model.layers.0.self_attn.q_proj.lora_B.weight"]
    save_file(tensors, tmp_path / "adapter" / ADAPTER_WEIGHTS)
    with pytest.raises(CheckpointError, match=r"lacks .*encoder\.language_model\.layers\.0\.self_attn\.q_proj\.lora_B"):
        load_adapter(load_folder(tmp_path / "base", "cpu", "float32"), tmp_path / "adapter")


def test_a_run_of_shared_deltas_does_not_take_separate_ones(tmp_path: Path) -> None:
    write_peft_adapter(tmp_path, "both")
    model = load_folder(tmp_path / "base", "cpu", "float32")
    found = adapter_config_of(model.config, tmp_path / "adapter")
    attach(model, dataclasses.replace(found, separate=False))
    with pytest.raises(CheckpointError, match="the run trains one shared delta"):
        load_adapter_weights(model, tmp_path / "adapter", lambda full, _: full)


def test_each_delta_gets_the_gradients_of_its_own_passes() -> None:
    model = random_model(SHAPES["plain"])
    attach(model, LoraConfig(rank=2, targets=("layers.*.attention.*", "layers.*.experts"), separate=True))
    randomise_adapter(model)
    assert {name for name, parameter in model.named_parameters() if parameter.requires_grad} == set(
        adapter_parameters(model)
    )
    layer: Any = dict(adapted_layers(model))["layers.0.attention.q_proj"]
    for causal in (True, False):
        layer.side.causal = causal
        model.zero_grad()
        layer(torch.randn(3, 32)).sum().backward()
        got = {name for name, parameter in layer.named_parameters(recurse=False) if parameter.grad is not None}
        assert got == ({"encoder_lora_A", "encoder_lora_B"} if causal else {"lora_A", "lora_B"})


def test_settings_survive_the_file(tmp_path: Path) -> None:
    write_peft_adapter(tmp_path, "both")
    settings = json.loads((tmp_path / "adapter" / ADAPTER_CONFIG).read_text("utf-8"))
    found = load_adapter(load_folder(tmp_path / "base", "cpu", "float32"), tmp_path / "adapter")
    assert (found.rank, found.alpha) == (settings["r"], settings["lora_alpha"])
