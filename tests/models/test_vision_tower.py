"""The tower beside `transformers`: every shape of tower, padded and batched sizes, both ways through a folder."""

import copy
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from oracle import SHAPES as TEXT_SHAPES
from oracle import make_oracle
from safetensors.torch import load_file, save_file
from torch import Tensor
from vision_oracle import SHAPES, Picture, as_reference, make_vision_oracle, picture, reference_features

from gesso.errors import CheckpointError, ConfigError, ImageError, OptionError
from gesso.models.describe import describe
from gesso.models.loading import load_folder
from gesso.models.quantization.convert import quantize_folder
from gesso.models.quantization.plan import Quantization
from gesso.models.saving import save_folder
from gesso.models.vision_config import read_vision_config
from gesso.models.vision_loading import has_vision, load_vision, vision_tensors
from gesso.models.vision_tower import VisionModel
from gesso.nn.quant.integer import Int8
from models.test_vision_config import PUBLISHED

SIZES = ((3, 3), (6, 3), (3, 9), (6, 6), (12, 15))
"""Rows and columns of patches."""


class Towers(NamedTuple):
    folder: Path
    reference: Any
    model: VisionModel


@pytest.fixture(scope="module")
def towers(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Towers]:
    made: dict[str, Towers] = {}

    def make(name: str) -> Towers:
        if name not in made:
            folder = tmp_path_factory.mktemp("vision") / name
            reference = make_vision_oracle(folder, SHAPES[name], seed=sorted(SHAPES).index(name))
            made[name] = Towers(folder, reference, load_vision(folder, "cpu", "float32"))
        return made[name]

    return make


@pytest.mark.parametrize("name", SHAPES)
def test_embeddings_equal_the_reference_s(towers: Callable[[str], Towers], name: str) -> None:
    _, reference, model = towers(name)
    pictures = [picture(*size) for size in SIZES]
    # One padded batch of all sizes there, each by itself and unpadded here.
    expected = reference_features(reference, as_reference(pictures), patches=12 * 15 + 9)
    found = torch.cat(model.embed(pictures))
    assert found.shape == expected.shape == (sum(r * c // 9 for r, c in SIZES), 32)
    assert expected.std() > 0.05
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_grouping_pictures_of_one_size_changes_rounding_only(towers: Callable[[str], Towers]) -> None:
    model = towers("published").model
    pictures = [picture(6, 3, 1), picture(3, 9, 2), picture(6, 3, 3), picture(6, 3, 4), picture(3, 9, 5)]
    alone = model.embed(pictures)
    for together in (2, 5):
        for one, other in zip(model.embed(pictures, together=together), alone, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
    for one, other in zip(model.embed(pictures[::-1])[::-1], alone, strict=True):
        assert torch.equal(one, other)
    assert model.embed([]) == []


def test_rows_and_columns_are_not_swapped(towers: Callable[[str], Towers]) -> None:
    model = towers("published").model
    wide = picture(3, 9)
    tall = Picture(wide.pixels, 9, 3)
    assert not torch.allclose(model.embed([wide])[0], model.embed([tall])[0], atol=1e-2)


@pytest.mark.parametrize("name", ["published", "clipped"])
def test_bfloat16_is_nearer_to_fp32_than_the_reference_s(towers: Callable[[str], Towers], name: str) -> None:
    folder, reference, exact = towers(name)
    pictures = [picture(6, 6, seed) for seed in range(8)]
    truth = torch.cat(exact.embed(pictures))
    found = torch.cat(load_vision(folder, "cpu", "bfloat16").embed(pictures))
    assert found.dtype == torch.bfloat16
    theirs = reference_features(copy.deepcopy(reference).bfloat16(), as_reference(pictures), patches=36)
    error, their_error = ((x.float() - truth).norm() / truth.norm() for x in (found, theirs))
    assert error < 0.05
    assert error < 1.1 * their_error


def test_std_buffers_stay_in_fp32_whatever_the_weights_are(towers: Callable[[str], Towers]) -> None:
    model = load_vision(towers("published").folder, "cpu", "bfloat16")
    assert model.tower.std_bias.dtype == model.tower.std_scale.dtype == torch.float32
    assert model.dtype == torch.bfloat16
    assert model.device.type == "cpu"


@pytest.mark.parametrize("size", [(4, 3), (3, 5), (66, 3), (3, 66)])
def test_a_grid_that_does_not_fit_is_refused(towers: Callable[[str], Towers], size: tuple[int, int]) -> None:
    with pytest.raises(ImageError, match="does not fit the vision tower"):
        towers("published").model.embed([picture(*size)])


def changed(folder: Path, out: Path, change: Callable[[dict[str, Tensor]], None]) -> Path:
    """A copy of a checkpoint with other tensors."""
    shutil.copytree(folder, out)
    tensors = load_file(out / "model.safetensors")
    change(tensors)
    save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})
    return out


TOWER = "model.encoder.vision_tower."


@pytest.mark.parametrize("name", ["published", "clipped", "not_standardised"])
def test_every_tensor_is_written_as_it_was_read(towers: Callable[[str], Towers], name: str) -> None:
    folder, _, model = towers(name)
    stored = load_file(folder / "model.safetensors")
    expected = {key: value for key, value in stored.items() if "vision" in key}
    found = vision_tensors(model)
    assert found.keys() == expected.keys()
    for key, tensor in expected.items():
        assert torch.equal(found[key], tensor), key


def test_what_is_written_the_reference_reads(towers: Callable[[str], Towers], tmp_path: Path) -> None:
    from oracle import load_reference

    folder, _, model = towers("clipped")
    doubled = {name: 2 * tensor for name, tensor in vision_tensors(model).items() if "input_proj" in name}
    out = changed(folder, tmp_path / "out", lambda tensors: tensors.update(vision_tensors(model) | doubled))
    reference, report = load_reference(out)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    pictures = [picture(6, 3)]
    found = load_vision(out, "cpu", "float32").embed(pictures)[0]
    torch.testing.assert_close(found, reference_features(reference, as_reference(pictures), 18), rtol=1e-5, atol=1e-5)
    assert not torch.allclose(found, model.embed(pictures)[0], atol=1e-3)


def test_a_model_is_saved_with_its_tower_or_with_another(towers: Callable[[str], Towers], tmp_path: Path) -> None:
    folder, reference, vision = towers("published")
    text = load_folder(folder, "cpu", "float32")
    pictures = [picture(6, 3)]
    expected = reference_features(reference, as_reference(pictures), 18)
    save_folder(text, tmp_path / "carried", source=folder)
    save_folder(text, tmp_path / "given", vision=vision)
    save_folder(text, tmp_path / "halved", dtype="bfloat16", vision=vision, source=folder)
    for name, tolerance in (("carried", 1e-5), ("given", 1e-5), ("halved", 0.1)):
        found = load_vision(tmp_path / name, "cpu", "float32").embed(pictures)[0]
        torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)
        raws = [json.loads((each / "config.json").read_text("utf-8")) for each in (folder, tmp_path / name)]
        assert raws[0]["vision_config"] == raws[1]["vision_config"]
    other = towers("clipped").model
    save_folder(text, tmp_path / "other", vision=other, source=folder)
    found = load_vision(tmp_path / "other", "cpu", "float32").embed(pictures)[0]
    assert torch.equal(found, other.embed(pictures)[0])
    narrow = VisionModel(vision.config, 16)
    with pytest.raises(OptionError, match="embeddings of 16 numbers, the text model has 32"):
        save_folder(text, tmp_path / "narrow", vision=narrow)


