"""Checkpoints are whole or not there, and a run survives what happens to them."""

import json
import shutil
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
from oracle import random_model
from safetensors.torch import load_file, save_file

from gesso.errors import CheckpointError, DataError, OptionError, TrainingError
from gesso.models.loading import load_folder
from gesso.models.saving import save_folder
from gesso.train import checkpoint, identity, step
from gesso.train.batch import Conversation
from gesso.train.checkpoint import OPTIMIZER, STATE, checkpoints
from gesso.train.identity import WEIGHTS
from gesso.train.text_files import CopiedText
from train.forks import start_fork
from train.runs import SHAPE, Fixed, Told, go_on, losses_of, metrics, recipe, same_files, train

# Its checkpoints -----------------------------------------------------------------------------------------------


def test_a_checkpoint_is_a_model_folder(tmp_path: Path) -> None:
    last = train(recipe(steps=1), tmp_path, device="cpu")
    model = load_folder(last, "cpu")
    assert model.config == SHAPE.config()
    assert json.loads((last / "generation_config.json").read_text("utf-8"))["max_denoising_steps"] == 9
    assert (last / "chat_template.jinja").read_text("utf-8") == "{{ messages }}"
    assert json.loads((last / "tokenizer_config.json").read_text("utf-8")) == {"eos_token": "<eos>"}
    assert tokenizers.Tokenizer.from_file(str(last / "tokenizer.json")).get_vocab() == {"a": 0}


@pytest.mark.parametrize("keep", [1, 2, 3])
def test_only_the_newest_are_kept(tmp_path: Path, keep: int) -> None:
    train(recipe(steps=7, checkpoint_every=2, keep_checkpoints=keep), tmp_path, device="cpu")
    expected = ["step-000002", "step-000004", "step-000006", "step-000007"][-keep:]
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == expected


@pytest.mark.parametrize("name", ["model.safetensors", OPTIMIZER, STATE])
def test_a_checkpoint_cut_short_is_refused(tmp_path: Path, name: str) -> None:
    last = train(recipe(steps=2), tmp_path, device="cpu")
    path = last / name
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(CheckpointError, match=name):
        train(recipe(), tmp_path, device="cpu")


def test_what_was_being_written_is_not_a_checkpoint(tmp_path: Path) -> None:
    """A run killed while it wrote goes on from the checkpoint before."""
    tiny = recipe()
    whole = train(tiny, tmp_path / "whole", device="cpu")
    train(tiny, tmp_path / "cut", device="cpu", stop_at=5)
    partial = tmp_path / "cut" / ".step-000010.partial"
    shutil.copytree(tmp_path / "cut" / "step-000005", partial)
    (tmp_path / "cut" / "step-000007").mkdir()
    assert [path.name for path in checkpoints(tmp_path / "cut")] == ["step-000005"]
    last = train(tiny, tmp_path / "cut", device="cpu")
    assert same_files(whole, last)
    assert not partial.exists()


def test_a_checkpoint_of_another_recipe_is_refused(tmp_path: Path) -> None:
    train(recipe(steps=1), tmp_path, device="cpu")
    with pytest.raises(CheckpointError, match="'tiny', not 'other'"):
        train(replace(recipe(), name="other"), tmp_path, device="cpu")


