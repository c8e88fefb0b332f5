"""`gesso quantize`, and the commands that take what it writes."""

import json
import re
import shutil
from pathlib import Path

import pytest
from oracle import Shape, random_model

from cli.conftest import Gesso
from gesso.api import load
from gesso.models.adapters import adapted_layers
from gesso.models.card import CARD
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.models.saving import save_folder


@pytest.fixture
def wide(tmp_path: Path) -> Path:
    """A model wide enough for groups, without a tokenizer."""
    save_folder(random_model(Shape("sf", hidden=64, mlp=64, head_dim=16, expert_size=64)), tmp_path / "wide")
    return tmp_path / "wide"


def test_a_bundled_model_in_int8_is_used_like_any_other(gesso: Gesso, bundled: Path, tmp_path: Path) -> None:
    out = tmp_path / "small"
    outcome = gesso("quantize", "mini", "--to", "int8", "--out", out)
    assert outcome.code == 0
    lines = outcome.out.splitlines()
    before = (bundled / "mini" / "model.safetensors").stat().st_size
    after = sum(path.stat().st_size for path in out.glob("*.safetensors"))
    assert lines[0] == f"{before / 1e6:.2f} MB before, {after / 1e6:.2f} MB after ({after / before:.0%})"
    assert lines[1].startswith("largest relative error of a tensor: 0.")
    assert lines[2] == str(out)
    said = gesso("generate", "-m", out, "--seed", 1, "--plain", "one plus one")
    assert (said.code, said.err) == (0, "")
    assert json.loads(gesso("models", "show", out, "--json").out)["weights_bytes"] == after
    assert gesso("eval", out, "-n", 1, "--max-denoising-steps", 1, "--task", "arithmetic", "--json").code == 0


def test_what_was_measured_is_carried_over_with_what_it_is_of(gesso: Gesso, bundled: Path, tmp_path: Path) -> None:
    source, out = tmp_path / "source", tmp_path / "small"
    shutil.copytree(bundled / "mini", source)
    skill = {"name": "sums", "example": "1 + 1", "right": 0.5, "low": 0.4, "high": 0.6, "goal": 1, "steps": 2.5}
    (source / CARD).write_text(json.dumps({"skills": [{**skill, "examples": 200, "command": "gesso eval"}]}))
    assert gesso("quantize", source, "--to", "int8", "--out", out).code == 0
    shown, first = (json.loads(gesso("models", "show", folder, "--json").out) for folder in (out, source))
    assert shown["skills"] == first["skills"] != []
    assert (shown["measured_on"], first["measured_on"]) == ("the weights before they were quantized", "")
    assert "measured on the weights before they were quantized:" in gesso("models", "show", out).out


def test_parts_are_chosen_separately(gesso: Gesso, wide: Path, tmp_path: Path) -> None:
    def written(*options: object) -> dict[str, object]:
        out = tmp_path / "-".join(map(str, options))
        assert gesso("quantize", wide, "--out", out, *options).code == 0
        config: dict[str, object] = json.loads((out / "config.json").read_text("utf-8"))["quantization_config"]
        assert config.pop("quant_method") == "gesso"
        return config

    assert written("--to", "int4") == {part: {"bits": 4, "group_size": 64} for part in ("dense", "experts")}
    assert written("--to", "int4", "--dense", "none", "--group-size", 32) == {"experts": {"bits": 4, "group_size": 32}}
    assert written("--to", "int8", "--experts", "int4") == {
        "dense": {"bits": 8},
        "experts": {"bits": 4, "group_size": 64},
    }
    assert written("--to", "int8", "--embedding", "int4", "--group-size", 32) == {
        "dense": {"bits": 8},
        "experts": {"bits": 8},
        "embedding": {"bits": 4, "group_size": 32},
    }
    assert written("--to", "int4", "--dense", "none", "--experts", "none", "--embedding", "int8") == {
        "embedding": {"bits": 8}
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--to", "int3"), "--to 'int3' does not exist; known: int8, int4, nf4"),
        (("--to", "int8", "--embedding", "nf4"), "--embedding 'nf4' does not exist; known: int8, int4, none"),
        (("--to", "none"), "--to 'none' does not exist"),
        (("--to", "int8", "--dense", "fp8"), "--dense 'fp8' does not exist; known: int8, int4, nf4, none"),
        (("--to", "int8", "--experts", "nf3"), "--experts 'nf3' does not exist"),
        (("--to", "int4", "--group-size", 48), "--group-size must be one of 32, 64, 128, got 48"),
        (("--to", "int8", "--group-size", 64), "--group-size needs int4"),
        (("--to", "int8", "--dense", "none", "--experts", "none"), "--dense, --experts and --embedding are all none"),
        (("--to", "int8", "--embedding", "fp8"), "--embedding 'fp8' does not exist; known: int8, int4, none"),
        (("--to", "int8", "--embedding", ""), "--embedding '' does not exist"),
        (
            ("--to", "int8", "--embedding", "int4", "--group-size", 48),
            "--group-size must be one of 32, 64, 128, got 48",
        ),
        (("--to", "int8", "--embedding", "int4"), "vocabulary cannot be held in 4 bits: 24 input features"),
        (("--to", "int4"), "cannot be held in 4 bits: 24 input features"),
    ],
)
def test_mistakes_get_one_line(gesso: Gesso, tmp_path: Path, options: tuple[object, ...], message: str) -> None:
    outcome = gesso("quantize", "mini", "--out", tmp_path / "out", *options)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("gesso: ")
    assert message in outcome.err
    assert not list(tmp_path.iterdir())