def test_a_deferred_tower_is_read_when_it_is_first_shown_an_image(
    towers: Callable[[str], Towers], tmp_path: Path
) -> None:
    folder, _, eager = towers("published")
    deferred = load_vision(folder, "cpu", "float32", deferred=True)
    assert all(parameter.is_meta for parameter in deferred.parameters())
    assert deferred.config == eager.config
    for _ in range(2):
        assert torch.equal(deferred.embed([picture(6, 3)])[0], eager.embed([picture(6, 3)])[0])
    assert not any(parameter.is_meta or parameter.requires_grad for parameter in deferred.parameters())
    name = f"{TOWER}std_scale"
    missing = changed(folder, tmp_path / "missing", lambda tensors: tensors.pop(name))
    with pytest.raises(CheckpointError, match="missing"):
        load_vision(missing, "cpu", "float32", deferred=True)
    misshapen = changed(folder, tmp_path / "misshapen", lambda tensors: tensors.update({name: torch.ones(2)}))
    with pytest.raises(CheckpointError, match="std_scale"):
        load_vision(misshapen, "cpu", "float32", deferred=True)
    damaged = changed(folder, tmp_path / "damaged", lambda tensors: tensors[name].fill_(torch.nan))
    with pytest.raises(CheckpointError, match="std_scale holds numbers that are not finite"):
        load_vision(damaged, "cpu", "float32", deferred=True).embed([picture(6, 3)])


def test_a_text_model_gets_eyes_when_it_is_saved_with_a_tower(towers: Callable[[str], Towers], tmp_path: Path) -> None:
    make_oracle(tmp_path / "plain", TEXT_SHAPES["plain"])
    text, vision = load_folder(tmp_path / "plain", "cpu", "float32"), towers("published").model
    text.config = replace(text.config, vision_config={"model_type": "gemma4_vision"})
    save_folder(text, tmp_path / "seeing", vision=vision)
    found = load_vision(tmp_path / "seeing", "cpu", "float32")
    assert found.config == vision.config
    assert describe(tmp_path / "seeing")["vision"] == "2 layers, 48 wide"


