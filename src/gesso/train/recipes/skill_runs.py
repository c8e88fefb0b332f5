"""Lists the runs that made the bundled `skills`, each from the weights of another, and what was tried beside them.

The first, `skills`, drew random weights. The first five had six layers and the next six nine; whoever runs them again
trains all twelve from the start. Where a run began from a mean, `python -m gesso.train.mean_weights` wrote it: of
`skills-8` and `skills-9`, of that mean and `skills-11`, and of where `skills-17` and `skills-18` began and ended. What
is bundled is 0.4 of the start of `skills-31` and 0.6 of its end. Its start is as much of the start and the end of
`skills-30`, and so is that of `skills-27`, whose start is 0.15 of the start of `skills-26` and 0.85 of its end.
"""

import dataclasses
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gesso.models.hub import resolve
from gesso.train.config import CanvasWidth
from gesso.train.recipe import Recipe
from gesso.train.recipes.skill_mixtures import mixtures
from gesso.train.recipes.skills import skill_data, skills


@dataclass(frozen=True, slots=True)
class Run:
    """Describes a run by what it has of its own beside its mixture; all else is as in `skills`."""

    number: int
    after: str | None
    """Folder of `runs/` with the weights that it starts from; None starts from the bundled ones."""
    steps: int
    learning_rate: float = 2.5e-3
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Other fields of `TrainConfig`."""
    learned: Collection[str] = ()
    """Tasks that it learns from examples, where a teacher has all others."""
    teacher: str | None = None
    """Folder of `runs/` with the teacher's weights, where they are not those that it starts from."""

    @property
    def name(self) -> str:
        return f"skills-{self.number}"

    @property
    def about(self) -> str:
        start = "the bundled `skills`" if self.after is None else f"`runs/{self.after}`"
        passes = "the causal pass alone" if "causal_steps" not in self.settings else "canvases and the causal pass"
        return f"Goes on from {start}{' on one GPU' if 'workers' in self.settings else ''}: {passes}."


CORES = {"causal_batch_size": 128, "warmup_steps": 40}
"""A step of two cores."""
GPU = {"causal_batch_size": 2048, "workers": 13, "checkpoint_every": 500}
"""A step of one GPU of 40 GB or more: 32 times a core's examples, of the causal pass alone."""
WIDER = {**GPU, "causal_batch_size": 2304, "checkpoint_every": 100_000}
WIDEST = {**GPU, "causal_batch_size": 3072, "workers": 14, "checkpoint_every": 100_000}
"""A step of one of 80 GB."""
CANVASES = {"causal_steps": 0, "narrow": (CanvasWidth(16, 32, 0.25, 3), CanvasWidth(32, 24, 0.35, 3))}
"""Canvases of any width and the causal pass together."""
GPU_CANVASES = {
    **GPU,
    "causal_steps": 0,
    "causal_share": 0.2,
    "batch_size": 768,
    "narrow": (CanvasWidth(16, 1536, 0.2, 3), CanvasWidth(32, 1024, 0.35, 3)),
    "warmup_steps": 150,
    "encoder_loss_weight": 4.0,
    "own_draft_probability": 0.3,
}
RETAINED = {
    "dialogues", "abstention", "json", "code", "arithmetic", "ordering", "editing", "counting", "revision",
    "revision-in-file",
}  # fmt: skip
"""What the teacher of `skills-19` has."""

