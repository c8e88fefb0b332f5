"""Runs what `gesso train`, `finetune` and `reinforce` share: showing a run, its picture at the end. Imported when one
starts."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gesso.cli.interrupt import first_interrupt
from gesso.cli.progress import stderr_console
from gesso.cli.signals import INTERRUPTED
from gesso.train.checkpoint import export
from gesso.train.records import METRICS, Evaluation, Outcome, PolicyRecord, Record, Sample, TrainingCallback, scalars
from gesso.train.trainer import train

if TYPE_CHECKING:
    from gesso.cli.run_options import RunOptions
    from gesso.train.recipe import Recipe

REASONS = {
    "steps": "all steps are done",
    "within": "the time that it was given is over",
    "stop_at": "--stop-at is reached",
    "patience": "the held-out loss (or reward) no longer gets better",
    "minutes": "--max-minutes are over",
    "interrupted": "interrupted; the same command goes on from here",
}


ALIKE = (
    "the answers of each group had one reward, so nothing is learned from them (said once): prompts that are sometimes "
    "answered right, or a larger --group-size, make them differ"
)


class ProgressCallback(TrainingCallback):
    """Shows a progress bar on standard error, with held-out losses and samples above it."""

    def __init__(self, stack: ExitStack, within_minutes: float | None = None) -> None:
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            ProgressColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        left: tuple[ProgressColumn, ...] = (TimeRemainingColumn(),)
        if within_minutes is not None:  # steps do not tell when it ends
            left = TimeElapsedColumn(), TextColumn(f"of {within_minutes:g} min")
        columns = (
            TextColumn("step"),
            MofNCompleteColumn(),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[note]}"),
            *left,
        )
        self.console = stderr_console()
        # By itself it forgets what is older than half a minute, which a step may take.
        self.progress = Progress(*columns, console=self.console, speed_estimate_period=3600)
        self.task: Any = None
        self._stack = stack
        self._alike = False
        """Whether it was said that nothing is learned from answers of one reward."""

    def started(self, step: int, last: int, trainable: int) -> None:
        self.console.print(f"training {trainable:,} parameters, steps {step + 1} to {last}", style="dim")
        self._stack.enter_context(self.progress)  # a run that is refused shows no bar, nor the empty line it leaves
        self.task = self.progress.add_task("train", total=last, completed=step, note="")

    def stepped(self, step: int, record: Record | None) -> None:
        if record is not None:
            self.progress.update(self.task, note=record.summary)
        if isinstance(record, PolicyRecord) and not record.mixed and not self._alike:
            self._alike = True
            self.warned(f"step {record.step}: {ALIKE}")
        self.progress.update(self.task, completed=step)

    def evaluated(self, record: Evaluation) -> None:
        best = " (best so far)" if record.best else ""
        self.console.print(f"step {record.step}: {record.summary}{best}", markup=False)

    def sampled(self, sample: Sample) -> None:
        steps = sum(sample.denoising_steps)
        self.console.print(f"step {sample.step}: {sample.prompt} -> {sample.text} ({steps} steps)", markup=False)

    def ending(self) -> None:
        """Says that the run was told to end: a step may take long."""
        self.console.print("ending behind this step, with a checkpoint; a second Ctrl-C ends at once", style="dim")

    def warned(self, message: str) -> None:
        self.console.print(f"warning: {message}", markup=False, style="yellow")


class TensorBoardCallback(ProgressCallback):
    """Shows the same, and writes scalars and texts for TensorBoard beside the run."""

    def __init__(self, stack: ExitStack, folder: Path, within_minutes: float | None = None) -> None:
        super().__init__(stack, within_minutes)
        self.folder = folder / "tensorboard"
        self.writer: Any = None

    def started(self, step: int, last: int, trainable: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        super().started(step, last, trainable)
        # Only here: a run that is refused leaves no file, and what is written again replaces what a killed run wrote.
        self.writer = self._stack.enter_context(SummaryWriter(str(self.folder), purge_step=step + 1))

    def stepped(self, step: int, record: Record | None) -> None:
        super().stepped(step, record)
        if record is not None:
            for name, value in scalars(record).items():
                self.writer.add_scalar(name, value, step)

    def evaluated(self, record: Evaluation) -> None:
        super().evaluated(record)
        for name, value in scalars(record).items():
            self.writer.add_scalar(name, value, record.step)

    def sampled(self, sample: Sample) -> None:
        super().sampled(sample)
        self.writer.add_text(sample.prompt, sample.text, sample.step)


@contextmanager
def told_once(event: threading.Event, tell: Callable[[], None]) -> Iterator[None]:
    """Calls `tell` when `event` is set while it lasts, in a thread: a signal's handler must not write.

    The event is set when it ends.
    """
    over = threading.Event()

    def wait() -> None:
        event.wait()
        if not over.is_set():
            tell()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        event.set()
        thread.join()


def is_main_process() -> bool:
    """Says whether this process is the one of its group that shows and writes: the first that `torchrun` started."""
    return os.environ.get("RANK", "0") == "0"


def run_training(recipe: Recipe, folder: Path, options: RunOptions) -> Outcome:
    """Trains with a progress bar, says why the run ended, and plots its losses; a plot that fails is a warning.

    Raises:
        OptionError: an option that is impossible.
    """
    from gesso.errors import GessoError
    from gesso.train.plot import plot_losses

    interrupted = threading.Event()
    limits: dict[str, Any] = {
        "device": options.device,
        "stop_at": options.stop_at,
        "max_minutes": options.max_minutes,
        "should_stop": interrupted.is_set,
    }
    with ExitStack() as stack:
        stack.enter_context(first_interrupt(interrupted.set))
        if not is_main_process():
            return train(recipe, folder, **limits)
        within = recipe.train.within_minutes
        if options.tensorboard:
            callback: ProgressCallback = TensorBoardCallback(stack, folder, within)
        else:
            callback = ProgressCallback(stack, within)
        with told_once(interrupted, callback.ending):
            outcome = train(recipe, folder, callback=callback, **limits)
    earlier = ", by an earlier run: nothing was trained now, and another --out begins anew"
    told = REASONS[outcome.reason] + (earlier if callback.task is None else "")
    callback.console.print(f"ended: {told}", style="dim")
    if options.plot:
        picture = folder / "loss.png"
        try:
            plot_losses(folder / METRICS, picture)
        except GessoError as error:
            callback.warned(f"nothing is plotted: {error}")
        else:
            print(picture)
    return outcome


def run_command(recipe: Recipe, out: Path, options: RunOptions, finish: Callable[[Outcome], None]) -> int:
    """Trains as `run_training` does, lets the main process write what came of it, and returns the exit code.

    Args:
        finish: writes the result of a run that has ended, for whatever reason.

    Raises:
        OptionError: what is trained on from would be written over.
    """
    from gesso.errors import OptionError

    result = result_folder(recipe, out).resolve()
    if result in [start.resolve() for start in (recipe.start, recipe.adapter_start) if start is not None]:
        raise OptionError(f"--out is {out}, whose {result.name} is read from: name another folder", option="out")
    outcome = run_training(recipe, out, options)
    if not is_main_process():
        return 0
    finish(outcome)
    return INTERRUPTED if outcome.reason == "interrupted" else 0


def result_folder(recipe: Recipe, out: Path) -> Path:
    """Returns the folder of a run in which its model or its adapter ends."""
    return out / ("model" if recipe.adapter is None else "adapter")


def print_result(recipe: Recipe, out: Path, outcome: Outcome) -> None:
    """Writes the best weights of a run, or its last ones, to `out`/model, or its adapter to `out`/adapter; prints
    where."""
    result = result_folder(recipe, out)
    export(outcome.best or outcome.last, result)
    if outcome.best not in (None, outcome.last):
        told = f"what is written is the best on what is held out, {outcome.best.name}; the last one is {outcome.last}"
        stderr_console(markup=False).print(told, style="dim")
    print(result)
