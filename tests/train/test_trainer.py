"""The training loop: it learns, it resumes bit by bit, and its checkpoints are whole or not there."""

import itertools
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
from oracle import Shape, random_model
from safetensors.torch import load_file, save_file

from gesso.config import GenerationConfig, LoraConfig
from gesso.engine.engine import Engine
from gesso.errors import CheckpointError, ConfigError, TrainingError
from gesso.models.adapters import CONFIG as ADAPTER_CONFIG
from gesso.models.adapters import WEIGHTS as ADAPTER_WEIGHTS
from gesso.models.adapters import load_adapter
from gesso.models.diffusion_gemma import DiffusionGemma, initialise
from gesso.models.loading import load_folder, save_folder
from gesso.text.tokenizer import TokenIds
from gesso.train import checkpoint, trainer
from gesso.train.batch import Conversation
from gesso.train.checkpoint import OPTIMIZER, STATE, checkpoints
from gesso.train.config import NewText, Recipe, TrainConfig
from gesso.train.plot import plot_losses
from gesso.train.records import EvaluationRecord, Sample, Watcher
from gesso.train.trainer import learning_rate


def train(tiny: Recipe, out: Path, **options: Any) -> Path:
    """The newest checkpoint of a run."""
    return trainer.train(tiny, out, **options).last


SHAPE = Shape(layers="sf", vocab=40, hidden=32, mlp=48, window=6, canvas=8, experts=3, top_k=1, expert_size=16)


class Fixed:
    """The same few conversations at every step, in another order each."""

    def __init__(self, examples: int = 8) -> None:
        generator = torch.Generator().manual_seed(0)
        rows = torch.randint(2, SHAPE.vocab, (examples, 14), generator=generator).tolist()
        self.conversations = [Conversation([2 + i, *row[:3]], row[3 : 8 + i % 6]) for i, row in enumerate(rows)]

    fingerprint = "fixed"

    def evaluation(self, limit: int) -> list[Conversation]:
        return self.conversations[:limit]

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
        text=NewText(tokenizer, "{{ messages }}", {"eos_token": "<eos>"}),
        data=Fixed(),
    )


def metrics(out: Path) -> dict[int, dict[str, float]]:
    lines = (out / "metrics.jsonl").read_text("utf-8").splitlines()
    return {record["step"]: record for record in map(json.loads, lines) if "seconds" in record}


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


