"""A GGUF file where a model is named: loaded, quantized, generated with, and refused."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from gguf import GGMLQuantizationType as Kind
from safetensors.torch import save_file

import gesso
from gesso.errors import CheckpointError, HubError
from gesso.models.base_weights import describe, differs, numbers_of
from gesso.models.gguf.folder import gguf_folder
from gesso.models.hub import resolve, resolve_config
from gesso.models.loading import load_folder
from gesso.models.quantization.convert import quantize_folder
from gesso.models.quantization.plan import Quantization
from gesso.models.saving import save_folder
from gesso.nn.quant.integer import Int8
from models.gguf.published import TEMPLATE, TOKENS, as_turned_back, write_published

pytestmark = pytest.mark.usefixtures("assets")


def test_the_model_is_that_of_the_released_checkpoint(released: Path, whole: Path) -> None:
    ours, theirs = (load_folder(folder, "cpu", "float32").state_dict() for folder in (resolve(str(whole)), released))
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


@pytest.mark.parametrize("kind", [Kind.BF16, Kind.Q8_0, Kind.Q4_0], ids=lambda kind: kind.name)
def test_its_weights_count_as_those_that_it_was_made_from(released: Path, tmp_path: Path, kind: Kind) -> None:
    """Adapters of the one are put on the other without a warning."""
    folder = gguf_folder(write_published(tmp_path / "packed.gguf", released, kind=kind))
    save_file({"a": torch.zeros(1)}, tmp_path / "adapter", describe(numbers_of(released)))
    assert not differs(tmp_path / "adapter", folder)
    save_file({"a": torch.zeros(1)}, tmp_path / "adapter", describe(numbers_of(folder)))
    assert not differs(tmp_path / "adapter", released)


def test_the_folder_is_made_once_and_holds_no_weights(whole: Path, assets: Path) -> None:
    folder = gguf_folder(whole)
    assert folder.is_relative_to(assets)
    stamp = (folder / "config.json").stat().st_mtime_ns
    assert gguf_folder(whole) == folder == resolve(str(whole)) == resolve_config(str(whole))
    assert (folder / "config.json").stat().st_mtime_ns == stamp
    assert (folder / "model.gguf").is_symlink()
    assert (folder / "model.gguf").resolve() == whole.resolve()
    assert (folder / "chat_template.jinja").read_text() == TEMPLATE


def test_what_lies_beside_a_file_is_its_owners(released: Path, whole: Path, tmp_path: Path) -> None:
    path = write_published(tmp_path / "mine.gguf", released)
    (tmp_path / "mine.gguf.json").write_text('{"source": "elsewhere"}', "utf-8")
    ours, theirs = (load_folder(resolve(str(file)), "cpu").state_dict() for file in (path, whole))
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


@pytest.mark.parametrize("cache", ["~no-such-user/assets", "{}/file/assets"])
def test_without_a_place_for_it_another_is_asked_for(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: str
) -> None:
    """The home is one that nobody knows, or cannot be written."""
    (tmp_path / "file").write_text("x")
    monkeypatch.setattr("huggingface_hub.utils._cache_assets.HF_ASSETS_CACHE", cache.format(tmp_path))
    with pytest.raises(CheckpointError, match="no place for the config") as caught:
        gguf_folder(whole)
    assert "HF_HOME" in str(caught.value.hint)


def test_a_file_that_changed_has_a_folder_of_its_own(released: Path, tmp_path: Path) -> None:
    path = write_published(tmp_path / "a.gguf", released)
    first = gguf_folder(path)
    write_published(path, released, changes={"diffusion.canvas_length": 8, "general.name": "other"})
    assert gguf_folder(path) != first
    assert gesso.load(str(path), device="cpu").config.canvas_length == 8


def test_a_file_of_which_a_folder_was_begun_is_done_anew(whole: Path) -> None:
    folder = gguf_folder(whole)
    (folder / "model.gguf").unlink()
    (folder / "config.json").write_text("{")
    assert gesso.load(str(whole), device="cpu").config.vocab_size == len(TOKENS)


def test_several_at_once_make_it_once(whole: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        folders = set(pool.map(gguf_folder, [whole] * 4))
    (folder,) = folders
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]
    assert load_folder(folder, "cpu", "float32").config.vocab_size == len(TOKENS)


def test_it_answers_and_ends_where_the_released_checkpoint_does(whole: Path) -> None:
    engine = gesso.load(str(whole), device="cpu")
    assert engine.defaults.eos_token_ids == tuple(TOKENS.index(t) for t in ("<eos>", "<turn|>", "<|tool_response>"))
    prompt = engine.tokenizer.encode(
        "<bos><|turn>user\nthe kettle<turn|>\n<|turn>model"
    )  # Jinja drops the last line end
    assert engine.generate("the kettle", max_new_tokens=4, seed=1).prompt_tokens == len(prompt)


def test_it_is_quantized_as_a_folder_of_the_same_weights(released: Path, tmp_path: Path) -> None:
    path = write_published(tmp_path / "packed.gguf", released, kind=Kind.Q8_0)
    model = load_folder(released, "cpu", "float32")
    with torch.no_grad():
        for tensor in model.state_dict().values():
            if tensor.dim() > 1:
                tensor.copy_(as_turned_back(tensor, Kind.Q8_0))
    save_folder(model, tmp_path / "same")
    chosen = Quantization(dense=Int8(), experts=Int8(), embedding=Int8())
    quantize_folder(resolve(str(path)), tmp_path / "ours", chosen)
    quantize_folder(tmp_path / "same", tmp_path / "theirs", chosen)
    ours, theirs = (load_folder(tmp_path / name, "cpu", "float32").state_dict() for name in ("ours", "theirs"))
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"blk.1.attn_sinks.weight": torch.ones(4)}, r"unknown tensors .*blk\.1\.attn_sinks\.weight"),
        ({"blk.1.attn_q.weight": None}, r"tensors missing .*layers\.1\.self_attn\.q_proj"),
        ({"blk.1.attn_q.weight": torch.ones(4, 64)}, r"q_proj.weight has shape \[4, 64\]"),
        ({"output.weight": torch.ones(len(TOKENS), 64)}, "lm_head.weight differs"),
        ({"output_norm.weight": torch.full((64,), torch.nan)}, "not finite"),
    ],
)
def test_weights_that_do_not_fit_are_refused(
    released: Path, tmp_path: Path, tensors: dict[str, torch.Tensor | None], message: str
) -> None:
    path = write_published(tmp_path / "a.gguf", released, changes={"tensors": tensors})
    with pytest.raises(CheckpointError, match=message):
        load_folder(resolve(str(path)), "cpu", "float32")


def test_a_file_of_another_kind_is_told_what_a_model_is(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("no model")
    with pytest.raises(HubError, match="or a GGUF file"):
        resolve(str(path))
