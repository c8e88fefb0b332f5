"""Checkpoints that no machine could run, or that are damaged, are refused by name before anything is made of them."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from oracle import SHAPES, make_oracle
from safetensors.torch import load_file, save_file

from gesso.errors import CheckpointError, ConfigError, GessoError
from gesso.models.loading import load_folder, read_generation_defaults, read_model_config
from gesso.models.quantization.convert import quantize_folder
from gesso.models.quantization.plan import Quantization
from gesso.models.tensors import check_finite
from gesso.nn.quant.integer import Int8


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("refused") / "plain"
    make_oracle(folder, SHAPES["plain"], seed=0)
    return folder


def copied(source: Path, folder: Path, **changes: Any) -> Path:
    """A folder with the same files, and other settings in `config.json`; those of the text model by their own names."""
    folder.mkdir(exist_ok=True)
    for path in source.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    config = json.loads((folder / "config.json").read_text())
    for name, value in changes.items():
        (config if name in config else config["text_config"])[name] = value
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"canvas_length": 10**12}, r"canvas_length must be at most 65,536 .*, got 1,000,000,000,000"),
        ({"max_position_embeddings": 10**15}, r"max_position_embeddings must be at most 16,777,216 .*exact in fp32"),
        ({"sliding_window": 10**15}, "sliding_window must be at most"),
        ({"vocab_size": 10**12}, "vocab_size must be at most"),
        ({"hidden_size": 10**9}, "hidden_size must be at most"),
        ({"intermediate_size": 10**9}, "intermediate_size must be at most"),
        ({"moe_intermediate_size": 10**9}, "moe_intermediate_size must be at most"),
        ({"num_experts": 10**9}, "num_experts must be at most"),
        ({"num_hidden_layers": 10**10, "layer_types": None}, "num_hidden_layers must be from 1 to 1,024"),
        ({"num_hidden_layers": 0, "layer_types": []}, "num_hidden_layers must be from 1 to 1,024, got 0"),
        (
            {"hidden_size": 2**19, "num_experts": 2**15, "moe_intermediate_size": 2**12},
            r"describes .* weights, more than any machine holds",
        ),
        ({"head_dim": 2**40}, "head_dim must be at most"),
    ],
)
def test_sizes_that_no_machine_could_hold(whole: Path, tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read_model_config(copied(whole, tmp_path / "large", **changes))


def damaged(source: Path, folder: Path, name: str, number: float) -> Path:
    copied(source, folder)
    path = next(folder.glob("*.safetensors"))
    tensors = load_file(path)
    key = next(key for key in sorted(tensors) if name in key)
    tensors[key].view(-1)[-1] = number
    save_file(tensors, path, {"format": "pt"})
    return folder


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("name", ["embed_tokens", "experts.down_proj", "q_norm"])
def test_weights_that_are_no_numbers(whole: Path, tmp_path: Path, name: str, number: float, dtype: str) -> None:
    folder = damaged(whole, tmp_path / "nan", name, number)
    with pytest.raises(CheckpointError, match=rf"{name}.* holds numbers that are not finite"):
        load_folder(folder, "cpu", dtype)


@pytest.mark.parametrize(
    ("stored", "number", "dtype"), [(torch.float64, 1e300, "float32"), (torch.float32, 1e6, "float16")]
)
def test_weights_that_the_wanted_type_cannot_hold(
    whole: Path, tmp_path: Path, stored: torch.dtype, number: float, dtype: str
) -> None:
    folder = copied(whole, tmp_path / "large")
    tensors = load_file(folder / "model.safetensors")
    key = next(key for key in sorted(tensors) if "q_norm" in key)
    tensors[key] = torch.full_like(tensors[key], number, dtype=stored)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(CheckpointError, match=rf"q_norm.* holds numbers that are too large for {dtype}"):
        load_folder(folder, "cpu", dtype)


def test_scales_and_copied_tensors_of_packed_weights(whole: Path, tmp_path: Path) -> None:
    packed = tmp_path / "packed"
    quantize_folder(whole, packed, Quantization(dense=Int8()))
    shard = next(path for path in packed.glob("*.safetensors") if any("scales" in key for key in load_file(path)))
    tensors = load_file(shard)
    next(tensors[key] for key in tensors if key.endswith("scales"))[0] = torch.nan
    save_file(tensors, shard)
    with pytest.raises(CheckpointError, match=r"scales holds numbers that are not finite"):
        load_folder(packed, "cpu", "float32")
    with pytest.raises(CheckpointError, match=r"q_norm.* holds numbers that are not finite"):
        quantize_folder(damaged(whole, tmp_path / "nan", "q_norm", torch.nan), tmp_path / "out", Quantization(Int8()))


@pytest.mark.parametrize("name", ["lm_head.weight", "model.encoder.vision_tower.patch.weight"])
def test_types_that_pytorch_does_not_have(whole: Path, tmp_path: Path, name: str) -> None:
    folder = copied(whole, tmp_path / "six")
    content = (folder / "model.safetensors").read_bytes()
    length = 8 + int.from_bytes(content[:8], "little")
    end = len(content) - length
    entry = {"dtype": "F6_E2M3", "shape": [4], "data_offsets": [end, end + 3]}
    text = json.dumps(json.loads(content[8:length]) | {name: entry}).encode()
    (folder / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + content[length:] + b"abc")
    with pytest.raises(CheckpointError, match=rf"{name} in model\.safetensors, of type F6_E2M3, cannot be read"):
        quantize_folder(folder, tmp_path / "out", Quantization(Int8(), embedding=Int8()))


def test_every_type_is_checked_and_large_numbers_are_numbers() -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        check_finite("x", torch.full((9,), torch.finfo(dtype).max, dtype=dtype))
    codes = torch.tensor([448.0, -448.0, 0.0]).to(torch.float8_e4m3fn)
    check_finite("x", codes)
    check_finite("x", torch.tensor([255], dtype=torch.uint8))
    check_finite("x", torch.empty(0))
    for byte in (0x7F, 0xFF):
        with pytest.raises(CheckpointError, match=r"^x holds numbers"):
            check_finite("x", torch.tensor([0, byte], dtype=torch.uint8).view(torch.float8_e4m3fn))


FILES = ("config.json", "generation_config.json", "gesso.json", "model.safetensors.index.json")


@pytest.mark.parametrize("name", FILES)
def test_files_that_are_nested_for_ever(whole: Path, tmp_path: Path, name: str) -> None:
    folder = copied(whole, tmp_path / "deep")
    (folder / name).write_text('{"a":' * 50_000 + "1" + "}" * 50_000)
    read = read_defaults if name in ("generation_config.json", "gesso.json") else load_folder
    with pytest.raises(GessoError, match=rf"{name} is nested deeper than 64 levels"):
        read(folder)


def read_defaults(folder: Path) -> None:
    read_generation_defaults(folder, read_model_config(folder))
