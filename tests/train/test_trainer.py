"""The training loop: it learns, it resumes bit by bit, and its checkpoints are whole or not there."""

import itertools
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
from oracle import Shape, random_model
from safetensors.torch import load_file, save_file

from gesso.config import GenerationConfig
from gesso.errors import CheckpointError, ConfigError, TrainingError
from gesso.models.loading import load_folder, save_folder
from gesso.train import checkpoint, trainer
from gesso.train.batch import Conversation
from gesso.train.checkpoint import OPTIMIZER, STATE, checkpoints
from gesso.train.config import Recipe, TrainConfig
from gesso.train.trainer import learning_rate, train

SHAPE = Shape(layers="sf", vocab=40, hidden=32, mlp=48, window=6, canvas=8, experts=3, top_k=1, expert_size=16)


class Fixed:
    """The same few conversations at every step, in another order each."""

    def __init__(self, examples: int = 8) -> None:
        generator = torch.Generator().manual_seed(0)
        rows = torch.randint(2, SHAPE.vocab, (examples, 14), generator=generator).tolist()
        self.conversations = [Conversation([2 + i, *row[:3]], row[3 : 8 + i % 6]) for i, row in enumerate(rows)]

    def batch(self, step: int, size: int, *_: Any) -> list[Conversation]:
        order = torch.randperm(len(self.conversations), generator=torch.Generator().manual_seed(step))
        return [self.conversations[int(order[i % len(order)])] for i in range(size)]


def tokenizer() -> tokenizers.Tokenizer:
    return tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0}, unk_token="a"))


def recipe(**changes: Any) -> Recipe:
    config: dict[str, Any] = {
        "steps": 12,
        "batch_size": 6,
        "learning_rate": 5e-3,
        "warmup_steps": 3,
        "precision": "float32",
        "checkpoint_every": 5,
        "log_every": 1,
    }
    return Recipe(
        name="tiny",
        model=SHAPE.config(),
        generation=GenerationConfig(max_denoising_steps=9),
        train=TrainConfig(**(config | changes)),
        tokenizer=tokenizer,
        chat_template="{{ messages }}",
        tokenizer_config={"eos_token": "<eos>"},
        data=Fixed(),
    )


def metrics(out: Path) -> dict[int, dict[str, float]]:
    lines = (out / "metrics.jsonl").read_text("utf-8").splitlines()
    return {record["step"]: record for record in map(json.loads, lines)}


def losses_of(out: Path) -> dict[int, tuple[float, float, float]]:
    return {
        step: (record["denoiser_loss"], record["encoder_loss"], record["gradient_norm"])
        for step, record in metrics(out).items()
    }


def same_files(a: Path, b: Path) -> bool:
    """Weights and optimiser state, bit by bit."""
    for name in ("model.safetensors", OPTIMIZER):
        left, right = load_file(a / name), load_file(b / name)
        if left.keys() != right.keys() or not all(torch.equal(left[key], right[key]) for key in left):
            return False
    return True


class Cut(Exception):
    """A run that is killed."""


def cut_at(step: int) -> Any:
    def on_step(done: int, record: object) -> None:
        if done == step:
            raise Cut

    return on_step


# It learns ------------------------------------------------------------------------------------------------------


def test_it_learns_eight_examples_by_heart(tmp_path: Path) -> None:
    long = recipe(steps=120, batch_size=8, learning_rate=2e-2, warmup_steps=10, log_every=20, checkpoint_every=1000)
    train(long, tmp_path, device="cpu")
    found = metrics(tmp_path)
    assert found[20]["denoiser_loss"] > 2.0
    assert found[120]["denoiser_loss"] < 1.1
    assert found[20]["encoder_loss"] > 1.0
    assert found[120]["encoder_loss"] < 0.15
    assert found[120]["learning_rate"] < 1e-4
    assert all(record["tokens_per_second"] > 0 for record in found.values())


def test_the_schedule() -> None:
    config = TrainConfig(steps=100, learning_rate=1.0, warmup_steps=10)
    rates = [learning_rate(config, step) for step in range(101)]
    assert rates[:10] == pytest.approx([0.1 * (i + 1) for i in range(10)])
    assert rates[10] == 1.0
    assert rates[55] == pytest.approx(0.5)
    assert rates[100] == pytest.approx(0.0, abs=1e-12)
    assert all(a >= b for a, b in itertools.pairwise(rates[10:]))
    assert learning_rate(TrainConfig(steps=5, learning_rate=1.0, warmup_steps=0), 0) == 1.0


def test_decay_leaves_norms_alone() -> None:
    model = random_model(SHAPE)
    optimizer = trainer.make_optimizer(model, TrainConfig(steps=1, weight_decay=0.1))
    for (name, parameter), group in zip(model.named_parameters(), optimizer.param_groups, strict=True):
        assert group["params"][0] is parameter
        assert group["weight_decay"] == (0.1 if parameter.dim() > 1 else 0.0), name


