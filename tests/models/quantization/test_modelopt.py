"""modelopt's NVFP4 checkpoints, written here tensor by tensor, against a slow dequantization."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from oracle import Shape, random_model
from safetensors.torch import load_file, save_file
from torch import Tensor

from gesso.config import LoraConfig
from gesso.errors import CheckpointError, OptionError
from gesso.models.adapters import attach
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.models.loading import load_folder
from gesso.models.quantization.convert import quantize_folder
from gesso.models.quantization.plan import Quantization
from gesso.models.saving import save_folder
from gesso.nn.quant.integer import Int8

SHAPE = Shape("sf", hidden=32, expert_size=16)
E2M1 = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0]
SETTINGS = {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "group_size": 16, "exclude_modules": ["lm_head"]}
FIRST = "model.decoder.layers.0.experts.0.gate_proj"


def slowly(packed: Tensor, scales: Tensor, factor: float) -> Tensor:
    """Number by number, as the layout says."""
    out = torch.empty(packed.shape[0], 2 * packed.shape[1])
    for row in range(out.shape[0]):
        for column in range(out.shape[1]):
            byte = int(packed[row, column // 2])
            code = byte >> 4 if column % 2 else byte & 15
            out[row, column] = E2M1[code] * float(scales[row, column // 16]) * factor
    return out


def refuses_changed(source: Path, tmp_path: Path, name: str, tensor: Tensor | None, message: str) -> None:
    """A copy of the checkpoint in which one tensor is another, or missing, is refused."""
    folder = Path(shutil.copytree(source, tmp_path / "copy"))
    tensors = load_file(folder / "model.safetensors")
    if tensor is None:
        del tensors[name]
    else:
        tensors[name] = tensor
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(CheckpointError, match=message):
        load_folder(folder, "cpu")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A checkpoint with random NVFP4 experts, and a plain one of the same weights. Do not write into them."""
    folder, plain = (tmp_path_factory.mktemp("modelopt") / name for name in ("nvfp4", "plain"))
    save_folder(random_model(SHAPE), plain)
    tensors = load_file(plain / "model.safetensors")
    generator = torch.Generator().manual_seed(0)
    packed = dict(tensors)
    for layer in range(len(SHAPE.layers)):
        stem = f"model.decoder.layers.{layer}.experts"
        for name in ("gate_up_proj", "down_proj"):
            del packed[f"{stem}.{name}"]
        for expert in range(SHAPE.experts):
            whole = {}
            for matrix, (rows, columns) in {"gate": (16, 32), "up": (16, 32), "down": (32, 16)}.items():
                codes = torch.randint(256, (rows, columns // 2), generator=generator).to(torch.uint8)
                scales = (torch.rand(rows, columns // 16, generator=generator) * 400).to(torch.float8_e4m3fn)
                factor = torch.rand((), generator=generator) * 1e-3
                place = f"{stem}.{expert}.{matrix}_proj"
                packed |= {f"{place}.weight": codes, f"{place}.weight_scale": scales}
                packed |= {f"{place}.weight_scale_2": factor, f"{place}.input_scale": torch.tensor(0.01)}
                whole[matrix] = slowly(codes, scales, float(factor))
            tensors[f"{stem}.gate_up_proj"][expert] = torch.cat((whole["gate"], whole["up"]))
            tensors[f"{stem}.down_proj"][expert] = whole["down"]
    save_file(tensors, plain / "model.safetensors")
    shutil.copytree(plain, folder)
    save_file(packed, folder / "model.safetensors")
    (folder / "hf_quant_config.json").write_text(json.dumps({"quantization": SETTINGS}), "utf-8")
    return folder, plain


def outputs(model: DiffusionGemma) -> Tensor:
    cache = model.new_cache(1)
    model.encode(torch.arange(11)[None], cache)
    return model.denoise(torch.arange(16)[None] * 3, cache)


@pytest.mark.parametrize("method", [None, {"quant_method": "modelopt", "quant_algo": "NVFP4"}])
def test_experts_compute_what_the_slow_way_gives(made: tuple[Path, Path], tmp_path: Path, method: object) -> None:
    folder, plain = Path(shutil.copytree(made[0], tmp_path / "copy")), made[1]
    config = json.loads((folder / "config.json").read_text("utf-8"))
    (folder / "config.json").write_text(json.dumps(config | {"quantization_config": method}), "utf-8")
    model = load_folder(folder, "cpu", "float32")
    torch.testing.assert_close(outputs(model), outputs(load_folder(plain, "cpu", "float32")), rtol=1e-3, atol=1e-3)
    codes = [name for name, tensor in model.state_dict().items() if tensor.dtype == torch.uint8]
    assert len(codes) == 2 * len(SHAPE.layers), "experts stay packed"


def test_half_precision_is_near(made: tuple[Path, Path]) -> None:
    exact = outputs(load_folder(made[1], "cpu", "float32"))
    for dtype in ("bfloat16", "float16"):
        plain, packed = (outputs(load_folder(folder, "cpu", dtype)) for folder in (made[1], made[0]))
        assert (packed - exact).norm() <= 1.2 * (plain - exact).norm()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"quant_algo": "FP8"}, r"unknown tensors .*weight_scale_2"),
        ({"quant_algo": "FP8_PB_WO"}, r"FP8_PB_WO, hf_quant_config\.json"),
        ({"quant_algo": "W4A16_AWQ"}, "W4A16_AWQ"),
        (SETTINGS | {"group_size": 32}, "group_size 32 is not supported"),
        (SETTINGS | {"rotate": True}, "unknown key 'rotate'"),
    ],
)
def test_other_settings_are_refused(
    made: tuple[Path, Path], tmp_path: Path, settings: dict[str, object], message: str
) -> None:
    folder = Path(shutil.copytree(made[0], tmp_path / "copy"))
    (folder / "hf_quant_config.json").write_text(json.dumps({"quantization": settings}), "utf-8")
    with pytest.raises(CheckpointError, match=message):
        load_folder(folder, "cpu")


