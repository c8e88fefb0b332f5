"""The training loop: it learns, it resumes bit by bit, and it tells what it does."""

import contextlib
import errno
import itertools
import json
import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest
import torch
from oracle import random_model
from safetensors.torch import load_file

from gesso.engine.engine import Engine
from gesso.errors import OptionError, TextError, TrainingError
from gesso.models.loading import load_folder
from gesso.models.saving import save_folder
from gesso.nn.denormals import are_flushed
from gesso.train import trainer
from gesso.train.batch import Conversation
from gesso.train.checkpoint import STATE, checkpoints
from gesso.train.config import TrainConfig
from gesso.train.plot import plot_losses
from gesso.train.records import Record, TrainingCallback, truncate_records
from gesso.train.samples import answer_prompts
from gesso.train.step import learning_rate
from gesso.train.text_files import NewText
from train.runs import SHAPE, Cut, CutAt, Fixed, Told, losses_of, metrics, recipe, same_files, tokenizer, train

# It learns -----------------------------------------------------------------------------------------------------


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


def test_the_schedule_along_the_time() -> None:
    config = TrainConfig(steps=100, learning_rate=1.0, warmup_steps=10, within_minutes=5.0)
    assert learning_rate(config, 1, spent=0.045) == pytest.approx(0.55), "warmed up along the time, too"
    assert learning_rate(config, 1, spent=0.0999) == 1.0
    assert learning_rate(config, 20, spent=0.55) == pytest.approx(0.5)
    assert learning_rate(config, 55, spent=0.1) == pytest.approx(0.5), "where the steps are further than the time"
    assert learning_rate(config, 20, spent=1.2) == pytest.approx(0.0, abs=1e-12)
    with pytest.raises(OptionError, match=r"^within_minutes must be a finite number, got nan$"):
        TrainConfig(steps=1, within_minutes=float("nan"))


def test_a_run_ends_with_its_time_and_is_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shares = iter([0.0, 0.25, 0.5, 1.0])
    monkeypatch.setattr("gesso.train.clock.Clock.spent", lambda clock: next(shares))
    timed = recipe(within_minutes=5.0, warmup_steps=0, learning_rate=1e-3, evaluate_every=100)
    outcome = trainer.train(timed, tmp_path, device="cpu", callback=(told := Told()))
    assert (outcome.reason, outcome.last.name) == ("within", "step-000003")
    rates = [record["learning_rate"] for record in metrics(tmp_path).values() if "learning_rate" in record]
    assert rates == pytest.approx([1e-3, 1e-3 * 0.5 * (1 + math.cos(math.pi / 4)), 0.5e-3])
    assert len(told.looks) == 1, "as at the last step"


def test_the_time_of_a_run_goes_on_with_it(tmp_path: Path) -> None:
    timed = recipe(within_minutes=1e6)
    train(timed, tmp_path, device="cpu", stop_at=2)
    before = json.loads((tmp_path / "step-000002" / STATE).read_text("utf-8"))["seconds"]
    last = train(timed, tmp_path, device="cpu", stop_at=4)
    assert 0 < before < json.loads((last / STATE).read_text("utf-8"))["seconds"]
    over = trainer.train(recipe(within_minutes=before / 120), tmp_path, device="cpu")
    assert (over.reason, over.last) == ("within", last)


def test_a_run_can_start_from_a_checkpoint(tmp_path: Path) -> None:
    start = random_model(SHAPE, seed=5)
    save_folder(start, tmp_path / "start")
    still = replace(recipe(steps=1, learning_rate=0.0), start=tmp_path / "start")
    last = train(still, tmp_path / "run", device="cpu")
    after = load_folder(last, "cpu").state_dict()
    assert all(torch.equal(tensor, after[name]) for name, tensor in start.state_dict().items())
    moved = train(replace(recipe(steps=1), start=tmp_path / "start"), tmp_path / "other", device="cpu")
    assert not torch.equal(load_folder(moved, "cpu").vocabulary.weight, start.vocabulary.weight)


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_the_causal_pass_can_learn_alone(tmp_path: Path, optimizer: str) -> None:
    alone = recipe(steps=4, denoiser_loss_weight=0.0, optimizer=optimizer)
    whole = train(alone, tmp_path / "whole", device="cpu")
    for step in metrics(tmp_path / "whole").values():
        assert step["denoiser_loss"] == 0 < step["encoder_loss"]
    train(alone, tmp_path / "parts", device="cpu", stop_at=2)
    assert same_files(whole, train(alone, tmp_path / "parts", device="cpu"))
    with pytest.raises(OptionError, match="both 0: nothing would be learned"):
        TrainConfig(steps=1, denoiser_loss_weight=0.0, encoder_loss_weight=0.0)