class CutAt(Watcher):
    """Kills the run after a step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def stepped(self, step: int, record: object) -> None:  # noqa: ARG002
        if step == self.step:
            raise Cut


class Told(Watcher):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.steps: list[tuple[int, bool]] = []
        self.looks: list[EvaluationRecord] = []
        self.samples: list[Sample] = []
        self.warnings: list[str] = []

    def stepped(self, step: int, record: object) -> None:
        self.steps.append((step, record is not None))

    def evaluated(self, record: EvaluationRecord) -> None:
        self.looks.append(record)

    def sampled(self, sample: Sample) -> None:
        self.samples.append(sample)

    def warned(self, message: str) -> None:
        self.warnings.append(message)


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
        train(tiny, tmp_path / "parts", device="cpu", watcher=CutAt(8))
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
    told = Told()
    assert train(tiny, tmp_path, device="cpu", watcher=told) == last
    assert told.steps == []
    assert (last / "model.safetensors").read_bytes() == before


def test_a_run_that_is_out_of_time_leaves_a_checkpoint(tmp_path: Path) -> None:
    assert train(recipe(), tmp_path, device="cpu", max_minutes=0.0).name == "step-000001"


def test_a_run_that_is_told_to_stop_leaves_a_checkpoint_and_goes_on_as_if_it_had_not(tmp_path: Path) -> None:
    whole = train(recipe(), tmp_path / "whole", device="cpu")
    told = iter([False, False, True])
    outcome = trainer.train(recipe(), tmp_path / "parts", device="cpu", should_stop=lambda: next(told))
    assert (outcome.reason, outcome.last.name) == ("interrupted", "step-000003")
    assert same_files(whole, train(recipe(), tmp_path / "parts", device="cpu"))


def test_every_step_is_told(tmp_path: Path) -> None:
    told = Told()
    train(recipe(steps=5, log_every=2), tmp_path, device="cpu", watcher=told)
    assert told.steps == [(1, False), (2, True), (3, False), (4, True), (5, True)]


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

    def losses(*args: Any, **options: Any) -> Any:
        calls.append(1)
        found = good(*args, **options)
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


# Less memory, same run -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes", [{"micro_batch_size": 2}, {"micro_batch_size": 5}, {"gradient_checkpointing": True}]
)
def test_micro_batches_and_checkpointing_change_memory_only(tmp_path: Path, changes: dict[str, Any]) -> None:
    train(recipe(steps=6), tmp_path / "plain", device="cpu")
    train(recipe(steps=6, **changes), tmp_path / "other", device="cpu")
    plain, other = losses_of(tmp_path / "plain"), losses_of(tmp_path / "other")
    for step, expected in plain.items():
        assert other[step] == pytest.approx(expected, rel=2e-3), step


# Adapters ------------------------------------------------------------------------------------------------------


def adapter_recipe(start: Path, quantize: Any = None, **changes: Any) -> Recipe:
    """A tiny run that trains deltas over the checkpoint in `start`, which is written when it is not there."""
    if not start.exists():
        save_folder(random_model(SHAPE, seed=3), start)
    config = {"adapter": LoraConfig(rank=4, alpha=8.0, targets=("*",)), "quantize": quantize, "base": "tiny"}
    return replace(recipe(**changes), start=start, **config)


@pytest.mark.parametrize("quantize", [None, "nf4"])
def test_an_adapter_run_trains_and_keeps_the_deltas_alone(tmp_path: Path, quantize: Any) -> None:
    tiny = adapter_recipe(tmp_path / "start", quantize)
    whole = train(tiny, tmp_path / "whole", device="cpu")
    assert sorted(path.name for path in whole.iterdir()) == sorted([ADAPTER_CONFIG, ADAPTER_WEIGHTS, OPTIMIZER, STATE])
    train(tiny, tmp_path / "parts", device="cpu", stop_at=5)
    last = train(tiny, tmp_path / "parts", device="cpu")
    for name in (ADAPTER_WEIGHTS, OPTIMIZER):
        left, right = load_file(whole / name), load_file(last / name)
        assert left.keys() == right.keys()
        assert all(torch.equal(left[key], right[key]) for key in left), name
    assert losses_of(tmp_path / "parts") == losses_of(tmp_path / "whole")
    moved = load_file(whole / ADAPTER_WEIGHTS)
    assert all(tensor.any() for tensor in moved.values()), "every delta has been trained"


def test_an_adapter_of_another_rank_is_refused(tmp_path: Path) -> None:
    tiny = adapter_recipe(tmp_path / "start", steps=1)
    train(tiny, tmp_path / "run", device="cpu")
    with pytest.raises(CheckpointError, match="holds an adapter of rank 4"):
        train(replace(tiny, adapter=LoraConfig(rank=2, targets=("*",))), tmp_path / "run", device="cpu")


class ByHeart(Fixed):
    """Eight answers of one canvas that nothing but the prompt tells."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(1)
        rows = torch.randint(12, 36, (8, 7), generator=generator).tolist()
        self.conversations = [Conversation([2, 3 + i], [*row, 1]) for i, row in enumerate(rows)]


@pytest.mark.parametrize("mode", ["full", "lora", "qlora"])
def test_eight_examples_are_learned_by_heart_and_written_back(tmp_path: Path, mode: str) -> None:
    """In every mode the loss goes to nothing, and the model then writes each answer from its prompt."""
    start = DiffusionGemma(SHAPE.config())
    initialise(start, 0)
    with torch.no_grad():
        start.norm.weight.fill_(4.0)  # adapters cannot sharpen what a random model says otherwise
    save_folder(start, tmp_path / "start")
    deltas = None if mode == "full" else LoraConfig(rank=16, alpha=32.0, targets=("*",))
    steps, rate = (250, 1e-2) if mode == "full" else (400, 2e-2)
    settings = {"batch_size": 8, "canvases_per_example": 6, "learning_rate": rate, "warmup_steps": 20, "beta2": 0.99}
    tiny = replace(
        recipe(steps=steps, log_every=50, checkpoint_every=1000, encoder_loss_weight=0.0, **settings),
        start=tmp_path / "start",
        data=ByHeart(),
        adapter=deltas,
        quantize="nf4" if mode == "qlora" else None,
    )
    last = train(tiny, tmp_path / "run", device="cpu")
    assert metrics(tmp_path / "run")[steps]["denoiser_loss"] < 0.04
    model = load_folder(tmp_path / "start" if deltas else last, "cpu", quantize="nf4" if mode == "qlora" else None)
    if deltas:
        load_adapter(model, last)
    engine = Engine(model, TokenIds(), None, GenerationConfig(eos_token_ids=(1,), max_denoising_steps=24))
    for conversation in ByHeart().conversations:
        result = engine.generate(list(conversation.prompt), max_new_tokens=8, seed=0)
        assert list(result.token_ids) == list(conversation.answer)