def test_a_checkpoint_of_another_chat_template_is_refused(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    recipe().text.write(theirs)
    plan = replace(recipe(), text=CopiedText(theirs))
    train(plan, tmp_path / "run", stop_at=5, device="cpu")
    (theirs / "chat_template.jinja").write_text("{{ messages }} ", encoding="utf-8")
    with pytest.raises(CheckpointError, match="text"):
        train(plan, tmp_path / "run", device="cpu")


def test_another_precision_is_said(tmp_path: Path) -> None:
    told = Told()
    train(recipe(precision="float32", steps=1), tmp_path, device="cpu")
    train(recipe(precision="auto", steps=2), tmp_path, device="cpu", callback=told)  # the same on a CPU
    assert told.warnings == []
    train(recipe(precision="bfloat16", steps=3), tmp_path, device="cpu", callback=told)
    assert len(told.warnings) == 1
    assert "was trained in float32, and goes on in bfloat16: --precision" in told.warnings[0]


def test_a_checkpoint_of_another_shape_is_refused(tmp_path: Path) -> None:
    train(recipe(steps=1), tmp_path, device="cpu")
    wider = replace(recipe(), model=replace(SHAPE, mlp=64).config())
    with pytest.raises(CheckpointError, match="another shape"):
        train(wider, tmp_path, device="cpu")


def test_an_optimizer_of_another_model_is_refused(tmp_path: Path) -> None:
    last = train(recipe(steps=1), tmp_path, device="cpu")
    tensors = load_file(last / OPTIMIZER)
    for name in ("exp_avg.layers.9.mlp.up_proj.weight", "exp_avg.layers.0.mlp.up_proj.weight", "step.nothing"):
        save_file(tensors | {name: torch.ones(2) if name.startswith("exp") else torch.tensor(1.0)}, last / OPTIMIZER)
        with pytest.raises(CheckpointError, match=name):
            train(recipe(), tmp_path, device="cpu")


@pytest.mark.parametrize("content", ["{}", '{"recipe": "tiny"}', '{"recipe": "tiny", "step": "x"}', "[]"])
def test_a_state_that_says_nothing_is_refused(tmp_path: Path, content: str) -> None:
    last = train(recipe(steps=1), tmp_path, device="cpu")
    (last / STATE).write_text(content, "utf-8")
    with pytest.raises(CheckpointError):
        train(recipe(), tmp_path, device="cpu")


# What goes wrong -----------------------------------------------------------------------------------------------


def seventh_is_infinite(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Makes the loss of the seventh step infinite; returns what counts the steps."""
    good = step.losses
    calls: list[int] = []

    def losses(*args: Any, **options: Any) -> Any:
        calls.append(1)
        found = good(*args, **options)
        return replace(found, denoiser=found.denoiser * float("inf")) if len(calls) == 7 else found

    monkeypatch.setattr(step, "losses", losses)
    return calls


def test_a_loss_that_is_not_a_number_ends_the_run(tmp_path: Path) -> None:
    broken = random_model(SHAPE)
    with torch.no_grad():
        broken.norm.weight[0] = 3e38  # finite, so that it loads; its square is not
    save_folder(broken, tmp_path / "start")
    with pytest.raises(TrainingError, match="step 1: the loss or gradient is not a number"):
        train(replace(recipe(), start=tmp_path / "start"), tmp_path / "run", device="cpu")
    assert checkpoints(tmp_path / "run") == []


def test_the_last_good_checkpoint_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = seventh_is_infinite(monkeypatch)
    with pytest.raises(TrainingError, match=r"step 7: .*, and the last checkpoint is .*step-000005; a lower"):
        train(recipe(), tmp_path, device="cpu")
    calls.clear()
    with pytest.raises(TrainingError, match=r"step 7: .*, and there is no checkpoint; a lower learning"):
        train(recipe(checkpoint_every=100), tmp_path / "none", device="cpu")
    assert [path.name for path in checkpoints(tmp_path)] == ["step-000005"]


def test_the_steps_before_one_that_fails_are_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sparse = recipe(log_every=4, checkpoint_every=100)
    train(recipe(), tmp_path / "each", device="cpu")
    each = metrics(tmp_path / "each")
    with pytest.raises(DataError, match="it has changed"):
        train(replace(sparse, data=Failing(6)), tmp_path / "data", device="cpu")
    seventh_is_infinite(monkeypatch)
    with pytest.raises(TrainingError, match="step 7: the loss or gradient is not a number"):
        train(sparse, tmp_path / "infinite", device="cpu")
    for run in ("data", "infinite"):
        found = metrics(tmp_path / run)
        assert sorted(found) == [4, 6], run
        for name in ("denoiser_loss", "encoder_loss", "gradient_norm"):
            assert found[6][name] == pytest.approx((each[5][name] + each[6][name]) / 2, abs=2e-3), (run, name)
        assert found[6]["learning_rate"] == each[6]["learning_rate"]


class Failing(Fixed):
    """Cannot be read at one step, or where it is held out if there is none."""

    def __init__(self, step: int | None = None) -> None:
        super().__init__()
        self.step = step

    def batch(self, step: int, size: int, *_: Any) -> list[Conversation]:
        if step == self.step:
            raise DataError("it has changed")
        return super().batch(step, size)

    def evaluation(self, limit: int) -> list[Conversation]:
        raise DataError("it has changed")


@pytest.mark.parametrize("kept", [7, 0])
def test_the_steps_before_data_that_cannot_be_read_are_kept(tmp_path: Path, kept: int) -> None:
    told = Told()
    with pytest.raises(DataError, match="it has changed"):
        train(replace(recipe(), data=Failing(kept)), tmp_path / "cut", device="cpu", callback=told)
    found = [path.name for path in checkpoints(tmp_path / "cut")]
    assert found == ([f"step-{number:06d}" for number in (5, kept)] if kept else [])
    assert [f"behind step {kept}, which is kept" in warning for warning in told.warnings] == [True] * bool(kept)
    whole = train(recipe(), tmp_path / "whole", device="cpu")
    assert same_files(whole, train(recipe(), tmp_path / "cut", device="cpu"))


def test_an_evaluation_that_failed_is_made_where_the_run_goes_on(tmp_path: Path) -> None:
    """So no checkpoint tells of its step as done."""
    evaluating = recipe(evaluate_every=8)
    with pytest.raises(DataError, match="it has changed"):
        train(replace(evaluating, data=Failing()), tmp_path / "cut", device="cpu")
    assert [path.name for path in checkpoints(tmp_path / "cut")] == ["step-000005"]
    whole = train(evaluating, tmp_path / "whole", device="cpu")
    assert same_files(whole, train(evaluating, tmp_path / "cut", device="cpu"))


def test_the_steps_before_a_pass_that_fails_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = step.losses
    calls: list[int] = []

    def losses(*args: Any, **options: Any) -> Any:
        calls.append(1)
        if len(calls) == 9:
            raise torch.OutOfMemoryError("no room")
        return good(*args, **options)

    monkeypatch.setattr(step, "losses", losses)
    with pytest.raises(torch.OutOfMemoryError):
        train(recipe(), tmp_path / "cut", device="cpu")
    assert checkpoints(tmp_path / "cut")[-1].name == "step-000008"


@pytest.mark.parametrize("part", ["save_folder", "write_safetensors"])
def test_a_full_disk_ends_the_run_and_leaves_no_half_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    error = OSError(28, "No space left on device")

    def fail(*args: Any, **kwargs: Any) -> None:
        raise error

    monkeypatch.setattr(checkpoint, part, fail)
    with pytest.raises(TrainingError, match=r"step 5 could not be written: .*No space left"):
        train(recipe(), tmp_path, device="cpu")
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.jsonl"]


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"steps": 0}, "steps"),
        ({"batch_size": 0}, "batch_size"),
        ({"keep_checkpoints": 0}, "keep_checkpoints"),
        ({"checkpoint_every": 0}, "checkpoint_every"),
        ({"log_every": 0}, "log_every"),
        ({"precision": "float16"}, "float16"),
        ({"self_conditioning_probability": 1.5}, "self_conditioning_probability"),
        ({"learning_rate": float("inf")}, "learning_rate"),
        ({"weight_decay": float("nan")}, "weight_decay"),
        ({"own_draft_probability": -0.1}, "own_draft_probability"),
        ({"own_draft_rounds": 0}, "own_draft_rounds"),
        ({"time_exponent": 2}, "time_exponent"),
        ({"source_probability": 2}, "source_probability"),
    ],
)
def test_impossible_settings_are_refused(changes: dict[str, Any], name: str) -> None:
    with pytest.raises(OptionError, match=name):
        recipe(**changes)


# Safety --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["model.safetensors", OPTIMIZER, STATE])
def test_a_damaged_checkpoint_is_passed_over_for_the_one_before(tmp_path: Path, name: str) -> None:
    whole = train(recipe(), tmp_path / "whole", device="cpu")
    train(recipe(), tmp_path / "cut", device="cpu", stop_at=10)
    newest = tmp_path / "cut" / "step-000010"
    (newest / name).write_bytes((newest / name).read_bytes()[:-9])
    told = Told()
    last = train(recipe(), tmp_path / "cut", device="cpu", callback=told)
    assert len(told.warnings) == 1
    assert name in told.warnings[0]
    assert told.warnings[0].endswith("going on from step-000005")
    assert told.steps[0] == (6, True)
    assert same_files(whole, last)


def test_other_data_is_refused(tmp_path: Path) -> None:
    train(recipe(steps=1), tmp_path, device="cpu")
    other = Fixed()
    other.fingerprint = "other"
    with pytest.raises(CheckpointError, match="was trained on other data, or on the same read otherwise"):
        train(replace(recipe(), data=other), tmp_path, device="cpu")
    seeded = replace(recipe(), data=other, train=replace(recipe().train, seed=5))
    with pytest.raises(CheckpointError, match=r"with other settings \(seed 0, now 5\)"):
        train(seeded, tmp_path, device="cpu")


def test_a_run_that_is_killed_loses_the_steps_since_its_checkpoint_only(tmp_path: Path) -> None:
    """A process that is killed with SIGKILL in the middle, twice, ends as one that was left alone."""
    out = tmp_path / "killed"
    kills = 0
    for _ in range(12):
        before = len(checkpoints(out)) and checkpoints(out)[-1].name
        process = start_fork(go_on, str(out), recipe.__name__, {"checkpoint_every": 2})
        while process.is_alive():
            now = len(checkpoints(out)) and checkpoints(out)[-1].name
            if now != before and kills < 2:
                process.kill()
                kills += 1
            time.sleep(0.002)
        if process.exitcode == 0:
            break
        assert process.exitcode == -signal.SIGKILL
    assert kills
    whole = train(recipe(checkpoint_every=2), tmp_path / "whole", device="cpu")
    assert same_files(whole, checkpoints(out)[-1])
    assert losses_of(out) == losses_of(tmp_path / "whole")
    steps = [json.loads(line)["step"] for line in (out / "metrics.jsonl").read_text("utf-8").splitlines()]
    assert steps == list(range(1, 13)), "each step is told once"
    assert not list(out.glob(".step-*"))


def test_what_a_run_goes_on_from_is_never_removed(tmp_path: Path) -> None:
    """Nor is a damaged checkpoint of a later step counted among the newest."""
    tiny = recipe(checkpoint_every=5, keep_checkpoints=1)
    train(tiny, tmp_path, device="cpu", stop_at=5)
    shutil.copytree(tmp_path / "step-000005", tmp_path / "step-000010")
    (tmp_path / "step-000010" / "model.safetensors").write_bytes(b"cut")
    assert train(tiny, tmp_path, device="cpu", stop_at=8) == tmp_path / "step-000008"
    assert [path.name for path in checkpoints(tmp_path)] == ["step-000008"]


def test_files_may_be_read_by_whoever_may_read_new_ones_and_copies_beside_them_are_no_checkpoints(
    tmp_path: Path,
) -> None:
    last = train(recipe(steps=2), tmp_path, device="cpu")
    shutil.copytree(last, last.with_name(last.name + ".bak"))
    (tmp_path / "new").touch()
    modes = {(tmp_path / "new").stat().st_mode} | {path.stat().st_mode for path in last.iterdir()}
    assert len(modes) == 1
    assert checkpoints(tmp_path) == [last]


def test_a_config_that_is_damaged_is_passed_over_with_its_checkpoint(tmp_path: Path) -> None:
    train(recipe(steps=4, checkpoint_every=2, keep_checkpoints=2), tmp_path, device="cpu")
    first, last = checkpoints(tmp_path)
    config = json.loads((last / "config.json").read_text())
    config["text_config"]["hidden_size"] = "x"
    (last / "config.json").write_text(json.dumps(config))
    told = Told()
    train(recipe(steps=6, checkpoint_every=2, keep_checkpoints=2), tmp_path, device="cpu", callback=told)
    assert f"going on from {first.name}" in told.warnings[0]


def test_checkpoints_are_in_order_of_their_numbers(tmp_path: Path) -> None:
    for name in ("step-1000000", "step-999999", "step-000007"):
        (tmp_path / name).mkdir()
        (tmp_path / name / STATE).write_text("{}", "utf-8")
    assert [path.name for path in checkpoints(tmp_path)] == ["step-000007", "step-999999", "step-1000000"]


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 1},
        {"batch_size": 7},
        {"own_draft_probability": 0.5},
        {"on_policy": True},
        {"time_exponent": 0.5},
        {"source_probability": 0.5},
        {"self_conditioning_probability": 0.75},
        {"canvases_per_example": 2},
        {"prompt_loss": True},
    ],
)
def test_other_settings_are_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    train(recipe(steps=1), tmp_path, device="cpu")
    with pytest.raises(CheckpointError, match=f"with other settings .{next(iter(changes))}"):
        train(recipe(**changes), tmp_path, device="cpu")


def test_other_passes_are_refused_in_words(tmp_path: Path) -> None:
    train(recipe(steps=1), tmp_path, device="cpu")
    with pytest.raises(CheckpointError, match="was trained in canvases, and not in the causal pass alone"):
        train(recipe(denoiser_loss_weight=0.0), tmp_path, device="cpu")


def test_a_run_is_not_resumed_from_other_weights(tmp_path: Path) -> None:
    """The same bytes in another folder are the same weights."""
    start, moved = tmp_path / "start", tmp_path / "moved"
    save_folder(random_model(SHAPE, seed=3), start)
    tiny = replace(recipe(steps=2), start=start, base=str(start))
    train(tiny, tmp_path / "run", device="cpu", stop_at=1)
    shutil.copytree(start, moved)
    save_folder(random_model(SHAPE, seed=4), start)
    with pytest.raises(CheckpointError, match="from other base weights"):
        train(tiny, tmp_path / "run", device="cpu")
    with pytest.raises(CheckpointError, match=f"was trained from {start}, and not from another"):
        train(replace(tiny, base="another"), tmp_path / "run", device="cpu")
    last = train(replace(tiny, start=moved, base=str(moved)), tmp_path / "run", device="cpu")
    assert last.name == "step-000002"


def test_a_checkpoint_from_before_a_setting_was_recorded_is_resumed(tmp_path: Path) -> None:
    save_folder(random_model(SHAPE, seed=3), tmp_path / "start")
    tiny = replace(recipe(steps=2), start=tmp_path / "start")
    last = train(tiny, tmp_path / "run", device="cpu", stop_at=1)
    state = json.loads((last / STATE).read_text("utf-8"))
    for name in (WEIGHTS, "canvases_per_example", "prompt_loss"):
        del state[name]
    (last / STATE).write_text(json.dumps(state), "utf-8")
    assert train(tiny, tmp_path / "run", device="cpu").name == "step-000002"


def test_of_a_large_file_a_changed_matrix_changes_the_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "_WHOLE", 0)
    monkeypatch.setattr(identity, "_STRIDE", 2**14)
    tensors = {name: torch.randn(256, 256) for name in "abc"}
    digests = set()
    for name in (*"abc", "none"):
        save_file({key: value + (key == name) for key, value in tensors.items()}, tmp_path / "model.safetensors")
        digests |= {identity.digest_weights(tmp_path), identity.digest_weights(tmp_path)}
    assert len(digests) == 4