def test_ctrl_c_says_that_it_goes_on(gesso: Gesso, wide: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("gesso.models.quantization.convert.write_json", stopped)
        told = gesso("quantize", wide, "--to", "int8", "--out", tmp_path / "out")
    assert (told.code, told.out) == (130, "")
    assert told.err == "gesso: stopped; the same command again goes on where it was\n"
    assert gesso("quantize", wide, "--to", "int8", "--out", tmp_path / "out").code == 0


def test_the_most_bits_that_fit_are_picked(gesso: Gesso, wide: Path, tmp_path: Path) -> None:
    def picked(size: str) -> tuple[str, dict[str, object]]:
        out = tmp_path / size
        told = gesso("quantize", wide, "--fit", size, "--out", out)
        assert told.code == 0, told.err
        config = json.loads((out / "config.json").read_text("utf-8"))["quantization_config"]
        return told.out.splitlines()[0], config

    whole = gesso("quantize", wide, "--fit", "1GB", "--out", tmp_path / "whole")
    assert whole.code == 2
    size = re.search(r"fits as it is: ([0-9.]+) MB with 8,192 tokens of context\n", whole.err)
    assert size is not None, whole.err
    line, config = picked(f"{float(size[1]) - 0.01:.2f}MB")
    assert line.startswith("dense int8, experts int8: ")
    assert "embedding" not in config
    largest = float(line.split(": ")[1].split(" MB")[0])
    line, config = picked(f"{largest - 0.01:.3f}MB")
    assert line.startswith("dense int8, experts int8, embedding int8: ")
    assert config["embedding"] == {"bits": 8}
    small = gesso("quantize", wide, "--fit", "1kB", "--out", tmp_path / "small")
    assert small.code == 2
    assert "--fit 1.00 KB is too small: in the fewest bits" in small.err
    assert "--device-memory" in small.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "give one of --to FORMAT and --fit SIZE"),
        (("--to", "int8", "--fit", "1GB"), "give one of --to FORMAT and --fit SIZE"),
        (("--fit", "5"), "--fit 5 is a number of bytes: give a size with its unit, as in 18GB"),
        (("--fit", "small"), "--fit takes a size such as 4GiB or 500MB, got 'small'"),
        (("--fit", "1GB", "--embedding", "int8"), "--fit picks all formats"),
    ],
)
def test_fit_is_refused_by_name(gesso: Gesso, tmp_path: Path, options: tuple[object, ...], message: str) -> None:
    outcome = gesso("quantize", "mini", "--out", tmp_path / "out", *options)
    assert outcome.code == 2
    assert message in outcome.err


def test_a_table_in_int8_is_used_and_trained_around(gesso: Gesso, tmp_path: Path) -> None:
    out, data = tmp_path / "small", tmp_path / "data.jsonl"
    alone = ("--dense", "none", "--experts", "none", "--embedding", "int8")
    assert gesso("quantize", "mini", "--to", "int8", *alone, "--out", out).code == 0
    for constraint in (), ("--regex", "[a-z ]+"):
        said = gesso("generate", "-m", out, "--seed", 1, "--plain", *constraint, "one plus one")
        assert (said.code, said.err) == (0, "")
    assert json.loads(gesso("models", "show", out, "--json").out)["weights_bytes"] == sum(
        path.stat().st_size for path in out.glob("*.safetensors")
    )
    data.write_text('{"prompt": "one plus one", "completion": "two"}\n' * 8, "utf-8")
    train = ("finetune", data, "--model", out, "--batch-size", 2, "--steps", 1, "--max-length", 64, "--held-out", 0)
    full = gesso(*train, "--out", tmp_path / "full", "--method", "full")
    assert full.code == 2
    assert "--method full needs whole weights" in full.err
    assert gesso(*train, "--out", tmp_path / "lora", "--method", "lora").code == 0
    adapter = next(tmp_path.glob("lora/**/adapter_config.json")).parent
    merged = gesso("merge", adapter, "--model", out, "--out", tmp_path / "merged")
    assert merged.code == 2
    assert "writing a checkpoint needs whole weights, and vocabulary is quantized" in merged.err
    assert not (tmp_path / "merged").exists()


