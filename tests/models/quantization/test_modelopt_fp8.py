"""modelopt's FP8 checkpoints, written here tensor by tensor, against the same weights written out."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from oracle import Shape, random_model
from safetensors.torch import load_file, save_file
from torch import Tensor

from gesso.errors import CheckpointError, OptionError
from gesso.models.loading import load_folder
from gesso.models.quantization.modelopt import read_modelopt
from gesso.models.saving import save_folder
from gesso.nn.quant.layers import QuantizedExperts, QuantizedLinear
from models.quantization.test_modelopt import outputs, refuses_changed

SHAPE = Shape("sf", hidden=32, expert_size=16)
SETTINGS = {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head", "*router*"]}
CONFIG = {
    "quant_method": "modelopt",
    "quant_algo": "FP8",
    "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "float"}, "targets": ["Linear"]}},
    "ignore": ["lm_head"],
    "producer": {"name": "modelopt", "version": "0.40.0"},
}
LAYER = "model.decoder.layers.0"
UP = f"{LAYER}.mlp.up_proj"
FIRST = f"{LAYER}.experts.0.gate_proj"
KEPT = f"{LAYER}.self_attn.o_proj"
"""A layer that is left as it is, as `exclude_modules` may say."""


def pack(name: str, weight: Tensor, by_rows: bool) -> tuple[dict[str, Tensor], Tensor]:
    """What is stored of a matrix, and what it stands for, number by number."""
    largest = weight.abs().amax(dim=1) if by_rows else weight.abs().max()
    scale = largest / 448
    codes = (weight / (scale[:, None] if by_rows else scale)).to(torch.float8_e4m3fn)
    whole = torch.tensor(
        [
            [float(code) * float(scale[row] if by_rows else scale) for code in codes[row]]
            for row in range(codes.shape[0])
        ]
    )
    stored = {f"{name}.weight": codes, f"{name}.weight_scale": scale}
    if not by_rows:
        stored[f"{name}.input_scale"] = torch.tensor(0.01)
    return stored, whole


def write(folder: Path, plain: Path, *, by_rows: bool) -> None:
    """The checkpoint in `plain` as FP8; `plain` then holds what it stands for."""
    tensors = load_file(plain / "model.safetensors")
    packed = dict(tensors)
    for name, tensor in tensors.items():
        stem = name.removesuffix(".weight")
        if tensor.dim() == 2 and stem.endswith("_proj") and stem != KEPT:
            stored, tensors[name] = pack(stem, tensor, by_rows)
            packed |= stored
        elif tensor.dim() == 3:
            del packed[name]
            kinds = ("gate", "up") if "gate_up" in name else ("down",)
            for expert, fused in enumerate(tensor):
                made = [
                    pack(f"{LAYER[:-1]}{name.split('.')[3]}.experts.{expert}.{kind}_proj", part, by_rows)
                    for kind, part in zip(kinds, fused.chunk(len(kinds)), strict=True)
                ]
                tensor[expert] = torch.cat([whole for _, whole in made])
                for stored, _ in made:
                    packed |= stored
    if not by_rows:  # of keys and values
        packed |= {f"{LAYER}.self_attn.{part}_proj.{part}_scale": torch.tensor(1.5) for part in "kv"}
    shutil.copytree(plain, folder)
    save_file(tensors, plain / "model.safetensors")
    save_file(packed, folder / "model.safetensors")


@pytest.fixture(scope="module", params=["by matrix", "by row"])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A checkpoint in FP8, and a plain one of the same weights. Do not write into them."""
    by_rows = request.param == "by row"
    folder, plain = (tmp_path_factory.mktemp("modelopt") / name for name in ("fp8", "plain"))
    save_folder(random_model(SHAPE), plain)
    write(folder, plain, by_rows=by_rows)
    settings = {"quant_algo": "FP8_PER_CHANNEL_PER_TOKEN", "exclude_modules": []} if by_rows else SETTINGS
    (folder / "hf_quant_config.json").write_text(json.dumps({"quantization": settings}), "utf-8")
    return folder, plain


