"""A checkpoint whose embedding table is in few bits: what is written and refused, and what runs on it."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from oracle import Shape, random_model
from safetensors.torch import load_file, save_file
from torch import Tensor

from gesso.config import LoraConfig
from gesso.engine.engine import Engine, Request
from gesso.errors import CheckpointError, OptionError
from gesso.generation import GenerationConfig
from gesso.models.adapters import attach, merge
from gesso.models.loading import load_folder, weight_files
from gesso.models.quantization.convert import quantize_folder
from gesso.models.quantization.plan import Quantization
from gesso.models.saving import save_folder
from gesso.models.weight_index import INDEX
from gesso.nn.quant.integer import Int4, Int8
from gesso.text.tokenizer import TokenIds
from gesso.train.batch import Conversation, make_batch
from gesso.train.config import TrainConfig
from gesso.train.two_pass import losses

SHAPE = Shape(layers="sf", hidden=64, mlp=64, head_dim=16, expert_size=32)
CHOICES = {
    "table in 8": Quantization(embedding=Int8()),
    "table in 4": Quantization(embedding=Int4(32)),
    "all": Quantization(Int8(), Int8(), Int4(32)),
}
TABLE = "model.decoder.embed_tokens"
every = pytest.mark.parametrize("chosen", CHOICES.values(), ids=CHOICES)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole checkpoint. Do not write into it."""
    folder = tmp_path_factory.mktemp("table") / "source"
    save_folder(random_model(SHAPE), folder, dtype="bfloat16")
    return folder


def test_a_packed_table_is_whole_and_alone(source: Path, tmp_path: Path) -> None:
    """No part is missing, and no whole table stands beside the parts, under its own name or a tied one."""
    out = tmp_path / "out"
    quantize_folder(source, out, CHOICES["all"])
    path = weight_files(out)[f"{TABLE}.codes"]
    tensors, index = load_file(path), json.loads((out / INDEX).read_text("utf-8"))

    def write(changed: dict[str, Tensor]) -> None:
        save_file(changed, path)
        others = {name: file for name, file in index["weight_map"].items() if file != path.name}
        weight_map = others | dict.fromkeys(changed, path.name)
        (out / INDEX).write_text(json.dumps(index | {"weight_map": weight_map}), "utf-8")

    write({name: tensor for name, tensor in tensors.items() if name != f"{TABLE}.scales"})
    with pytest.raises(CheckpointError, match=rf"tensors missing .*{TABLE}\.scales"):
        load_folder(out, "cpu")
    for name in f"{TABLE}.weight", "lm_head.weight":
        write(tensors | {name: load_file(source / "model.safetensors")[f"{TABLE}.weight"]})
        with pytest.raises(CheckpointError, match=rf"unknown tensors .*{name}"):
            load_folder(out, "cpu")
    write(tensors)
    load_folder(out, "cpu")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match=f"{path.name} is truncated"):
        load_folder(out, "cpu")


def test_a_tied_copy_of_the_table_is_left_out_where_it_is_one(source: Path, tmp_path: Path) -> None:
    tied = Path(shutil.copytree(source, tmp_path / "tied"))
    tensors = load_file(tied / "model.safetensors")
    tensors["lm_head.weight"] = tensors[f"{TABLE}.weight"].clone()
    save_file(tensors, tied / "model.safetensors")
    for place, name in (source, "plain"), (tied, "copied"):
        quantize_folder(place, tmp_path / name, CHOICES["all"])
    assert set(weight_files(tmp_path / "plain")) == set(weight_files(tmp_path / "copied"))
    tensors["lm_head.weight"][-1, -1] += 1
    save_file(tensors, tied / "model.safetensors")
    with pytest.raises(CheckpointError, match=f"lm_head.weight differs from {TABLE}.weight"):
        quantize_folder(tied, tmp_path / "unlike", CHOICES["all"])


@every
def test_a_request_is_the_same_alone_and_among_others(source: Path, tmp_path: Path, chosen: Quantization) -> None:
    """Canvases, left to right, shaped and verified: whatever reads the table."""
    quantize_folder(source, tmp_path / "out", chosen)
    engine = Engine(load_folder(tmp_path / "out", "cpu", "float32"), TokenIds(), None, GenerationConfig(), "packed")
    options = {"max_new_tokens": 24, "ignore_eos": True, "max_denoising_steps": 4, "logprobs": 2}
    requests = [
        Request(list(range(3, 20)), options | {"seed": 1}),
        Request([5, 6, 7], options | {"seed": 2, "top_p": 0.8}),
        Request([9, 8], options | {"seed": 3, "verify": 1}),
        Request([4], options | {"seed": 4, "mode": "ar"}),
    ]
    for request, result in zip(requests, engine.generate_batch(requests), strict=True):
        (alone,) = engine.generate_batch([request])
        assert len(alone.token_ids) == 24
        assert alone.token_ids == result.token_ids
        assert alone.logprobs == result.logprobs


@every
def test_lora_learns_and_all_weights_do_not(source: Path, tmp_path: Path, chosen: Quantization) -> None:
    quantize_folder(source, tmp_path / "out", chosen)
    model = load_folder(tmp_path / "out", "cpu", "float32")
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    torch.manual_seed(0)
    attach(model, LoraConfig(rank=4, targets=("*",)))
    batch = make_batch(
        [Conversation([3, 4, 5], [6, 7, 8, 9])] * 2,
        TrainConfig(steps=1, self_conditioning_probability=1.0),
        canvas_length=8,
        vocab_size=SHAPE.vocab,
        eos_token_id=1,
        generator=torch.Generator().manual_seed(0),
    )
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.01)
    found = []
    for _ in range(6):
        loss = losses(model, batch)
        total = loss.denoiser + loss.encoder
        optimizer.zero_grad()
        total.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        found.append(total.item())
    assert found[-1] < 0.9 * found[0]
    after = model.state_dict()
    assert all(torch.equal(after[name], before[name]) for name in before if name.startswith("vocabulary."))


def test_a_packed_table_alone_lets_adapters_be_merged_and_nothing_be_saved(source: Path, tmp_path: Path) -> None:
    quantize_folder(source, tmp_path / "out", CHOICES["table in 8"])
    model = load_folder(tmp_path / "out", "cpu", "float32")
    attach(model, LoraConfig(rank=2, targets=("*",)))
    merge(model)
    with pytest.raises(OptionError, match="writing a checkpoint needs whole weights, and vocabulary is quantized"):
        save_folder(model, tmp_path / "saved")
    assert not (tmp_path / "saved").exists()