# It resumes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_resumed_run_is_the_same_run(tmp_path: Path, precision: str) -> None:
    tiny = recipe(precision=precision)
    whole = train(tiny, tmp_path / "whole", device="cpu")
    assert whole.name == "step-000012"
    # Ended on purpose at a step that is no multiple of anything, then killed between checkpoints, then finished.
    assert train(tiny, tmp_path / "parts", device="cpu", stop_at=3).name == "step-000003"
    with pytest.raises(Cut):
        train(tiny, tmp_path / "parts", device="cpu", callback=CutAt(8))
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


@pytest.mark.parametrize("why", ["minutes", "interrupted", "patience"])
def test_what_was_learned_before_an_early_end_is_recorded(tmp_path: Path, why: str) -> None:
    settings: dict[str, Any] = {"steps": 8, "checkpoint_every": 100}
    train(recipe(**settings), tmp_path / "each", device="cpu")
    sparse = recipe(**settings, log_every=4)
    told, cut = iter([False] * 5 + [True]), tmp_path / "cut"
    if why == "patience":
        sparse = replace(sparse, data=Worsening())
        still = {"evaluate_every": 1, "learning_rate": 0.0, "patience": 5}
        outcome = trainer.train(replace(sparse, train=replace(sparse.train, **still)), cut, device="cpu")
    elif why == "minutes":
        outcome = trainer.train(sparse, cut, device="cpu", max_minutes=0.0)
    else:
        outcome = trainer.train(sparse, cut, device="cpu", should_stop=lambda: next(told))
    ended = 1 if why == "minutes" else 6
    assert (outcome.reason, outcome.last.name) == (why, f"step-{ended:06d}")
    assert sorted(metrics(cut)) == ([1] if why == "minutes" else [4, 6])
    if why == "patience":
        return
    train(sparse, cut, device="cpu")
    each, found = metrics(tmp_path / "each"), metrics(cut)
    assert sorted(found) == ([1, 4, 8] if why == "minutes" else [4, 6, 8])
    for before, step in itertools.pairwise([0, *sorted(found)]):
        for name in ("denoiser_loss", "encoder_loss", "gradient_norm"):
            mean = sum(each[s][name] for s in range(before + 1, step + 1)) / (step - before)
            assert found[step][name] == pytest.approx(mean, abs=2e-3), (step, name)


def test_a_finished_run_does_nothing_more(tmp_path: Path) -> None:
    tiny = recipe(steps=2)
    last = train(tiny, tmp_path, device="cpu")
    before = (last / "model.safetensors").read_bytes()
    told = Told()
    assert train(tiny, tmp_path, device="cpu", callback=told) == last
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


def test_two_at_once_do_not_train_into_a_folder(tmp_path: Path) -> None:
    refused: list[OptionError] = []

    class Second(TrainingCallback):
        def stepped(self, step: int, record: Record | None) -> None:
            with pytest.raises(OptionError, match=r"another process trains into") as info:
                train(recipe(), tmp_path, device="cpu")
            refused.append(info.value)

    whole = train(recipe(), tmp_path, device="cpu", callback=Second())
    assert [error.option for error in refused] == ["out"] * 12
    assert same_files(whole, train(recipe(), tmp_path / "alone", device="cpu"))
    assert train(recipe(), tmp_path, device="cpu") == whole


