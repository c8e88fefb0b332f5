"""Implements `gesso reinforce`."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from gesso.cli import options as opt
from gesso.cli.given import Given
from gesso.cli.run_options import RunOptions
from gesso.config import LoraConfig
from gesso.train.config import TrainConfig
from gesso.train.plan import Plan
from gesso.train.reinforce.config import PolicyConfig

if TYPE_CHECKING:
    from gesso.train.reinforce.recipe import Method

USUAL: dict[str, Any] = {
    "batch_size": 8,
    "checkpoint_every": 10,
    "evaluation_examples": 64,
    "precision": "float32",
    "steps": 100,
}
"""Defaults that are not the configs' own."""
SETTINGS = (
    *("batch_size", "micro_batch_size", "optimizer", "precision", "gradient_checkpointing", "seed", "checkpoint_every"),
    *("keep_checkpoints", "evaluate_every", "evaluation_examples", "patience"),
)
"""What there is to set of the optimisation."""
_REWARDS = {"rich_help_panel": "Prompts and rewards"}
Model = Annotated[str, typer.Argument(metavar="MODEL", help="The checkpoint to start from.")]
Tasks = Annotated[
    list[str] | None,
    typer.Option("--task", metavar="NAME", help="Draw prompts of this task; may be repeated.", **_REWARDS),
]
Prompts = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Take prompts from JSON lines: prompt or messages, and completion, or function and tests.",
        **_REWARDS,
    ),
]
Reward = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="right (by the task's grader; the default), score (the task's, which may be a share), or "
        "FILE.py:FUNCTION, which takes prompt and answer and returns 1 or more where it is right, else less.",
        **_REWARDS,
    ),
]
Adapter = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Go on from this adapter, of gesso or PEFT (TRL); the divergence of --kl is from it.",
        rich_help_panel="Adapter",
    ),
]
HeldOut = Annotated[
    float,
    typer.Option(metavar="X", help="Share of the lines of --prompts kept for evaluation.", **_REWARDS),
]


@opt.takes(
    rows={Plan: ("method", "steps", "learning_rate"), TrainConfig: SETTINGS, LoraConfig: ("rank", "alpha", "targets")},
    usual=USUAL,
    words={"method": ("lora", "full")},
    helps={
        "method": "lora trains an adapter, full all weights.",
        "steps": "Optimiser steps.",
        "batch_size": "Prompts of a step.",
        "micro_batch_size": "Canvases that are replayed at a time: less memory, same result.",
        "learning_rate": "Highest learning rate. Without it 2e-5, or 2e-6 with full; 3e-4 and 3e-5 below 30 million "
        "parameters; a run that goes on keeps its own.",
        "precision": "Type of the products; what is not float32 replays less exactly what was drawn.",
    },
)
def reinforce(
    run: RunOptions,
    planned: Given[Plan],
    policy: Given[PolicyConfig],
    train: Given[TrainConfig],
    shape: Given[LoraConfig],
    model: Model = "mini",
    out: opt.Out = None,
    task: Tasks = None,
    prompts: Prompts = None,
    reward: Reward = None,
    held_out: HeldOut = 0.0,
    adapter: Adapter = None,
    offline: opt.Offline = False,
) -> int:
    """Let a model learn from rewards of its own answers; the result is OUT/adapter, or OUT/model with --method full."""
    from gesso.cli.finetune_checks import check_adapter, check_evaluation, check_shape
    from gesso.errors import OptionError

    check_adapter(planned, shape.flags, adapter)
    check_shape(planned, shape.flags)
    if prompts is None and held_out:
        raise OptionError("--held-out is a share of the lines of --prompts: tasks hold out theirs", option="held_out")
    check_evaluation(True, train["evaluate_every"], train, "held_out" if held_out else None)
    if out is None:
        raise OptionError(
            "gesso reinforce needs --out, as in: gesso reinforce mini --task arithmetic --out runs/mine", option="out"
        )
    plan, settings = planned.build(), train.build(steps=planned["steps"], beta2=0.99, log_every=1)
    run.prepare(out, result="model" if plan.method == "full" else "adapter")

    from gesso.cli.model_notes import note_other_base
    from gesso.cli.progress import stderr_console
    from gesso.cli.training import is_main_process, print_result, run_command
    from gesso.models.hub import resolve
    from gesso.train.reinforce.recipe import LEARNING_RATES, find_cases, reinforce_recipe
    from gesso.train.run_rate import rate_of_run

    note_other_base(adapter, model)
    rate, rate_is = plan.learning_rate, ""
    if rate is None:
        rate, rate_is = rate_of_run(out, LEARNING_RATES[plan.method])
    recipe = reinforce_recipe(
        resolve(model, offline=offline),
        base=model,
        method=cast("Method", plan.method),
        cases=find_cases(tuple(task or ()), prompts, reward, held_out, settings.seed),
        policy=policy.build(),
        train=settings,
        learning_rate=rate,
        adapter=shape.build(),
        adapter_start=adapter,
    )
    if rate_is and is_main_process():
        told = f"learning rate {recipe.train.learning_rate:g}, {rate_is}: --learning-rate"
        stderr_console(markup=False).print(told, style="dim")
    return run_command(recipe, out, run, partial(print_result, recipe, out))