MADE = (
    # Two hours of two cores each.
    Run(2, "skills/step-007800", 4000, 1.8e-3),
    Run(3, "skills-2/step-004000", 4150, 1.8e-3),
    Run(4, "skills-3/step-004150", 3950),
    Run(5, "skills-4/step-003950", 3560),
    Run(7, "skills-5/step-003560", 5700),
    Run(8, "skills-7/step-005700", 10800),
    Run(9, "skills-8/step-010800", 2900, 1.6e-3),
    Run(11, "skills-9/mean", 2700, 2e-3),
    # Five to eight minutes of one H100 each, but for those of cores between.
    Run(12, "skills-11/mean", 835, 5e-3, {**GPU, "warmup_steps": 150}),
    Run(16, "skills-12/step-000835", 833, 4e-3, GPU),
    Run(17, "skills-16/step-000833", 2000, 1e-3),
    Run(18, "skills-17/mean", 1697, 1e-3, {"warmup_steps": 60}),
    Run(
        19, "skills-18/mean", 2390, 1.8e-3, {"warmup_steps": 60},
        frozenset(mixtures("skills-19")[0].weights) - RETAINED, "skills-16/step-000833",
    ),
    Run(20, "skills-19/step-002390", 1011, 5e-3, {**GPU, "checkpoint_every": 100_000}),
    Run(21, "skills-20/step-001011", 1008, 4.5e-3, WIDER),
    Run(22, "skills-21/step-001008", 1280, 4.5e-3, WIDER),
    Run(23, "skills-22/step-001280", 2003, 4.5e-3, WIDEST),
    # An hour and a half of two cores.
    Run(
        26, "skills-23/step-002003", 938, 7e-4, CORES,
        ("results", "units", "duplicates", "reversing", "ranges", "sums", "dates"),
    ),
    Run(
        27, "skills-26/mean", 979, 1.2e-3, CORES,
        ("reversing", "functions", "changes", "results", "units", "sentiment"),
    ),
    Run(30, "skills-27/mean", 849, 1.2e-3, CORES, ("contexts", "sentiment", "topics")),
    Run(31, "skills-30/mean", 1020, 1.2e-3, CORES, ("contexts", "reversing", "changes", "replacing")),
)  # fmt: skip
"""Runs in whose line the bundled weights stand."""
TRIED = (
    Run(6, "skills-5/step-003560", 2230, 2.2e-3, CANVASES),
    Run(10, "skills-9/mean", 2200, 2e-3),
    Run(13, "skills-12/step-000835", 1000, 8e-4),
    Run(15, "skills-12/step-000835", 1150, 8e-4),
    Run(24, "skills-23/step-002003", 699, 7e-4, CORES),
    Run(28, "skills-27/mean", 1100, 1.2e-3, CORES, ("sorting", "duplicates", "replacing", "ranges", "dates")),
    Run(29, "skills-28/mean", 680, 1.2e-3, CORES, ("extraction", "sums", "topics", "sentiment")),
    Run(32, "skills-31/mean", 1000, 1.2e-3, CORES, ("contexts", "reversing", "changes", "replacing", "ranges")),
)  # fmt: skip
"""Runs whose ends were not worth bundling: docs/measurements/skills.md has what came out."""
PREPARED = (
    Run(14, None, 800, 4e-3, GPU_CANVASES),
    Run(25, None, 4000, 4.5e-3, WIDEST),
)
"""Runs for who has a GPU; not run yet."""
RUNS = {run.name: run for run in (*MADE, *TRIED, *PREPARED)}
ABOUT = {
    run.name: f"{run.about} {came_out}".rstrip()
    for runs, came_out in ((MADE, ""), (TRIED, "Run once; not bundled."), (PREPARED, "Not run yet."))
    for run in runs
}
"""One or two sentences about each run, for a list."""


def later_run(run: Run) -> Recipe:
    """Returns the recipe of a run that goes on from the weights of another."""
    recipe = skills()
    settings = {"causal_steps": run.steps, "warmup_steps": 100, **run.settings}
    train = dataclasses.replace(
        recipe.train, steps=run.steps, learning_rate=run.learning_rate, seed=run.number, **settings
    )
    stages = mixtures(run.name)
    retained = frozenset(stages[0].weights).difference(run.learned) if run.learned else ()
    widths = {} if train.causal_steps else {"narrowest": 0}
    return dataclasses.replace(
        recipe,
        name=run.name,
        train=train,
        data=skill_data(stages, seed=run.number, retained=retained, **widths),
        start=resolve("skills") if run.after is None else Path("runs", run.after),
        teacher=Path("runs", run.teacher or run.after) if run.learned and run.after else None,
    )