def test_numbers_that_are_too_small_are_zero_in_a_run_alone(tmp_path: Path) -> None:
    flushed = []

    class Asking(TrainingCallback):
        def stepped(self, step: int, record: Record | None) -> None:
            flushed.append(are_flushed())

    assert not are_flushed()
    train(recipe(steps=1), tmp_path, callback=Asking())
    assert flushed == [True]
    assert not are_flushed()


def test_every_step_is_told(tmp_path: Path) -> None:
    told = Told()
    train(recipe(steps=5, log_every=2), tmp_path, device="cpu", callback=told)
    assert told.steps == [(1, False), (2, True), (3, False), (4, True), (5, True)]


# Less memory, same run -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes", [{"micro_batch_size": 2}, {"micro_batch_size": 1}, {"gradient_checkpointing": True}]
)
def test_micro_batches_and_checkpointing_change_memory_only(tmp_path: Path, changes: dict[str, Any]) -> None:
    train(recipe(steps=6, batch_size=5), tmp_path / "plain", device="cpu")
    train(recipe(steps=6, batch_size=5, **changes), tmp_path / "other", device="cpu")
    plain, other = losses_of(tmp_path / "plain"), losses_of(tmp_path / "other")
    for step, expected in plain.items():
        assert other[step] == pytest.approx(expected, rel=2e-3), step


# The held-out loss ---------------------------------------------------------------------------------------------


def test_the_held_out_loss_is_looked_at_and_the_best_checkpoint_is_kept(tmp_path: Path) -> None:
    told = Told()
    tiny = recipe(steps=12, evaluate_every=2, checkpoint_every=100, keep_checkpoints=1)
    outcome = trainer.train(tiny, tmp_path, device="cpu", callback=told)
    assert [look.step for look in told.looks] == [2, 4, 6, 8, 10, 12]
    best = min(told.looks, key=lambda look: look.held_out_denoiser_loss)
    assert outcome.best == tmp_path / f"step-{best.step:06d}"
    assert outcome.best.exists()
    assert outcome.last.name == "step-000012"
    assert set(checkpoints(tmp_path)) == {outcome.best, outcome.last}
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text("utf-8").splitlines()]
    assert sum("held_out_denoiser_loss" in line for line in lines) == 6


def test_a_held_out_loss_that_is_no_number_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainer.DenoisingObjective, "evaluate", lambda _: [float("nan")] * 3)
    with pytest.raises(TrainingError, match="step 1: what is held out has a loss that is not a number"):
        train(recipe(evaluate_every=1), tmp_path, device="cpu")
    assert checkpoints(tmp_path) == []


def test_tokens_a_second_are_those_of_the_steps_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    good = trainer.DenoisingObjective.backward

    def takes(seconds: float) -> None:
        nonlocal now
        now += seconds

    def backward(objective: Any, batch: Any) -> Any:
        takes(1)
        return good(objective, batch)

    def evaluate(_: Any) -> tuple[float, float]:
        takes(100)
        return 1.0, 1.0

    monkeypatch.setattr("gesso.train.clock.time.monotonic", lambda: now)
    monkeypatch.setattr(trainer.DenoisingObjective, "backward", backward)
    monkeypatch.setattr(trainer.DenoisingObjective, "evaluate", evaluate)
    monkeypatch.setattr(trainer._Run, "_save", lambda run: takes(10) or run.out)
    train(recipe(steps=6, log_every=2, evaluate_every=2, checkpoint_every=1), tmp_path, device="cpu")
    found = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text("utf-8").splitlines()]
    found = [record for record in found if "tokens_per_second" in record]
    assert [record["seconds"] for record in found] == [12, 134, 256]
    assert all(100 < record["tokens_per_second"] < 130 for record in found), "of steps that take a second"


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
    outcome = trainer.train(tiny, tmp_path / "whole", device="cpu", callback=told)
    assert outcome.reason == "patience"
    assert [look.best for look in told.looks[-3:]] == [False] * 3
    assert outcome.last.name == f"step-{told.looks[-1].step:06d}"
    assert trainer.train(tiny, tmp_path / "whole", device="cpu").reason == "patience", "it does not start again"
    # Patience is counted over a resumption.
    trainer.train(tiny, tmp_path / "parts", device="cpu", stop_at=told.looks[-1].step - 3)
    assert trainer.train(tiny, tmp_path / "parts", device="cpu").last.name == outcome.last.name