@pytest.mark.parametrize(
    ("name", "tensor", "message"),
    [
        (f"{FIRST}.weight", None, rf"tensors missing .*{FIRST}\.weight"),
        (f"{FIRST}.input_scale", None, rf"tensors missing .*{FIRST}\.input_scale"),
        (f"{FIRST}.weight", torch.zeros(16, 8, dtype=torch.uint8), r"has shape \[16, 8\], the config says \[16, 16\]"),
        (f"{FIRST}.weight_scale", torch.ones(16, 2), "is torch.float32, where NVFP4 has torch.float8_e4m3fn"),
        (f"{FIRST}.weight_scale_2", torch.ones(3), "has shape"),
        (
            "model.decoder.layers.0.mlp.up_proj.weight_scale",
            torch.ones(()),
            r"unknown tensors .*mlp\.up_proj\.weight_scale",
        ),
        ("model.decoder.layers.0.mlp.up_proj.weight", torch.zeros(40, 32, dtype=torch.uint8), "is U8: quantized"),
    ],
)
def test_tensors_that_do_not_fit_are_refused(
    made: tuple[Path, Path], tmp_path: Path, name: str, tensor: Tensor | None, message: str
) -> None:
    refuses_changed(made[0], tmp_path, name, tensor, message)


def test_what_it_cannot_do_is_refused(made: tuple[Path, Path], tmp_path: Path) -> None:
    model = load_folder(made[0], "cpu", "float32")
    with pytest.raises(OptionError, match=r"layers\.0\.experts is quantized"):
        save_folder(model, tmp_path / "out")
    with pytest.raises(CheckpointError, match="is quantized already"):
        quantize_folder(made[0], tmp_path / "out", Quantization(Int8(), None))
    with pytest.raises(OptionError, match="was quantized by ModelOpt, and is read whole: expert_parallel"):
        load_folder(made[0], "cpu", "float32", experts=range(1))
    before = outputs(model)
    attach(model, LoraConfig(targets=("layers.*.experts",)))
    assert torch.equal(outputs(model), before)
