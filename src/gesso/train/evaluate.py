"""A model on held-out prompts of a task."""

import math
import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gesso.engine.engine import Engine, Request
from gesso.errors import OptionError
from gesso.tasks.base import Task, evaluation_set


@dataclass(frozen=True, slots=True)
class TaskScore:
    """Outcome of one task."""

    task: str
    examples: int
    right: int
    interval: tuple[float, float]
    """95% Wilson interval of the share that is right."""
    mean_steps: float
    """Denoising steps a canvas, over all canvases."""
    p95_steps: float
    tokens_per_forward: float
    converged: float
    """Share of the canvases that were stable and confident before their steps were used up."""
    seconds: float
    """Wall clock of all examples, batched."""
    wrong: tuple[tuple[str, str, str], ...]
    """Prompt, reference answer and answer of what is not right."""


def wilson_interval(right: int, total: int) -> tuple[float, float]:
    """95% interval of a share (Wilson 1927)."""
    z = 1.959964
    share = right / total
    centre = share + z * z / (2 * total)
    spread = z * math.sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    scale = 1 + z * z / total
    return (centre - spread) / scale, (centre + spread) / scale


def evaluate_task(engine: Engine, task: Task, examples: int, seed: int, options: Mapping[str, Any]) -> TaskScore:
    """Answer `examples` held-out prompts; prompt i is sampled with seed `seed + i`.

    Raises:
        OptionError: the task does not have so many held-out prompts.
    """
    try:
        cases = evaluation_set(task, examples, seed)
    except ValueError as error:
        raise OptionError(str(error)) from None
    requests = [
        Request(case.prompt, {"max_new_tokens": 512, **options, "seed": seed + i}) for i, case in enumerate(cases)
    ]
    started = time.monotonic()
    results = engine.generate_batch(requests)
    seconds = time.monotonic() - started
    wrong = tuple(
        (case.prompt, case.answer, result.text)
        for case, result in zip(cases, results, strict=True)
        if not task.grade(case, result.text)
    )
    steps = [s for result in results for s in result.denoising_steps]
    flags = [c for result in results for c in result.converged]
    return TaskScore(
        task=task.name,
        examples=examples,
        right=examples - len(wrong),
        interval=wilson_interval(examples - len(wrong), examples),
        mean_steps=statistics.fmean(steps),
        p95_steps=sorted(steps)[min(len(steps) - 1, math.ceil(0.95 * len(steps)) - 1)],
        tokens_per_forward=sum(r.completion_tokens for r in results) / sum(steps),
        converged=sum(flags) / len(flags),
        seconds=seconds,
        wrong=wrong,
    )