# What it shows -------------------------------------------------------------------------------------------------


def test_samples_are_answered_on_the_way_and_change_nothing(tmp_path: Path) -> None:
    plain = train(recipe(steps=6), tmp_path / "plain", device="cpu")
    told = Told()
    tiny = recipe(steps=6, sample_every=3, sample_prompts=("a", "aa"))
    text = replace(tiny, text=NewText(tokenizer, "{% for m in messages %}a{% endfor %}", {"eos_token": "<eos>"}))
    last = train(text, tmp_path / "sampled", device="cpu", callback=told)
    assert [(sample.step, sample.prompt) for sample in told.samples] == [(3, "a"), (3, "aa"), (6, "a"), (6, "aa")]
    assert all(sum(sample.denoising_steps) >= 1 for sample in told.samples)
    assert load_file(last / "model.safetensors").keys() == load_file(plain / "model.safetensors").keys()
    assert same_files(plain, last)
    lines = (tmp_path / "sampled" / "samples.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line)["step"] for line in lines] == [3, 3, 6, 6]


@pytest.mark.parametrize("raw", [False, True])
def test_samples_are_asked_as_the_data_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raw: bool) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(Engine, "generate", lambda engine, prompt, **options: asked.append(options["raw"]))
    plan = replace(recipe(sample_prompts=("a",)), raw_samples=raw)
    with contextlib.suppress(AttributeError):  # no result
        list(answer_prompts(plan, random_model(SHAPE), 1))
    assert asked == [raw]


def test_a_prompt_that_cannot_be_answered_costs_no_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> NoReturn:
        raise TextError("it is too long")

    monkeypatch.setattr("gesso.train.trainer.answer_prompts", refuse)
    told, plain = Told(), train(recipe(steps=4), tmp_path / "plain", device="cpu")
    tiny = recipe(steps=4, sample_every=2, sample_prompts=("12",))
    last = train(tiny, tmp_path / "sampled", device="cpu", callback=told)
    assert same_files(plain, last)
    assert [warning.split(":")[:2] for warning in told.warnings] == [["step 2", " no sample"], ["step 4", " no sample"]]


@pytest.mark.parametrize("damage", [b"\0" * 40 + b"\n", b"\n", b"\xff\n", b'{"loss": 1}\n', b'{"step": 3, "lo'])
def test_a_run_goes_on_from_damaged_records(tmp_path: Path, damage: bytes) -> None:
    train(recipe(steps=4, checkpoint_every=2), tmp_path, device="cpu", stop_at=2)
    with (tmp_path / "metrics.jsonl").open("ab") as file:
        file.write(damage)
    train(recipe(steps=4, checkpoint_every=2), tmp_path, device="cpu")
    lines = (tmp_path / "metrics.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line)["step"] for line in lines] == [1, 2, 3, 4]


def test_records_that_there_is_no_room_to_write_anew_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n{"step": 2}\n', "utf-8")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(TrainingError, match=r"metrics\.jsonl cannot be written: .*No space left on device"):
        truncate_records(path, 1)
    assert path.read_text("utf-8").count("\n") == 2


@pytest.mark.parametrize("name", ["metrics.jsonl", "samples.jsonl"])
def test_records_of_somebody_else_are_left_alone(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text('{"mine": 1}\n', "utf-8")
    with pytest.raises(OptionError, match="is not of a run"):
        train(recipe(steps=1), tmp_path, device="cpu")
    assert (tmp_path / name).read_text("utf-8") == '{"mine": 1}\n'


def test_the_loss_plot_is_a_picture(tmp_path: Path) -> None:
    train(recipe(steps=6, evaluate_every=2), tmp_path, device="cpu")
    plot_losses(tmp_path / "metrics.jsonl", tmp_path / "loss.png")
    assert (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(TrainingError, match="written nothing yet"):
        plot_losses(tmp_path / "none.jsonl", tmp_path / "loss.png")