def test_a_quantized_copy_keeps_the_tower_whole(towers: Callable[[str], Towers], tmp_path: Path) -> None:
    folder, _, model = towers("published")
    quantize_folder(folder, tmp_path / "packed", Quantization(dense=Int8(), experts=Int8()))
    found = vision_tensors(load_vision(tmp_path / "packed", "cpu", "float32"))
    for name, tensor in vision_tensors(model).items():
        assert torch.equal(found[name], tensor)


def test_the_published_tower_has_the_published_number_of_parameters() -> None:
    with torch.device("meta"):
        model = VisionModel(read_vision_config(PUBLISHED), 2816)
    tensors = vision_tensors(model)
    assert sum(tensor.numel() for tensor in tensors.values()) == 572_794_416
    assert len(tensors) == 356
    assert tensors[f"{TOWER}encoder.layers.26.mlp.down_proj.linear.weight"].shape == (1152, 4304)
    assert tensors["model.encoder.embed_vision.embedding_projection.weight"].shape == (2816, 1152)


def test_a_dead_table_is_left_alone_and_nothing_else_is(towers: Callable[[str], Towers], tmp_path: Path) -> None:
    folder, _, model = towers("published")
    dead = {"model.encoder.embed_vision.embedding.weight": torch.zeros(2, 2)}
    with_dead = changed(folder, tmp_path / "dead", lambda tensors: tensors.update(dead))
    found = load_vision(with_dead, "cpu", "float32").embed([picture(3, 3)])[0]
    assert torch.equal(found, model.embed([picture(3, 3)])[0])
    extra = {f"{TOWER}encoder.layers.0.self_attn.v_norm.weight": torch.ones(12)}
    foreign = changed(folder, tmp_path / "foreign", lambda tensors: tensors.update(extra))
    with pytest.raises(CheckpointError, match=r"unknown tensors .*v_norm"):
        load_vision(foreign)


def test_missing_misshapen_and_broken_tensors_are_named(towers: Callable[[str], Towers], tmp_path: Path) -> None:
    folder = towers("published").folder
    name = f"{TOWER}std_scale"
    missing = changed(folder, tmp_path / "missing", lambda tensors: tensors.pop(name))
    with pytest.raises(CheckpointError, match=r"missing .*std_scale"):
        load_vision(missing)
    short = changed(folder, tmp_path / "short", lambda tensors: tensors.update({name: torch.ones(3)}))
    with pytest.raises(CheckpointError, match=r"std_scale has shape \[3\], the config says \[48\]"):
        load_vision(short)
    broken = changed(folder, tmp_path / "broken", lambda tensors: tensors[name].fill_(float("nan")))
    with pytest.raises(CheckpointError, match="std_scale holds numbers that are not finite"):
        load_vision(broken)


def test_a_checkpoint_without_a_tower_says_so(towers: Callable[[str], Towers], tmp_path: Path) -> None:
    folder = towers("published").folder

    def blind(tensors: dict[str, Tensor]) -> None:
        for name in [name for name in tensors if "vision" in name]:
            del tensors[name]

    described = changed(folder, tmp_path / "described", blind)
    assert has_vision(folder)
    assert not has_vision(described)
    assert describe(folder)["vision"] == "2 layers, 48 wide"
    assert describe(described)["vision"] == "described, without weights: text only"
    with pytest.raises(CheckpointError, match="has no vision tower: this model reads text only"):
        load_vision(described)
    path = described / "config.json"
    raw = json.loads(path.read_text("utf-8"))
    del raw["vision_config"]
    path.write_text(json.dumps(raw), "utf-8")
    with pytest.raises(CheckpointError, match="has no vision tower"):
        load_vision(described)


def test_a_tower_that_is_not_fully_described_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "partly"
    make_oracle(folder, TEXT_SHAPES["plain"])
    path = folder / "config.json"
    raw = json.loads(path.read_text("utf-8"))
    del raw["vision_config"]["standardize"]
    path.write_text(json.dumps(raw), "utf-8")
    with pytest.raises(ConfigError, match=r"vision_config.standardize is missing"):
        load_vision(folder)


@pytest.mark.parametrize("key", ["boi_token_id", "image_token_id", "eoi_token_id"])
def test_a_tower_without_the_tokens_around_images_is_refused(
    towers: Callable[[str], Towers], tmp_path: Path, key: str
) -> None:
    folder = changed(towers("published").folder, tmp_path / "model", lambda tensors: None)
    raw = json.loads((folder / "config.json").read_text("utf-8"))
    del raw[key]
    (folder / "config.json").write_text(json.dumps(raw), "utf-8")
    with pytest.raises(ConfigError, match="a vision tower needs boi_token_id, image_token_id and eoi_token_id"):
        load_vision(folder)