# The held-out loss ---------------------------------------------------------------------------------------------


def test_the_held_out_loss_is_looked_at_and_the_best_checkpoint_is_kept(tmp_path: Path) -> None:
    told = Told()
    tiny = recipe(steps=12, evaluate_every=2, checkpoint_every=100, keep_checkpoints=1)
    outcome = trainer.train(tiny, tmp_path, device="cpu", watcher=told)
    assert [look.step for look in told.looks] == [2, 4, 6, 8, 10, 12]
    best = min(told.looks, key=lambda look: look.held_out_denoiser_loss)
    assert outcome.best == tmp_path / f"step-{best.step:06d}"
    assert outcome.best.exists()
    assert outcome.last.name == "step-000012"
    assert set(checkpoints(tmp_path)) == {outcome.best, outcome.last}
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text("utf-8").splitlines()]
    assert sum("held_out_denoiser_loss" in line for line in lines) == 6


def test_looking_changes_nothing(tmp_path: Path) -> None:
    plain = train(recipe(), tmp_path / "plain", device="cpu")
    looked = train(recipe(evaluate_every=3), tmp_path / "looked", device="cpu")
    assert same_files(plain, looked)


class Worsening(Fixed):
    """Held-out answers that training makes less likely."""

    def evaluation(self, limit: int) -> list[Conversation]:
        generator = torch.Generator().manual_seed(9)
        rows = torch.randint(2, SHAPE.vocab, (8, 12), generator=generator).tolist()
        return [Conversation(row[:4], row[4:]) for row in rows][:limit]


def test_patience_ends_a_run_that_no_longer_gets_better(tmp_path: Path) -> None:
    settings = {"learning_rate": 3e-2, "warmup_steps": 0, "evaluate_every": 2, "patience": 3, "steps": 60}
    tiny = replace(recipe(**settings), data=Worsening())
    told = Told()
    outcome = trainer.train(tiny, tmp_path / "whole", device="cpu", watcher=told)
    assert outcome.reason == "patience"
    assert [look.best for look in told.looks[-3:]] == [False] * 3
    assert outcome.last.name == f"step-{told.looks[-1].step:06d}"
    assert trainer.train(tiny, tmp_path / "whole", device="cpu").reason == "patience", "it does not start again"
    # Patience is counted over a resumption.
    trainer.train(tiny, tmp_path / "parts", device="cpu", stop_at=told.looks[-1].step - 3)
    assert trainer.train(tiny, tmp_path / "parts", device="cpu").last.name == outcome.last.name


# Safety --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["model.safetensors", OPTIMIZER, STATE])
def test_a_damaged_checkpoint_is_passed_over_for_the_one_before(tmp_path: Path, name: str) -> None:
    whole = train(recipe(), tmp_path / "whole", device="cpu")
    train(recipe(), tmp_path / "cut", device="cpu", stop_at=10)
    newest = tmp_path / "cut" / "step-000010"
    (newest / name).write_bytes((newest / name).read_bytes()[:-9])
    told = Told()
    last = train(recipe(), tmp_path / "cut", device="cpu", watcher=told)
    assert len(told.warnings) == 1
    assert name in told.warnings[0]
    assert told.warnings[0].endswith("going on from step-000005")
    assert told.steps[0] == (6, True)
    assert same_files(whole, last)


def test_other_data_is_refused(tmp_path: Path) -> None:
    train(recipe(steps=1), tmp_path, device="cpu")
    other = Fixed()
    other.fingerprint = "other"
    with pytest.raises(CheckpointError, match="was trained on other data"):
        train(replace(recipe(), data=other), tmp_path, device="cpu")


