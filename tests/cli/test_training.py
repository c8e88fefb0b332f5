"""What `gesso train`, `finetune` and `reinforce` share."""

import errno
import json
import os
import signal
import threading
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest

from cli.conftest import Gesso
from gesso.cli import training
from gesso.errors import TrainingError
from gesso.train import trainer
from gesso.train.config import TrainConfig
from gesso.train.records import EvaluationRecord, Outcome, Sample, StepRecord

LINES = [{"prompt": f"What is {a} + {b}?", "completion": str(a + b)} for a in range(8) for b in range(8)]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in LINES), "utf-8")
    return path


def test_lines_behind_a_pipe_are_as_long_as_they_are(
    gesso: Gesso, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    prompt = "What is 2 + 2 and then what is 3 + 3 and 4 + 4 after that?"
    shown = ("--sample-prompt", prompt, "--evaluate-every", 1)
    outcome = gesso("finetune", data, "--out", tmp_path / "run", "--batch-size", 2, "--steps", 1, *shown)
    assert outcome.code == 0, outcome.err
    lines = outcome.err.splitlines()
    assert any("64 lines: " in line and line.endswith(" in the longest example") for line in lines)
    assert any(line.startswith("step 1: held-out loss ") and line.endswith("(best so far)") for line in lines)
    assert any(line.startswith(f"step 1: {prompt} -> ") for line in lines)


def test_a_full_disk_is_one_line_and_code_2_as_everywhere(
    gesso: Gesso, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "optimizer.safetensors")

    monkeypatch.setattr("gesso.train.checkpoint.write_safetensors", full)
    outcome = gesso("finetune", data, "--out", tmp_path / "run", "--batch-size", 2, "--steps", 1)
    assert (outcome.code, outcome.out) == (2, "")
    assert "gesso: the checkpoint of step 1 could not be written: " in outcome.err
    assert "Traceback" not in outcome.err


def test_a_disk_that_is_full_at_the_end_is_named_by_what_is_written(
    gesso: Gesso, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(source: Path, target: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(source), None, str(target))  # as shutil does

    monkeypatch.setattr("gesso.train.checkpoint.shutil.copy", full)
    run = tmp_path / "run"
    outcome = gesso("finetune", data, "--out", run, "--batch-size", 2, "--steps", 1)
    told = f"gesso: {run / 'adapter'}/.gesso-partial/adapter_config.json: No space left on device\n"
    assert (outcome.code, outcome.err.endswith(told)) == (2, True), outcome.err
    assert not (run / "adapter").exists()


def test_an_early_end_leaves_something_to_plot(gesso: Gesso, data: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    limit = ("--steps", 60, "--max-minutes", 0.0001)
    outcome = gesso("finetune", data, "--out", run, "--batch-size", 2, "--plot", *limit)
    assert (outcome.code, outcome.out) == (0, f"{run / 'loss.png'}\n{run / 'adapter'}\n")


def test_a_plot_that_fails_takes_no_result_with_it(
    gesso: Gesso, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    monkeypatch.setattr("gesso.train.plot.plot_losses", _full)
    outcome = gesso("finetune", data, "--out", run, "--batch-size", 2, "--plot", "--steps", 1)
    assert (outcome.code, outcome.out) == (0, f"{run / 'adapter'}\n")
    assert "warning: nothing is plotted: " in outcome.err
    assert (run / "adapter" / "adapter_model.safetensors").exists()


def test_a_first_interrupt_is_answered_while_the_step_goes_on(
    gesso: Gesso, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered, rate, tell = threading.Event(), trainer.learning_rate, training.ProgressCallback.ending
    told_in_time: list[bool] = []

    def interrupted(config: TrainConfig, step: int, spent: float) -> float:
        if not told_in_time:
            signal.raise_signal(signal.SIGINT)
            told_in_time.append(answered.wait(30))
        return rate(config, step, spent)

    def ending(callback: training.ProgressCallback) -> None:
        tell(callback)
        answered.set()

    monkeypatch.setattr(trainer, "learning_rate", interrupted)
    monkeypatch.setattr(training.ProgressCallback, "ending", ending)
    command = ("finetune", data, "--out", tmp_path / "run", "--batch-size", 2, "--steps", 3)
    outcome = gesso(*command)
    assert (outcome.code, told_in_time) == (130, [True])
    assert "ending behind this step, with a checkpoint; a second Ctrl-C ends at once\n" in outcome.err
    again = gesso(*command)
    assert (again.code, "ending behind" in again.err) == (0, False)


def test_a_run_that_was_done_before_says_so(gesso: Gesso, data: Path, tmp_path: Path) -> None:
    command = ("finetune", data, "--out", tmp_path / "run", "--batch-size", 2, "--steps", 1)
    first, again = gesso(*command), gesso(*command)
    assert (first.code, again.code) == (0, 0)
    assert "ended: all steps are done\n" in first.err
    told = "ended: all steps are done, by an earlier run: nothing was trained now, and another --out begins anew\n"
    assert told in again.err


@pytest.mark.parametrize("best", ["step-000002", "step-000004", None])
def test_what_is_written_is_said_where_it_is_not_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], best: str | None
) -> None:
    written = []
    monkeypatch.setattr(training, "export", lambda checkpoint, folder: written.append((checkpoint.name, folder)))
    outcome = Outcome(tmp_path / "step-000004", best and tmp_path / best, "steps")
    training.print_result(SimpleNamespace(adapter=object()), tmp_path, outcome)
    assert written == [(best or "step-000004", tmp_path / "adapter")]
    told = capsys.readouterr()
    assert told.out == f"{tmp_path / 'adapter'}\n"
    assert (" step-000002; the last one is " in told.err) == (best == "step-000002") == bool(told.err)


def _full(*_: Path) -> None:
    raise TrainingError("no space left")


def test_time_left_is_told_of_steps_that_take_long() -> None:
    now = 0.0
    with ExitStack() as stack:
        callback = training.ProgressCallback(stack)
        callback.progress.get_time = lambda: now
        callback.started(100, 200, 1)
        for step in range(101, 105):
            now += 90
            callback.stepped(step, None)
        assert callback.progress.tasks[0].time_remaining == 96 * 90


def test_a_run_that_is_refused_leaves_no_file_of_tensorboard(gesso: Gesso, data: Path, tmp_path: Path) -> None:
    nothing = ("--causal-only", "--target", "self_conditioning.*")
    outcome = gesso("finetune", data, "--out", tmp_path / "run", "--steps", 1, "--tensorboard", *nothing)
    assert outcome.code == 2
    assert not (tmp_path / "run").exists()


def test_steps_that_are_taken_again_stand_in_tensorboard_once(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for first, loss in ((0, 1.0), (2, 2.0)):  # killed behind step 4, with a checkpoint at step 2
        with ExitStack() as stack:
            callback = training.TensorBoardCallback(stack, tmp_path)
            callback.started(first, 4, 1)
            for step in range(first + 1, 5):
                callback.stepped(step, StepRecord(step, loss, loss, 1e-3, 1.0, 1.0, 1.0))
            callback.evaluated(EvaluationRecord(4, loss, loss, True))
            callback.sampled(Sample(4, "prompt", "text", (1,)))
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    found = [(event.step, event.value) for event in events.Scalars("denoiser_loss")]
    assert found == [(1, 1.0), (2, 1.0), (3, 2.0), (4, 2.0)]
    assert [event.step for event in events.Scalars("held_out_denoiser_loss")] == [4]