@pytest.fixture(scope="module")
def by_matrix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Told by `config.json` alone. Do not write into it."""
    folder, plain = (tmp_path_factory.mktemp("modelopt") / name for name in ("fp8", "plain"))
    save_folder(random_model(SHAPE), plain)
    write(folder, plain, by_rows=False)
    config = json.loads((folder / "config.json").read_text("utf-8")) | {"quantization_config": CONFIG}
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    return folder


def test_it_computes_what_the_weights_written_out_do(made: tuple[Path, Path]) -> None:
    packed, plain = (load_folder(folder, "cpu", "float32") for folder in made)
    torch.testing.assert_close(outputs(packed), outputs(plain), rtol=1e-3, atol=1e-3)
    kinds = {name: module for name, module in packed.named_modules() if name.endswith(("proj", "experts"))}
    whole = {name for name, module in kinds.items() if not isinstance(module, QuantizedLinear | QuantizedExperts)}
    assert whole == {"layers.0.attention.o_proj", "layers.0.router.proj", "layers.1.router.proj"}
    held = {name: tensor for name, tensor in packed.state_dict().items() if name.endswith("codes")}
    assert {tensor.dtype for tensor in held.values()} == {torch.float8_e4m3fn}
    assert len(held) == len(kinds) - len(whole) + len(SHAPE.layers), "experts have two matrices each"


def test_half_precision_is_near(made: tuple[Path, Path]) -> None:
    exact = outputs(load_folder(made[1], "cpu", "float32"))
    for dtype in ("bfloat16", "float16"):
        plain, packed = (outputs(load_folder(folder, "cpu", dtype)) for folder in (made[1], made[0]))
        assert (packed - exact).norm() <= 1.2 * (plain - exact).norm()


def test_config_json_alone_says_it(by_matrix: Path, tmp_path: Path) -> None:
    both = Path(shutil.copytree(by_matrix, tmp_path / "both"))
    (both / "hf_quant_config.json").write_text(json.dumps({"quantization": SETTINGS}), "utf-8")
    alone, told = (outputs(load_folder(folder, "cpu", "float32")) for folder in (by_matrix, both))
    assert torch.equal(alone, told)


def test_copies_of_the_encoder_must_be_the_same(by_matrix: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(by_matrix, tmp_path / "copy"))
    tensors = load_file(folder / "model.safetensors")
    copy = {
        name.replace("decoder", "encoder.language_model"): tensors[name].clone() for name in (f"{UP}.weight_scale",)
    }
    copy[f"{UP}.input_scale".replace("decoder", "encoder.language_model")] = torch.tensor(0.5)
    save_file(tensors | copy, folder / "model.safetensors")
    assert torch.equal(outputs(load_folder(folder, "cpu")), outputs(load_folder(by_matrix, "cpu")))
    save_file(tensors | {name: tensor + 1 for name, tensor in copy.items()}, folder / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"encoder.*up_proj\.weight_scale differs from model\.decoder"):
        load_folder(folder, "cpu")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (CONFIG | {"quant_algo": "FP8_PB_WO"}, r"FP8_PB_WO, config\.json: quantization_config"),
        (CONFIG | {"quant_algo": ["FP8"]}, r"\['FP8'\], config\.json"),
        (CONFIG | {"group_size": 128}, "group_size 128 is not supported; FP8 has none"),
        (CONFIG | {"rotate": True}, "quantization_config: unknown key 'rotate'"),
        ({"quant_method": "modelopt"}, r"unknown, config\.json"),
    ],
)
def test_other_settings_are_refused(by_matrix: Path, tmp_path: Path, settings: dict[str, object], message: str) -> None:
    folder = Path(shutil.copytree(by_matrix, tmp_path / "copy"))
    config = json.loads((folder / "config.json").read_text("utf-8")) | {"quantization_config": settings}
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    with pytest.raises(CheckpointError, match=message):
        load_folder(folder, "cpu")


@pytest.mark.parametrize("found", [None, "FP8", {"quant_algo": None}])
def test_settings_that_are_none(found: object) -> None:
    with pytest.raises(CheckpointError, match=r"hf_quant_config\.json\), which gesso cannot read"):
        read_modelopt(found)


@pytest.mark.parametrize(
    ("name", "tensor", "message"),
    [
        (f"{UP}.weight_scale", None, rf"tensors missing .*{UP}\.weight_scale"),
        (f"{FIRST}.weight_scale", None, rf"tensors missing .*{FIRST}\.weight_scale"),
        (f"{FIRST}.weight", None, rf"tensors missing .*{FIRST}\.weight"),
        (f"{UP}.weight_scale", torch.ones(3), rf"{UP}\.weight_scale has shape \[3\]"),
        (f"{UP}.weight_scale", torch.ones(2, 2), rf"{UP}\.weight_scale has shape \[2, 2\]"),
        (f"{UP}.weight_scale", torch.ones((), dtype=torch.bfloat16), "is torch.bfloat16, where FP8 has torch.float32"),
        (f"{FIRST}.weight_scale", torch.tensor(float("nan")), rf"{FIRST}\.weight_scale holds numbers that are not"),
        (f"{UP}.weight_scale_2", torch.ones(()), rf"unknown tensors .*{UP}\.weight_scale_2"),
        (f"{UP}.weight", torch.zeros(64, 32), rf"unknown tensors .*{UP}\.input_scale.*{UP}\.weight_scale"),
        (f"{FIRST}.weight", torch.zeros(16, 32), "is torch.float32, where FP8 has torch.float8_e4m3fn"),
        (f"{KEPT}.weight_scale", torch.ones(()), rf"unknown tensors .*{KEPT}\.weight_scale"),
        (f"{FIRST}.weight", torch.zeros(16, 16, dtype=torch.float8_e4m3fn), r"has shape \[16, 16\], the config says"),
        (f"{LAYER}.router.proj.weight", torch.zeros(4, 32, dtype=torch.float8_e4m3fn), r"is F8_E4M3: quantized"),
    ],
)
def test_tensors_that_do_not_fit_are_refused(
    by_matrix: Path, tmp_path: Path, name: str, tensor: Tensor | None, message: str
) -> None:
    refuses_changed(by_matrix, tmp_path, name, tensor, message)


def test_a_file_cut_short_is_refused(by_matrix: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(by_matrix, tmp_path / "copy"))
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(CheckpointError, match=r"model\.safetensors is truncated"):
        load_folder(folder, "cpu")


def test_it_cannot_be_written_again(by_matrix: Path, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="is quantized: use the model it was made from"):
        save_folder(load_folder(by_matrix, "cpu", "float32"), tmp_path / "out")
