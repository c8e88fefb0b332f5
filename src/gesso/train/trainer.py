"""Runs the training loop.

A step is a function of (weights, optimiser state, seed, step number): examples, canvases, times, noise and dropout are
drawn from generators seeded by the last two. So a run that was cut off and resumed from a checkpoint goes on bit by bit
as if it had not been, but for a rate that falls along the clock (`within_minutes`). Micro-batches and processes divide
a step's batch, or its sequences, and leave its loss what it was.
"""

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from gesso.errors import TrainingError, UserError
from gesso.file_lock import held_folder
from gesso.nn.denormals import flushed_denormals
from gesso.train.checkpoint import (
    checkpoint_path,
    checkpoints,
    remove,
    remove_leftovers,
    resume_newest,
    save_checkpoint,
    step_of,
)
from gesso.train.clock import Clock
from gesso.train.distributed import (
    ProcessGroup,
    average_gradients,
    check_processes,
    full_tensor,
    join_process_group,
    leave_process_group,
    process_mesh,
    shard,
    split_sequences,
)
from gesso.train.expert_parallel import check_expert_parallel, lay_out_experts
from gesso.train.identity import identity_of
from gesso.train.labels_first import LabelsFirst
from gesso.train.objective import DenoisingObjective, Objective
from gesso.train.optimizer import make_optimizer, set_rate, trainable
from gesso.train.recipe import Recipe
from gesso.train.records import (
    METRICS,
    SAMPLES,
    Evaluation,
    Outcome,
    Progress,
    Reason,
    Record,
    Sample,
    TrainingCallback,
    append_record,
    check_records,
    truncate_records,
)
from gesso.train.reinforce.objective import PolicyObjective
from gesso.train.running_means import RunningMeans
from gesso.train.samples import answer_prompts
from gesso.train.step import learning_rate, start_model
from gesso.train.vision import start_vision


@flushed_denormals()
def train(
    recipe: Recipe,
    out: Path,
    *,
    device: str = "auto",
    stop_at: int | None = None,
    max_minutes: float | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    callback: TrainingCallback | None = None,
) -> Outcome:
    """Runs a recipe into `out`, resuming from the newest complete checkpoint there.

    Args:
        stop_at: end after this step instead of the recipe's last (its schedule is not changed).
        max_minutes: write a checkpoint and end after so many minutes.
        should_stop: asked after every step; True ends the run with a checkpoint.

    Raises:
        OptionError: another process trains into `out`, or settings that contradict each other.
        TrainingError: the loss is not a number, or a checkpoint cannot be written.
        CheckpointError: `out` holds checkpoints, and none that this recipe can go on from.
    """
    group = join_process_group(device)
    # After an error the others may wait in a collective: the process ends, and torchrun ends them.
    fresh = not out.exists()
    out.mkdir(parents=True, exist_ok=True)
    with held_folder(out, f"another process trains into {out}") if group.is_main else contextlib.nullcontext():
        try:
            run = _Run(recipe, out, group, callback or TrainingCallback())
        except UserError:
            if fresh:
                with contextlib.suppress(OSError):  # another process may have removed it, or written into it
                    out.rmdir()
            raise
        try:
            outcome = run.go(stop_at, max_minutes, should_stop)
        except Exception:
            run.record_rest()
            raise
    leave_process_group(group)
    return outcome