def test_what_needs_whole_weights_says_so(gesso: Gesso, tmp_path: Path) -> None:
    out, data = tmp_path / "small", tmp_path / "data.jsonl"
    assert gesso("quantize", "mini", "--to", "int8", "--out", out).code == 0
    data.write_text('{"prompt": "one plus one", "completion": "two"}\n' * 8, "utf-8")
    train = ("finetune", data, "--model", out, "--batch-size", 2, "--steps", 1, "--max-length", 64, "--held-out", 0)
    full = gesso(*train, "--out", tmp_path / "full", "--method", "full")
    assert full.code == 2
    assert f"--method full needs whole weights, and those of {out} are quantized already" in full.err
    qlora = gesso(*train, "--out", tmp_path / "qlora", "--method", "qlora")
    assert qlora.code == 2
    assert f"--method qlora needs whole weights, and those of {out} are quantized already" in qlora.err
    lora = gesso(*train, "--out", tmp_path / "lora", "--method", "lora")
    assert lora.code == 0
    adapter = next(tmp_path.glob("lora/**/adapter_config.json")).parent
    merged = gesso("merge", adapter, "--model", out, "--out", tmp_path / "merged")
    assert merged.code == 2
    assert "is quantized: load the base model unquantized" in merged.err
    assert not (tmp_path / "merged").exists()
    asked = ("generate", "one plus one", "--max-new-tokens", 8, "--model", out, "--seed", 0)
    assert gesso(*asked, "--adapter", adapter).code == 0
    engine = load(str(out), adapter=adapter)
    assert isinstance(engine.model, DiffusionGemma)
    assert len(list(adapted_layers(engine.model))) > 0, "beside the packed weights, not left out"
    again = gesso("quantize", out, "--to", "int8", "--out", tmp_path / "again")
    assert again.code == 2
    assert "is quantized already" in again.err


def test_a_calibrated_model_says_so_and_answers(gesso: Gesso, tmp_path: Path) -> None:
    prompts, out = tmp_path / "prompts", tmp_path / "small"
    record = {"messages": [{"role": "user", "content": "What is 3 + 4?"}]}
    prompts.write_text(f'What is 2 + 2?\n\n{{"prompt": "one plus one"}}\n{json.dumps(record)}\n', "utf-8")
    outcome = gesso("quantize", "mini", "--to", "int8", "--calibration-prompts", prompts, "--out", out)
    assert (outcome.code, outcome.out.splitlines()[-1]) == (0, str(out))
    assert outcome.out.splitlines()[2].startswith("error of layers' outputs on the prompts: ")
    shown = json.loads(gesso("models", "show", out, "--json").out)
    assert shown["quantized"] == "dense int8, experts int8; calibrated on 3 prompts"
    assert gesso("generate", "-m", out, "--seed", 1, "--max-denoising-steps", 1, "one plus one").code == 0


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('{"prompt": 3}', "line 1 has no prompt"),
        ("{", "line 1 is no JSON"),
        (" \n\n", "holds no prompt"),
        ('{"messages": []}', "prompt 1: "),
        (None, "cannot be read: No such file"),
    ],
)
def test_prompts_that_cannot_be_read_are_refused(gesso: Gesso, tmp_path: Path, line: str | None, told: str) -> None:
    prompts = tmp_path / "prompts"
    if line is not None:
        prompts.write_text(line, "utf-8")
    outcome = gesso("quantize", "mini", "--to", "int8", "--calibration-prompts", prompts, "--out", tmp_path / "small")
    assert outcome.code == 2
    assert told in outcome.err
    assert not (tmp_path / "small.partial").exists()


def test_calibration_needs_a_tokenizer_and_something_to_scale(gesso: Gesso, wide: Path, tmp_path: Path) -> None:
    outcome = gesso("quantize", wide, "--to", "int4", "--calibrate", "--out", tmp_path / "small")
    assert (outcome.code, "has no tokenizer.json" in outcome.err) == (2, True)
    parts = ("--dense", "none", "--experts", "none", "--embedding", "int8")
    outcome = gesso("quantize", "mini", "--to", "int8", *parts, "--calibrate", "--out", tmp_path / "small")
    assert (outcome.code, "neither is packed" in outcome.err) == (2, True)