def test_a_run_that_is_killed_loses_the_steps_since_its_checkpoint_only(tmp_path: Path) -> None:
    """A process that is killed with SIGKILL in the middle, many times, ends as one that was left alone."""
    script = (
        "import sys; from pathlib import Path; from train import test_trainer;"
        "test_trainer.train(test_trainer.recipe(checkpoint_every=2), Path(sys.argv[1]), device='cpu')"
    )
    out = tmp_path / "killed"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    kills = 0
    for _ in range(12):
        process = subprocess.Popen([sys.executable, "-c", script, str(out)], env=environment)
        before = len(checkpoints(out)) and checkpoints(out)[-1].name
        while process.poll() is None:
            now = len(checkpoints(out)) and checkpoints(out)[-1].name
            if now != before and kills < 3:
                process.kill()
                kills += 1
                process.wait()
            time.sleep(0.002)
        if process.returncode == 0:
            break
    assert kills
    whole = train(recipe(checkpoint_every=2), tmp_path / "whole", device="cpu")
    assert same_files(whole, checkpoints(out)[-1])
    assert losses_of(out) == losses_of(tmp_path / "whole")


# What it shows -------------------------------------------------------------------------------------------------


def test_samples_are_answered_on_the_way_and_change_nothing(tmp_path: Path) -> None:
    plain = train(recipe(steps=6), tmp_path / "plain", device="cpu")
    told = Told()
    tiny = recipe(steps=6, sample_every=3, sample_prompts=("a", "aa"))
    text = replace(tiny, text=NewText(tokenizer, "{% for m in messages %}a{% endfor %}", {"eos_token": "<eos>"}))
    last = train(text, tmp_path / "sampled", device="cpu", watcher=told)
    assert [(sample.step, sample.prompt) for sample in told.samples] == [(3, "a"), (3, "aa"), (6, "a"), (6, "aa")]
    assert all(sum(sample.denoising_steps) >= 1 for sample in told.samples)
    assert load_file(last / "model.safetensors").keys() == load_file(plain / "model.safetensors").keys()
    assert same_files(plain, last)
    lines = (tmp_path / "sampled" / "samples.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line)["step"] for line in lines] == [3, 3, 6, 6]


def test_the_loss_plot_is_a_picture(tmp_path: Path) -> None:
    train(recipe(steps=6, evaluate_every=2), tmp_path, device="cpu")
    plot_losses(tmp_path / "metrics.jsonl", tmp_path / "loss.png")
    assert (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(TrainingError, match="told nothing yet"):
        plot_losses(tmp_path / "none.jsonl", tmp_path / "loss.png")


# Several processes ---------------------------------------------------------------------------------------------


def run_team(out: Path, processes: int, stop_at: int, **changes: Any) -> None:
    """The tiny recipe under `torchrun`."""
    script = out.parent / "team.py"
    script.write_text(
        "import json, sys; from pathlib import Path; from train import test_trainer;"
        "test_trainer.train(test_trainer.recipe(**json.loads(sys.argv[2])), Path(sys.argv[1]), device='cpu',"
        " stop_at=int(sys.argv[3]))",
        encoding="utf-8",
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={processes}", "--standalone",
         str(script), str(out), json.dumps(changes), str(stop_at)],
        env=environment, check=True, capture_output=True,
    )  # fmt: skip


def test_two_processes_make_the_same_run_as_one(tmp_path: Path) -> None:
    """The same losses on the same global batch, also when a run of two goes on as one and back."""
    settings = {"batch_size": 5, "evaluate_every": 4, "learning_rate": 1e-3}
    train(recipe(**settings), tmp_path / "one", device="cpu")
    run_team(tmp_path / "two", 2, 4, **settings)
    train(recipe(**settings), tmp_path / "two", device="cpu", stop_at=8)
    run_team(tmp_path / "two", 2, 12, **settings)
    one, two = metrics(tmp_path / "one"), metrics(tmp_path / "two")
    assert one.keys() == two.keys()
    for step, expected in losses_of(tmp_path / "one").items():
        assert losses_of(tmp_path / "two")[step] == pytest.approx(expected, rel=2e-3), step
    left, right = (load_file(tmp_path / name / "step-000012" / "model.safetensors") for name in ("one", "two"))
    for name, tensor in left.items():
        torch.testing.assert_close(right[name], tensor, atol=2e-3, rtol=0.02, msg=name)