def test_a_run_can_start_from_a_checkpoint(tmp_path: Path) -> None:
    start = random_model(SHAPE, seed=5)
    save_folder(start, tmp_path / "start")
    still = replace(recipe(steps=1, learning_rate=0.0), start=tmp_path / "start")
    last = train(still, tmp_path / "run", device="cpu")
    after = load_folder(last, "cpu").state_dict()
    assert all(torch.equal(tensor, after[name]) for name, tensor in start.state_dict().items())
    moved = train(replace(recipe(steps=1), start=tmp_path / "start"), tmp_path / "other", device="cpu")
    assert not torch.equal(load_folder(moved, "cpu").vocabulary.weight, start.vocabulary.weight)


# It resumes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_resumed_run_is_the_same_run(tmp_path: Path, precision: str) -> None:
    tiny = recipe(precision=precision)
    whole = train(tiny, tmp_path / "whole", device="cpu")
    assert whole.name == "step-000012"
    # Ended on purpose at a step that is no multiple of anything, then killed between checkpoints, then finished.
    assert train(tiny, tmp_path / "parts", device="cpu", stop_at=3).name == "step-000003"
    with pytest.raises(Cut):
        train(tiny, tmp_path / "parts", device="cpu", on_step=cut_at(8))
    assert [path.name for path in checkpoints(tmp_path / "parts")] == ["step-000003", "step-000005"]
    last = train(tiny, tmp_path / "parts", device="cpu")
    assert last.name == whole.name
    assert same_files(whole, last)
    assert losses_of(tmp_path / "parts") == losses_of(tmp_path / "whole")


def test_steps_differ_and_runs_of_another_seed_do(tmp_path: Path) -> None:
    train(recipe(steps=2), tmp_path / "a", device="cpu")
    train(recipe(steps=2, seed=1), tmp_path / "b", device="cpu")
    a, b = losses_of(tmp_path / "a"), losses_of(tmp_path / "b")
    assert len({*a.values(), *b.values()}) == 4


def test_means_of_a_resumed_run_are_over_the_steps_it_ran(tmp_path: Path) -> None:
    every = recipe(steps=8, checkpoint_every=2)
    train(every, tmp_path / "each", device="cpu")
    sparse = replace(every, train=replace(every.train, log_every=4))
    train(sparse, tmp_path / "sparse", device="cpu", stop_at=6)
    train(sparse, tmp_path / "sparse", device="cpu")
    each, found = metrics(tmp_path / "each"), metrics(tmp_path / "sparse")
    assert sorted(found) == [4, 6, 8]
    for step, steps in ((4, (1, 2, 3, 4)), (6, (5, 6)), (8, (7, 8))):
        for name in ("denoiser_loss", "encoder_loss", "gradient_norm"):
            mean = sum(each[s][name] for s in steps) / len(steps)
            assert found[step][name] == pytest.approx(mean, abs=2e-3), (step, name)


def test_a_finished_run_does_nothing_more(tmp_path: Path) -> None:
    tiny = recipe(steps=2)
    last = train(tiny, tmp_path, device="cpu")
    before = (last / "model.safetensors").read_bytes()
    called: list[int] = []
    assert train(tiny, tmp_path, device="cpu", on_step=lambda done, record: called.append(done)) == last
    assert called == []
    assert (last / "model.safetensors").read_bytes() == before


def test_a_run_that_is_out_of_time_leaves_a_checkpoint(tmp_path: Path) -> None:
    assert train(recipe(), tmp_path, device="cpu", max_minutes=0.0).name == "step-000001"


def test_every_step_is_told(tmp_path: Path) -> None:
    told: list[tuple[int, bool]] = []
    train(
        recipe(steps=5, log_every=2),
        tmp_path,
        device="cpu",
        on_step=lambda done, record: told.append((done, record is not None)),
    )
    assert told == [(1, False), (2, True), (3, False), (4, True), (5, True)]


# Its checkpoints ------------------------------------------------------------------------------------------------


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


# What goes wrong ------------------------------------------------------------------------------------------------


def test_a_loss_that_is_not_a_number_ends_the_run(tmp_path: Path) -> None:
    broken = random_model(SHAPE)
    with torch.no_grad():
        broken.norm.weight[0] = float("nan")
    save_folder(broken, tmp_path / "start")
    with pytest.raises(TrainingError, match="step 1: the loss or gradient is not a number"):
        train(replace(recipe(), start=tmp_path / "start"), tmp_path / "run", device="cpu")
    assert checkpoints(tmp_path / "run") == []


def test_the_last_good_checkpoint_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = trainer.losses
    calls: list[int] = []

    def losses(*args: Any) -> Any:
        calls.append(1)
        found = good(*args)
        return replace(found, denoiser=found.denoiser * float("inf")) if len(calls) == 7 else found

    monkeypatch.setattr(trainer, "losses", losses)
    with pytest.raises(TrainingError, match=r"step 7: .*step-000005"):
        train(recipe(), tmp_path, device="cpu")
    assert [path.name for path in checkpoints(tmp_path)] == ["step-000005"]


@pytest.mark.parametrize("part", ["save_folder", "save_file"])
def test_a_full_disk_ends_the_run_and_leaves_no_half_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    from safetensors import SafetensorError

    error = OSError(28, "No space left on device") if part == "save_folder" else SafetensorError("No space left")

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
    ],
)
def test_impossible_settings_are_refused(changes: dict[str, Any], name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        recipe(**changes)
