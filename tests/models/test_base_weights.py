"""Whether an adapter was trained on the weights that it is put on, whatever they are called and however they are
stored."""

import json
import math
from pathlib import Path

import pytest
import torch
from oracle import SHAPES, Shape, random_model
from safetensors.torch import load_file, save_file

from gesso.config import LoraConfig
from gesso.models import base_weights
from gesso.models.adapter_files import load_adapter, save_adapter
from gesso.models.adapters import adapter_parameters, attach, merge
from gesso.models.base_weights import differs, numbers_of
from gesso.models.loading import load_folder
from gesso.models.quantization.calibration import Calibration
from gesso.models.quantization.convert import quantize_folder
from gesso.models.quantization.plan import Quantization
from gesso.models.run_folders import ADAPTER_WEIGHTS
from gesso.models.saving import save_folder
from gesso.nn.quant.integer import Int4, Int8
from gesso.nn.quant.nf4 import NF4

SHAPE = Shape(layers="ssf", hidden=32, mlp=64, head_dim=16, full_head_dim=32, expert_size=32)
PROMPTS = Calibration(tuple(tuple(range(first, first + 24)) for first in (3, 40, 77)))


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random checkpoint. Do not write into it."""
    save_folder(random_model(SHAPE, seed=1), folder := tmp_path_factory.mktemp("base") / "fp32")
    return folder


def saved_adapter(base: Path, folder: Path, size: float = 0.0) -> Path:
    """The file of an adapter that was trained on a checkpoint, with deltas of some size."""
    model, config = load_folder(base, "cpu", "float32"), LoraConfig(rank=2)
    attach(model, config)
    with torch.no_grad():
        for parameter in adapter_parameters(model).values() if size else ():
            parameter.fill_(size)
    save_adapter(model, config, folder, "base", numbers=numbers_of(base))
    return folder / ADAPTER_WEIGHTS


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_a_copy_in_another_type_is_the_same(base: Path, tmp_path: Path, dtype: str) -> None:
    save_folder(load_folder(base, "cpu", "float32"), tmp_path / "copy", dtype=dtype)
    assert not differs(saved_adapter(base, tmp_path / "adapter"), tmp_path / "copy")
    assert not differs(saved_adapter(tmp_path / "copy", tmp_path / "other"), base)


@pytest.mark.parametrize("chosen", [Quantization(Int8(), Int8()), Quantization(Int4(32), NF4(), Int8())])
@pytest.mark.parametrize("calibrate", [None, PROMPTS])
def test_a_copy_in_fewer_bits_is_the_same(
    base: Path, tmp_path: Path, chosen: Quantization, calibrate: Calibration | None
) -> None:
    quantize_folder(base, tmp_path / "packed", chosen, calibrate=calibrate)
    assert not differs(saved_adapter(base, tmp_path / "adapter"), tmp_path / "packed")
    assert not differs(saved_adapter(tmp_path / "packed", tmp_path / "other"), base)


def test_other_weights_of_the_same_shape_are_others(base: Path, tmp_path: Path) -> None:
    save_folder(random_model(SHAPE, seed=2), tmp_path / "other")
    quantize_folder(tmp_path / "other", tmp_path / "packed", Quantization(Int8(), Int8()))
    adapter = saved_adapter(base, tmp_path / "adapter")
    assert differs(adapter, tmp_path / "other")
    assert differs(adapter, tmp_path / "packed")


def test_another_shape_is_another_base(base: Path, tmp_path: Path) -> None:
    save_folder(random_model(SHAPES["plain"], seed=1), tmp_path / "other")
    assert differs(saved_adapter(base, tmp_path / "adapter"), tmp_path / "other")


def test_what_the_adapter_was_merged_into_is_another_base(base: Path, tmp_path: Path) -> None:
    """Put on that, it would count twice."""
    adapter = saved_adapter(base, tmp_path / "adapter", size=0.1)
    model = load_folder(base, "cpu", "float32")
    load_adapter(model, adapter.parent)
    merge(model)
    save_folder(model, tmp_path / "merged")
    assert differs(adapter, tmp_path / "merged")


def test_an_adapter_that_does_not_tell_fits_any_base(base: Path, tmp_path: Path) -> None:
    adapter = saved_adapter(base, tmp_path / "adapter")
    save_folder(random_model(SHAPE, seed=2), tmp_path / "other")
    tensors = load_file(adapter)
    for told in ("{}", "[1]", json.dumps({"model.decoder.norm.weight": ["a"]}), json.dumps({"unknown": [1.0]})):
        save_file(tensors, adapter, {"format": "pt", base_weights.METADATA: told})
        assert not differs(adapter, tmp_path / "other")
    save_file(tensors, adapter)
    assert not differs(adapter, tmp_path / "other")
    adapter.write_bytes(b"no")
    assert not differs(adapter, tmp_path / "other")


@pytest.mark.parametrize("shape", [(8192, 2816), (2**24 + 3,), (1,), (31, 1)])
def test_the_places_of_numbers_lie_within_large_tensors_too(
    shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The largest matrix of the published model has more numbers than fp32 can count one by one."""
    monkeypatch.setattr(base_weights, "read_tensor", lambda name, path: torch.full((), 0.5).expand(shape))
    count = math.prod(shape)
    assert base_weights._some("q_proj", Path("unused")) == [0.5] * min(32, count)
