"""Checkpoint folders: what is read, what is refused and by which name, and what is written."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from oracle import SHAPES, Pair, ReferenceRun, load_reference, make_oracle, random_model, variant
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

import gesso
from gesso.errors import CheckpointError, ConfigError, OptionError, UserError
from gesso.generation import GenerationConfig
from gesso.models import saving
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.models.dtype import DTYPES
from gesso.models.hub import resolve
from gesso.models.loading import load_folder, read_generation_defaults, read_model_config, weight_files
from gesso.models.offload import tower_bytes
from gesso.models.quantization.convert import quantize_folder
from gesso.models.quantization.fit import pick
from gesso.models.quantization.plan import Quantization
from gesso.models.saving import save_folder, write_json
from gesso.models.state_dict_adapter import to_hf
from gesso.models.weight_index import INDEX, SINGLE
from gesso.nn.quant.integer import Int8

Make = Callable[[str], Pair]
Q_PROJ = "model.decoder.layers.0.self_attn.q_proj.weight"
TABLE = "model.decoder.embed_tokens.weight"


def same_weights(a: DiffusionGemma, b: DiffusionGemma) -> bool:
    ours, theirs = a.state_dict(), b.state_dict()
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


def logits_of(model: DiffusionGemma) -> Tensor:
    vocab = model.config.vocab_size
    cache = model.new_cache(1)
    model.encode(torch.arange(11)[None] % vocab, cache)
    return model.denoise(torch.arange(model.config.canvas_length)[None] * 3 % vocab, cache)


def logits_of_reference(model: Any, vocab: int, canvas: int) -> Tensor:
    run = ReferenceRun(model)
    run.encode(torch.arange(11)[None] % vocab)
    return run.denoise(torch.arange(canvas)[None] * 3 % vocab)


@pytest.fixture
def folder(pair: Make, tmp_path: Path) -> Path:
    """A copy of a good checkpoint, to be spoilt."""
    return Path(shutil.copytree(pair("plain").folder, tmp_path / "checkpoint"))


def rewrite(folder: Path, change: Callable[[dict[str, Tensor]], None], name: str = "model.safetensors") -> None:
    tensors = load_file(folder / name)
    change(tensors)
    save_file(tensors, folder / name)


def edit_json(folder: Path, change: Callable[[dict[str, Any]], None], name: str = "config.json") -> None:
    path = folder / name
    raw = json.loads(path.read_text("utf-8"))
    change(raw)
    path.write_text(json.dumps(raw), "utf-8")


# What is read ---------------------------------------------------------------------------------------------------


def test_every_tensor_arrives_under_its_name(pair: Make) -> None:
    _, folder, _, model = pair("plain")
    stored = load_file(folder / "model.safetensors")
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, stored.pop(to_hf(name)).reshape(tensor.shape)), name
    assert all("vision" in name for name in stored)
    assert not model.training
    assert not any(parameter.requires_grad for parameter in model.parameters())


@pytest.mark.parametrize("name", ["plain", "same_head_dim", "all_full", "biased"])
def test_the_older_dialect_means_the_same(pair: Make, tmp_path: Path, name: str) -> None:
    shape, folder, _, model = pair(name)
    make_oracle(tmp_path, shape, seed=sorted(SHAPES).index(name), old_dialect=True)
    raw = json.loads((tmp_path / "config.json").read_text("utf-8"))["text_config"]
    assert "per_layer_config" not in raw
    assert read_model_config(tmp_path) == read_model_config(folder)
    assert same_weights(load_folder(tmp_path, "cpu"), model)


def test_shards_with_an_index(tmp_path: Path, pair: Make) -> None:
    shape, _, _, model = pair("plain")
    make_oracle(tmp_path, shape, seed=sorted(SHAPES).index("plain"), max_shard_size="30KB")
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 3
    assert not (tmp_path / "model.safetensors").exists()
    assert same_weights(load_folder(tmp_path, "cpu"), model)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("stored", [torch.float32, torch.bfloat16, torch.float64])
def test_any_stored_float_becomes_the_wanted_one(folder: Path, stored: torch.dtype, dtype: str) -> None:
    original = load_file(folder / "model.safetensors")
    rewrite(folder, lambda tensors: tensors.update({name: t.to(stored) for name, t in tensors.items()}))
    model = load_folder(folder, "cpu", dtype)
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, original[to_hf(name)].to(stored).to(DTYPES[dtype])), name


def test_tied_copies_that_agree_are_read(folder: Path, pair: Make) -> None:
    def add(tensors: dict[str, Tensor]) -> None:
        tensors["lm_head.weight"] = tensors[TABLE].clone()
        tensors["model.encoder.language_model.layers.0.self_attn.q_proj.weight"] = tensors[Q_PROJ].clone()
        tensors["model.encoder.language_model.embed_tokens.weight"] = tensors[TABLE].clone()
        tensors["model.encoder.language_model.norm.weight"] = tensors["model.decoder.norm.weight"].clone()

    rewrite(folder, add)
    assert same_weights(load_folder(folder, "cpu"), pair("plain").model)


def test_vision_weights_are_not_needed(folder: Path, pair: Make) -> None:
    def drop(tensors: dict[str, Tensor]) -> None:
        for name in [name for name in tensors if "vision" in name]:
            del tensors[name]

    rewrite(folder, drop)
    assert same_weights(load_folder(folder, "cpu"), pair("plain").model)


# What is refused ------------------------------------------------------------------------------------------------

SPOILT: dict[str, tuple[Callable[[dict[str, Tensor]], object], str]] = {
    "missing": (lambda t: t.pop(Q_PROJ), Q_PROJ),
    "missing scalar": (
        lambda t: t.pop("model.encoder.language_model.layers.1.layer_scalar"),
        "model.encoder.language_model.layers.1.layer_scalar",
    ),
    "unknown": (lambda t: t.update({"model.decoder.layers.0.self_attn.sinks": torch.ones(4)}), "self_attn.sinks"),
    "a layer too many": (
        lambda t: t.update({Q_PROJ.replace("layers.0", "layers.4"): t[Q_PROJ].clone()}),
        Q_PROJ.replace("layers.0", "layers.4"),
    ),
    "a V projection in a full layer": (
        lambda t: t.update({"model.decoder.layers.1.self_attn.v_proj.weight": torch.ones(16, 32)}),
        "model.decoder.layers.1.self_attn.v_proj.weight",
    ),
    "an expert apart": (
        lambda t: t.update({"model.decoder.layers.0.experts.3.gate_proj.weight": torch.ones(12, 32)}),
        "model.decoder.layers.0.experts.3.gate_proj.weight",
    ),
    "misshapen": (lambda t: t.update({Q_PROJ: t[Q_PROJ][:-1].clone()}), Q_PROJ),
    "transposed": (lambda t: t.update({Q_PROJ: t[Q_PROJ].reshape(32, -1)[:, :31].clone()}), Q_PROJ),
    "int8": (lambda t: t.update({Q_PROJ: t[Q_PROJ].to(torch.int8)}), Q_PROJ),
    "int32": (lambda t: t.update({Q_PROJ: t[Q_PROJ].to(torch.int32)}), Q_PROJ),
    "bool": (lambda t: t.update({Q_PROJ: t[Q_PROJ] > 0}), Q_PROJ),
    "fp8": (lambda t: t.update({Q_PROJ: t[Q_PROJ].to(torch.float8_e4m3fn)}), Q_PROJ),
    "head apart": (lambda t: t.update({"lm_head.weight": t[TABLE] + 1}), "lm_head.weight"),
    "head of another size": (lambda t: t.update({"lm_head.weight": t[TABLE][1:].clone()}), "lm_head.weight"),
    "encoder apart": (
        lambda t: t.update({Q_PROJ.replace("decoder", "encoder.language_model"): t[Q_PROJ] * 2}),
        Q_PROJ.replace("decoder", "encoder.language_model"),
    ),
}


@pytest.mark.parametrize("case", SPOILT)
def test_weights_that_do_not_fit_are_refused_by_name(folder: Path, case: str) -> None:
    spoil, name = SPOILT[case]

    def change(tensors: dict[str, Tensor]) -> None:
        spoil(tensors)

    rewrite(folder, change)
    with pytest.raises(CheckpointError) as error:
        load_folder(folder, "cpu")
    assert name in str(error.value)
    assert "\n" not in str(error.value)


def test_many_missing_tensors_make_a_short_message(folder: Path) -> None:
    rewrite(folder, lambda t: [t.pop(name) for name in list(t) if ".experts." in name])  # type: ignore[arg-type, return-value]
    with pytest.raises(CheckpointError, match=r"layers\.0\.experts\.down_proj, .* and 4 more$"):
        load_folder(folder, "cpu")


@pytest.mark.parametrize("size", [0, 5, 8, 100, 20_000, -1])
def test_a_truncated_file_is_refused(folder: Path, size: int) -> None:
    path = folder / "model.safetensors"
    data = path.read_bytes()
    path.write_bytes(data[: size if size >= 0 else len(data) - 1])
    with pytest.raises(CheckpointError, match=r"model\.safetensors is truncated"):
        load_folder(folder, "cpu")


def test_what_a_clone_without_git_lfs_has_is_refused(folder: Path) -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935\nsize 51700000000\n"
    (folder / "model.safetensors").write_text(pointer, "utf-8")
    with pytest.raises(CheckpointError, match=r"model\.safetensors only names the weights, which Git LFS holds"):
        load_folder(folder, "cpu")


def test_a_truncated_shard_is_refused(tmp_path: Path) -> None:
    make_oracle(tmp_path, max_shard_size="30KB")
    path = weight_files(tmp_path)[Q_PROJ]
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(CheckpointError, match=path.name):
        load_folder(tmp_path, "cpu")


def test_an_index_that_lies_is_refused(tmp_path: Path) -> None:
    make_oracle(tmp_path, max_shard_size="30KB")
    index = json.loads((tmp_path / INDEX).read_text("utf-8"))
    held = index["weight_map"][Q_PROJ]
    other = next(file for file in set(index["weight_map"].values()) if file != held)
    edit_json(tmp_path, lambda raw: raw["weight_map"].update({Q_PROJ: other}), INDEX)
    with pytest.raises(CheckpointError, match=f"{other} lacks {Q_PROJ}"):
        load_folder(tmp_path, "cpu")
    edit_json(tmp_path, lambda raw: raw["weight_map"].update({Q_PROJ: "model-99.safetensors"}), INDEX)
    with pytest.raises(CheckpointError, match=r"model-99\.safetensors, named by .*index\.json, is missing"):
        load_folder(tmp_path, "cpu")


def test_an_index_that_lies_about_copies_and_towers_is_refused(tmp_path: Path, folder: Path) -> None:
    tensors = load_file(folder / SINGLE)
    copy = Q_PROJ.replace("decoder", "encoder.language_model")
    tower = "model.encoder.vision_tower.x.weight"
    for name in (copy, tower):
        write_json(folder / INDEX, {"weight_map": dict.fromkeys([*tensors, name], SINGLE)})
        with pytest.raises(CheckpointError, match=f"{SINGLE} lacks {name}"):
            quantize_folder(folder, tmp_path / "out", Quantization(dense=Int8()))
    with pytest.raises(CheckpointError, match=f"{SINGLE} lacks {tower}"):
        pick(folder, 10**12)
    with pytest.raises(CheckpointError, match=f"{SINGLE} lacks {tower}"):
        tower_bytes(weight_files(folder), torch.float32)
    with pytest.raises(CheckpointError, match=f"{SINGLE} lacks {tower}"):
        save_folder(load_folder(folder, "cpu"), tmp_path / "copy", source=folder)
    write_json(folder / INDEX, {"weight_map": dict.fromkeys([*tensors, copy], SINGLE)})
    with pytest.raises(CheckpointError, match=f"{SINGLE} lacks {copy}"):
        load_folder(folder, "cpu")


def test_an_index_does_not_lead_out_of_its_folder(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    make_oracle(inside, max_shard_size="30KB")
    shard = min(inside.glob("model-*.safetensors"))
    shard.rename(tmp_path / shard.name)
    edit_json(
        inside,
        lambda raw: raw.update(weight_map=dict.fromkeys(raw["weight_map"], f"../{shard.name}")),
        INDEX,
    )
    with pytest.raises(CheckpointError, match="is missing in"):
        load_folder(inside, "cpu")


@pytest.mark.parametrize("content", ["[]", '{"weight_map": []}', '{"weight_map": {"a": 1}}', "{", "", "\x00"])
def test_an_index_that_is_no_index_is_refused(folder: Path, content: str) -> None:
    (folder / INDEX).write_text(content, "utf-8")
    with pytest.raises(CheckpointError, match=r"index\.json"):
        load_folder(folder, "cpu")


def test_pickled_weights_are_not_touched(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match="safetensors and GGUF only"):
        load_folder(folder, "cpu")


def test_a_folder_without_a_config_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"config\.json is missing"):
        load_folder(tmp_path, "cpu")
    with pytest.raises(CheckpointError, match=r"config\.json is missing"):
        load_folder(tmp_path / "nowhere", "cpu")
    (tmp_path / "config.json").write_text("{", "utf-8")
    with pytest.raises(CheckpointError, match="is no JSON"):
        load_folder(tmp_path, "cpu")


def test_a_config_of_another_shape_than_the_weights_is_refused(folder: Path) -> None:
    edit_json(folder, lambda raw: raw["text_config"].update(hidden_size=64))
    with pytest.raises(CheckpointError, match=r"has shape \[.*32.*\], the config says \[.*64.*\]"):
        load_folder(folder, "cpu")


def test_quantized_folders_are_refused(folder: Path) -> None:
    quant = folder / "hf_quant_config.json"
    quant.write_text('{"quantization": {"quant_algo": "FP8"}}', "utf-8")
    with pytest.raises(CheckpointError, match=r"hf_quant_config\.json .* weights are packed, and none is"):
        load_folder(folder, "cpu")
    quant.write_text("{}", "utf-8")
    with pytest.raises(CheckpointError, match=r"hf_quant_config\.json"):
        load_folder(folder, "cpu")
    quant.unlink()
    edit_json(folder, lambda raw: raw.update(quantization_config={"quant_method": "fp8"}))
    with pytest.raises(CheckpointError, match="fp8"):
        load_folder(folder, "cpu")


def test_devices_and_dtypes_that_do_not_exist_are_refused(folder: Path) -> None:
    with pytest.raises(OptionError, match="'abacus'"):
        load_folder(folder, "abacus")
    with pytest.raises(OptionError, match="'float8'"):
        load_folder(folder, "cpu", "float8")


# What is written ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SHAPES)
def test_saved_and_loaded_again_it_is_the_same(tmp_path: Path, name: str) -> None:
    model = random_model(SHAPES[name], seed=6)
    save_folder(model, tmp_path)
    again = load_folder(tmp_path, "cpu")
    assert again.config == model.config
    assert same_weights(again, model)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "config.json",
        "generation_config.json",
        "model.safetensors",
    ]


@pytest.mark.parametrize("name", ["plain", "biased", "all_full", "same_head_dim", "five_heads_five_kv"])
def test_transformers_loads_what_is_saved(tmp_path: Path, name: str) -> None:
    shape = SHAPES[name]
    model = random_model(shape, seed=6)
    save_folder(model, tmp_path)
    reference, report = load_reference(tmp_path)
    assert not report["unexpected_keys"]
    assert not report["mismatched_keys"]
    assert all("vision" in key for key in report["missing_keys"])
    difference = (logits_of_reference(reference, shape.vocab, shape.canvas) - logits_of(model)).abs().max()
    assert difference <= 5e-4


def test_vision_weights_and_text_files_are_carried_over(tmp_path: Path, folder: Path, pair: Make) -> None:
    shape, _, original, _ = pair("plain")
    for name in ("tokenizer.json", "chat_template.jinja", "preprocessor_config.json", "notes.txt"):
        (folder / name).write_text(name, "utf-8")
    model = load_folder(folder, "cpu")
    save_folder(model, tmp_path / "out", source=folder)
    reference, report = load_reference(tmp_path / "out")
    assert not any(report[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    vision = [name for name in original.state_dict() if "vision" in name]
    assert vision
    assert all(torch.equal(reference.state_dict()[name], original.state_dict()[name]) for name in vision)
    ours, theirs = logits_of(model), logits_of_reference(reference, shape.vocab, shape.canvas)
    assert (ours - theirs).abs().max() <= 5e-4
    assert same_weights(load_folder(tmp_path / "out", "cpu"), model)
    assert (tmp_path / "out" / "tokenizer.json").read_text("utf-8") == "tokenizer.json"
    assert (tmp_path / "out" / "chat_template.jinja").exists()
    assert (tmp_path / "out" / "preprocessor_config.json").exists()
    assert not (tmp_path / "out" / "notes.txt").exists()


def test_saved_in_bfloat16(tmp_path: Path) -> None:
    model = random_model(SHAPES["plain"])
    save_folder(model, tmp_path, dtype="bfloat16")
    with safe_open(tmp_path / "model.safetensors", "pt") as file:
        assert {file.get_slice(name).get_dtype() for name in file.keys()} == {"BF16"}  # noqa: SIM118
    assert json.loads((tmp_path / "config.json").read_text("utf-8"))["dtype"] == "bfloat16"
    assert same_weights(load_folder(tmp_path, "cpu", "bfloat16"), model.to(torch.bfloat16))


def test_saved_in_several_files(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saving, "SHARD_BYTES", 30_000)
    model = load_folder(folder, "cpu")
    save_folder(model, tmp_path / "out", source=folder)
    files = set(weight_files(tmp_path / "out").values())
    assert len(files) > 3
    assert files == set((tmp_path / "out").glob("*.safetensors"))
    assert same_weights(load_folder(tmp_path / "out", "cpu"), model)
    _, report = load_reference(tmp_path / "out")
    assert not any(report[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))


def test_saving_over_an_older_checkpoint_leaves_none_of_it(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load_folder(folder, "cpu")
    with monkeypatch.context() as patched:
        patched.setattr(saving, "SHARD_BYTES", 30_000)
        save_folder(model, tmp_path / "out", source=folder)
    new = random_model(SHAPES["plain"], seed=99)
    save_folder(new, tmp_path / "out")
    assert same_weights(load_folder(tmp_path / "out", "cpu"), new)
    assert [path.name for path in (tmp_path / "out").glob("*.safetensors")] == ["model.safetensors"]


def test_saving_into_the_folder_it_came_from(folder: Path) -> None:
    (folder / "tokenizer.json").write_text("{}", "utf-8")
    model = load_folder(folder, "cpu")
    vision = {name for name in weight_files(folder) if "vision" in name}
    save_folder(model, folder, source=folder)
    assert vision <= set(weight_files(folder))
    assert same_weights(load_folder(folder, "cpu"), model)
    assert (folder / "tokenizer.json").exists()


def test_generation_defaults_are_saved_and_read(tmp_path: Path) -> None:
    model = random_model(SHAPES["plain"])
    generation = GenerationConfig(max_denoising_steps=7, entropy_bound=0.3, eos_token_ids=(1, 5), t_max=0.9)
    save_folder(model, tmp_path, generation=generation)
    assert read_generation_defaults(tmp_path, model.config) == generation
    (tmp_path / "generation_config.json").unlink()
    assert read_generation_defaults(tmp_path, model.config) == GenerationConfig()


# Memory ---------------------------------------------------------------------------------------------------------

LAUNCH = "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))"
"""A process starts with the peak of the one that started it, so a small one stands between."""
MEASURE = """
import resource, sys
from pathlib import Path
import torch
from gesso.models.loading import load_folder
torch.set_num_threads(1)
load_folder(Path(sys.argv[2]), "cpu", sys.argv[3])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
model = load_folder(Path(sys.argv[1]), "cpu", sys.argv[3])
total = sum(float(p.sum()) for p in model.parameters())
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print((after - before) * (1 if sys.platform == "darwin" else 1024))
"""


def test_loading_takes_little_more_memory_than_the_weights(tmp_path: Path) -> None:
    shape = variant(SHAPES["plain"], layers="sf", hidden=256)
    for name, vocab in (("small", 64), ("large", 400_000)):
        model = DiffusionGemma(variant(shape, vocab=vocab).config()).to(torch.bfloat16)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.fill_(0.01)
        save_folder(model, tmp_path / name, dtype="bfloat16")
    weights = (tmp_path / "large" / "model.safetensors").stat().st_size
    assert weights > 200e6

    def growth(dtype: str) -> int:
        source = Path(saving.__file__).parents[2]
        measure = [sys.executable, "-c", MEASURE, tmp_path / "large", tmp_path / "small", dtype]
        done = subprocess.run(
            [sys.executable, "-c", LAUNCH, *measure],
            capture_output=True,
            text=True,
            check=True,
            env=os.environ | {"PYTHONPATH": str(source)},
        )
        return int(done.stdout)

    assert 0.8 * weights <= growth("bfloat16") <= 1.2 * weights
    # Converted, the pages of the mapped file count as well, though they can be dropped at any time.
    assert growth("float32") <= 1.2 * (2 * weights) + weights


# Configs that cannot be read ------------------------------------------------------------------------------------

Edit = Callable[[dict[str, Any]], object]
BAD_CONFIGS: dict[str, tuple[Edit, type[UserError], str]] = {
    "model type": (lambda raw: raw.update(model_type="gemma3"), CheckpointError, "'gemma3'"),
    "no model type": (lambda raw: raw.pop("model_type"), CheckpointError, "model_type"),
    "unknown key": (lambda raw: raw.update(noise_schedule="cosine"), ConfigError, "'noise_schedule'"),
    "unknown text key": (lambda raw: raw["text_config"].update(attn_sinks=4), ConfigError, "'attn_sinks'"),
    "unknown rope key": (
        lambda raw: raw["text_config"]["rope_parameters"]["full_attention"].update(beta_fast=32.0),
        ConfigError,
        "'beta_fast'",
    ),
    "unknown rope type": (
        lambda raw: raw["text_config"]["rope_parameters"]["full_attention"].update(rope_type="yarn"),
        ConfigError,
        "'yarn'",
    ),
    "unknown kind of rope": (
        lambda raw: raw["text_config"]["rope_parameters"].update(linear_attention={}),
        ConfigError,
        "'linear_attention'",
    ),
    "unknown layer key": (
        lambda raw: raw["text_config"]["per_layer_config"]["1"].update(intermediate_size=7),
        ConfigError,
        "'intermediate_size'",
    ),
    "no such layer": (
        lambda raw: raw["text_config"]["per_layer_config"].update({"9": {"head_dim": 4}}),
        ConfigError,
        "'9'",
    ),
    "layer kind as a key": (
        lambda raw: raw["text_config"]["per_layer_config"].update(full_attention={"head_dim": 4}),
        ConfigError,
        "'full_attention'",
    ),
    "head dims that contradict": (
        lambda raw: raw["text_config"].update(global_head_dim=64),
        ConfigError,
        "global_head_dim",
    ),
    "layer type": (
        lambda raw: raw["text_config"].update(layer_types=["linear_attention"] * 4),
        ConfigError,
        "'linear_attention'",
    ),
    "layer count": (lambda raw: raw["text_config"].update(num_hidden_layers=5), ConfigError, "num_hidden_layers 5"),
    "last layer": (
        lambda raw: raw["text_config"].update(layer_types=["sliding_attention"] * 4),
        ConfigError,
        "full_attention",
    ),
    "activation": (lambda raw: raw["text_config"].update(hidden_activation="silu"), ConfigError, "'silu'"),
    "untied": (lambda raw: raw.update(tie_word_embeddings=False), ConfigError, "tie_word_embeddings"),
    "bidirectional": (
        lambda raw: raw["text_config"].update(use_bidirectional_attention="all"),
        ConfigError,
        "use_bidirectional_attention",
    ),
    "audio": (lambda raw: raw.update(audio_config={}), ConfigError, "audio_config"),
    "soft-cap": (
        lambda raw: raw["text_config"].update(final_logit_softcapping=None),
        ConfigError,
        "final_logit_softcapping",
    ),
    "missing size": (lambda raw: raw["text_config"].pop("vocab_size"), ConfigError, "vocab_size"),
    "size as text": (lambda raw: raw["text_config"].update(hidden_size="32"), ConfigError, "hidden_size"),
    "negative size": (lambda raw: raw["text_config"].update(num_experts=-1), ConfigError, "num_experts"),
    "too many experts": (lambda raw: raw["text_config"].update(top_k_experts=5), ConfigError, "top_k_experts 5"),
    "heads": (lambda raw: raw["text_config"].update(num_attention_heads=3), ConfigError, "num_attention_heads 3"),
    "odd head": (lambda raw: raw["text_config"].update(head_dim=7), ConfigError, "head_dim"),
    "no text config": (lambda raw: raw.pop("text_config"), ConfigError, "text_config"),
}


@pytest.mark.parametrize("case", BAD_CONFIGS)
def test_configs_that_are_not_understood_are_refused_by_name(folder: Path, case: str) -> None:
    edit, kind, name = BAD_CONFIGS[case]

    def change(raw: dict[str, Any]) -> None:
        edit(raw)

    edit_json(folder, change)
    with pytest.raises(kind) as error:
        load_folder(folder, "cpu")
    assert type(error.value) is kind
    assert name in str(error.value)
    assert "\n" not in str(error.value)


def test_what_safetensors_cannot_write_is_an_os_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise SafetensorError("No space left on device")

    monkeypatch.setattr(saving, "save_file", fail)
    with pytest.raises(OSError, match="No space left on device") as caught:
        saving.write_safetensors({}, tmp_path / "model.safetensors")
    assert caught.value.filename == str(tmp_path / "model.safetensors")


def test_the_source_of_a_copy_may_be_a_name(tmp_path: Path) -> None:
    save_folder(gesso.load_model("mini", "cpu"), tmp_path / "copy", source="mini")
    assert (tmp_path / "copy" / "chat_template.jinja").read_bytes() == (
        resolve("mini") / "chat_template.jinja"
    ).read_bytes()
    with pytest.raises(OptionError, match="source nowhere is no folder, and no model of this name is here"):
        save_folder(gesso.load_model("mini", "cpu"), tmp_path / "other", source="nowhere")
    assert not (tmp_path / "other").exists()