class _Run:
    """Runs a recipe in one process."""

    def __init__(self, recipe: Recipe, out: Path, group: ProcessGroup, callback: TrainingCallback) -> None:
        self.recipe, self.out = recipe, out
        self.callback = callback if group.is_main else TrainingCallback()
        self.replicated = group.size > 1 and recipe.train.optimizer == "muon"
        check_processes(recipe.train, group.size)
        check_expert_parallel(recipe.train.expert_parallel, recipe.model.num_experts, group.size)
        group = self.group = split_sequences(group, recipe.train.context_parallel)
        if group.is_main:
            remove_leftovers(out)
        mesh = process_mesh(group) if group.size > 1 else None
        parallel = recipe.train.expert_parallel > 1
        self.identity = identity_of(recipe)
        self.model = start_model(recipe, group.device, mesh if parallel else None)
        images = start_vision(recipe, group)
        self.vision = None if images is None else images.trained_vision
        self.objective: Objective
        if recipe.policy is not None:
            self.objective = PolicyObjective(recipe, self.model, group)
        else:
            self.objective = DenoisingObjective(recipe, self.model, group, images)
        if recipe.labels is not None and images is not None:
            self.objective = LabelsFirst(recipe, self.model, images, self.objective)
        if mesh is not None and not self.replicated:
            apart = lay_out_experts(self.model, mesh) if parallel else set()
            shard(self.model, self.objective.root, mesh, apart)
        self.optimizer = make_optimizer(self.model, recipe.train, self.vision, group.rank, group.size)
        self.progress = self._resume()
        self.clock = Clock(group, self.progress.seconds, recipe.train.within_minutes)
        self.means = RunningMeans()

    def _resume(self) -> Progress:
        """Resumes from the newest checkpoint that is whole, and drops the records of later steps, and their
        checkpoints: they will be written again."""
        for name in (METRICS, SAMPLES):
            check_records(self.out / name)
        state = self.model, self.optimizer, self.out
        progress = resume_newest(self.recipe, self.identity, *state, self.group, self.callback.warned, self.vision)
        if self.group.is_main:
            for name in (METRICS, SAMPLES):
                truncate_records(self.out / name, progress.step)
            for folder in checkpoints(self.out):
                if step_of(folder) > progress.step:
                    remove(folder)
        return progress

    def go(self, stop_at: int | None, max_minutes: float | None, should_stop: Callable[[], bool]) -> Outcome:
        config, clock = self.recipe.train, self.clock
        last = min(config.steps, stop_at or config.steps)
        first, spent = self.progress.step, clock.spent()
        path = checkpoint_path(self.out, first) if first else self.out
        reason: Reason = "steps" if last == config.steps else "stop_at"
        if first >= last or self.progress.out_of(config.patience) or spent >= 1:
            return self._outcome(path, reason if first >= last else "within" if spent >= 1 else "patience")
        self.callback.started(first, last, sum(p.numel() for p in self._trained()))
        batches = self.objective.batches(first, last)
        for step in range(first, last):
            begun, rate = clock.seconds, learning_rate(config, step, spent)
            measured, count = self._step(step, self._next_batch(batches), rate)
            if not math.isfinite(measured.sum().item()):
                kept = "there is no checkpoint" if path == self.out else f"the last checkpoint is {path}"
                raise TrainingError(
                    f"step {step + 1}: the loss or gradient is not a number, and {kept}; a lower learning rate may help"
                )
            done, now, spent = step + 1, clock.seconds, clock.spent()
            self.means.add(measured, count, rate, begun, now)
            self.progress = dataclasses.replace(self.progress, step=done, seconds=clock.bounded_seconds)
            record = self._record() if done % config.log_every == 0 or done == last else None
            complete = done == config.steps or spent >= 1
            evaluates = bool(config.evaluate_every) and (done % config.evaluate_every == 0 or complete)
            improved = self._evaluate() if evaluates else False
            if config.sample_every and (done % config.sample_every == 0 or complete):
                self._sample()
            stop = clock.stop_reason(max_minutes, stop=should_stop())
            if self.progress.out_of(config.patience):
                reason = "patience"
            elif done < last and (spent >= 1 or stop is not None):
                reason = "within" if spent >= 1 else stop or reason
            ending = done == last or reason not in ("steps", "stop_at")
            if ending and record is None:  # what a run that goes on would leave out of its means
                record = self._record()
            if done % config.checkpoint_every == 0 or ending or improved:
                path = self._save()
            self.callback.stepped(done, record)
            if ending:
                break
        return self._outcome(path, reason)

    def _record(self) -> Record:
        """Writes the means of the steps since the last record."""
        means, pace = self.means.take()
        record = self.objective.record(means, step=self.progress.step, **pace)
        self._write(METRICS, record)
        return record

    def record_rest(self) -> None:
        """Writes the means of the steps that no record tells of: those before one that failed."""
        with contextlib.suppress(TrainingError):  # of two errors the first is told
            if self.means:
                self._record()

    def _trained(self) -> list[torch.nn.Parameter]:
        return [parameter for _, parameter in trainable(self.model, self.vision)]

    def _save(self) -> Path:
        state = self.model, self.optimizer, self.progress
        return save_checkpoint(self.recipe, self.identity, *state, self.out, self.group, self.vision)

    def _next_batch(self, batches: Iterator[Any]) -> Any:
        """Returns the next batch; where a process cannot make it, all of them keep the steps before, and end."""
        failed: Exception | None = None
        try:
            batch = next(batches)
        except Exception as error:  # noqa: BLE001 - whatever it is, the others wait to be told
            failed = error
        if self.group.all_reduce_sum(torch.tensor(float(failed is not None))).item():
            self._keep_steps()
            raise failed or TrainingError(f"step {self.progress.step + 1}: another process could not make its batch")
        return batch

    def _keep_steps(self) -> None:
        """Writes a checkpoint of the steps done, where there is none; all processes call this together."""
        step = self.progress.step
        if step and not checkpoint_path(self.out, step).exists():
            with contextlib.suppress(Exception):  # of two errors the first is told
                path = self._save()
                self.callback.warned(f"the run ends behind step {step}, which is kept: {path}")

    @contextlib.contextmanager
    def _keeping_steps(self) -> Iterator[None]:
        """Keeps the steps done where a pass fails before it changes the weights: a reward, want of memory.

        Of several processes one may fail alone, while the others wait for it in the middle of the pass: alone it cannot
        write.
        """
        try:
            yield
        except Exception:
            if self.group.size == 1:
                self._keep_steps()
            raise

    def _outcome(self, last: Path, reason: Reason) -> Outcome:
        best = checkpoint_path(self.out, self.progress.best_step or 0)
        return Outcome(last, best if best.exists() else None, reason)

    def _step(self, step: int, batch: Any, rate: float) -> tuple[torch.Tensor, int]:
        """Takes one optimiser step; returns the objective's measures with the gradient norm behind them, and the tokens
        trained on."""
        config, group = self.recipe.train, self.group
        set_rate(self.optimizer, rate)
        torch.manual_seed((config.seed << 32) + (step << 8) + group.rank)  # dropout
        self.optimizer.zero_grad(set_to_none=True)
        with self._keeping_steps():
            measures, tokens = self.objective.backward(batch)
        if self.replicated:
            average_gradients(self._trained(), group)
        norm = full_tensor(torch.nn.utils.clip_grad_norm_(self._trained(), config.gradient_clip))
        self.optimizer.step()
        # Read here alone: a GPU goes on with the gradients while the host tells it of the step.
        return torch.cat((measures.to(norm.device), norm.detach().float().view(1))).cpu(), tokens

    def _evaluate(self) -> bool:
        """Evaluates on what is held out; returns whether it is the best so far."""
        measures = self.objective.evaluate()
        loss = measures[0]
        if not math.isfinite(loss):
            raise TrainingError(f"step {self.progress.step}: what is held out has a loss that is not a number")
        self.progress = self.progress.looked_at(loss)
        improved = self.progress.best_step == self.progress.step
        record = self.objective.evaluation(measures, step=self.progress.step, best=improved)
        self._write(METRICS, record)
        self.callback.evaluated(record)
        return improved

    def _sample(self) -> None:
        """Answers the fixed prompts; a run survives one that cannot be answered."""
        try:
            for sample in answer_prompts(self.recipe, self.model, self.progress.step):
                self._write(SAMPLES, sample)
                self.callback.sampled(sample)
        except (UserError, OSError) as error:
            if self.group.is_main:
                self.callback.warned(f"step {self.progress.step}: no sample: {error}")
        finally:
            self.model.train()

    def _write(self, name: str, record: Record | Evaluation | Sample) -> None:
        if self.group.is_main:
            append_record(self.out / name, record)
