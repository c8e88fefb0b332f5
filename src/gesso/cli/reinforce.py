"""Implements `gesso reinforce`."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from gesso.cli import options as opt
from gesso.cli.run_options import RunOptions

if TYPE_CHECKING:
    from gesso.train.config import Optimizer, Precision
    from gesso.train.reinforce.recipe import Method

Model = Annotated[str, typer.Argument(metavar="MODEL", help="The checkpoint to start from.")]
Tasks = Annotated[
    list[str] | None, typer.Option("--task", metavar="NAME", help="Draw prompts of this task; may be repeated.")
]
Prompts = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Take prompts from JSON lines: prompt or messages, and completion, or function and tests."
    ),
]
Reward = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="right (by the task's grader; the default), score (the task's, which may be a share), or "
        "FILE.py:FUNCTION, which takes prompt and answer and returns 1 or more where it is right, else less.",
    ),
]


@opt.takes(set_by={"keep_checkpoints": "--keep", "kl_weight": "--kl"})
def reinforce(
    run: RunOptions,
    model: Model = "mini",
    out: Annotated[Path | None, typer.Option(help="Folder of the run; a run that is there already goes on.")] = None,
    task: Tasks = None,
    prompts: Prompts = None,
    reward: Reward = None,
    method: Annotated[str, typer.Option(help="lora trains an adapter, full all weights.")] = "lora",
    steps: Annotated[int, typer.Option(help="Optimiser steps.")] = 100,
    batch_size: Annotated[int, typer.Option(help="Prompts of a step.")] = 8,
    group_size: Annotated[int, typer.Option(help="Answers drawn to each; a reward counts relative to its group.")] = 8,
    micro_batch_size: Annotated[
        int | None, typer.Option(help="Canvases that are replayed at a time: less memory, same result.")
    ] = None,
    kl: Annotated[float, typer.Option(help="Weight of the KL divergence from the start.")] = 0.02,
    max_new_tokens: Annotated[int, typer.Option(help="Most tokens of an answer, in whole canvases.")] = 256,
    max_denoising_steps: Annotated[
        int | None, typer.Option(help="Most steps of a canvas; the checkpoint's own without it.")
    ] = None,
    backprop_steps: Annotated[
        int, typer.Option(help="Steps that a gradient goes back through the self-conditioning.")
    ] = 1,
    learning_rate: Annotated[
        float | None, typer.Option(help="2e-5, or 2e-6 with full, without it; a run that goes on keeps its own.")
    ] = None,
    rank: Annotated[int | None, typer.Option(help="Of the adapter's matrices; 8.")] = None,
    alpha: Annotated[float | None, typer.Option(help="Deltas are scaled by alpha / rank; 16.")] = None,
    target: opt.Targets = None,
    gradient_checkpointing: Annotated[
        bool, typer.Option("--gradient-checkpointing", help="Less memory for a third more work.")
    ] = False,
    precision: Annotated[
        str, typer.Option(help="float32, bfloat16 or auto; what is not float32 replays less exactly what was drawn.")
    ] = "float32",
    optimizer: opt.Optimizer = "adamw",
    seed: Annotated[int, typer.Option(help="Of prompts, answers and fresh deltas.")] = 0,
    checkpoint_every: Annotated[int, typer.Option(help="Steps between checkpoints.")] = 10,
    keep: opt.Keep = 2,
    held_out: Annotated[float, typer.Option(help="Share of the lines of --prompts kept for evaluation.")] = 0.0,
    evaluate_every: Annotated[int, typer.Option(help="Steps between answers to held-out prompts; 0 never.")] = 0,
    evaluation_examples: Annotated[int, typer.Option(help="So many of them.")] = 64,
    patience: Annotated[int, typer.Option(help="End after so many of these without a better reward; 0 never.")] = 0,
    offline: opt.Offline = False,
) -> int:
    """Let a model learn from rewards of its own answers; the result is OUT/adapter, or OUT/model with --method full."""
    from gesso.config import LoraConfig
    from gesso.errors import OptionError
    from gesso.models.hub import resolve
    from gesso.train.config import TrainConfig
    from gesso.train.reinforce.config import PolicyConfig
    from gesso.train.reinforce.recipe import find_cases, reinforce_recipe
    from gesso.train.run_rate import rate_of_checkpoints

    shaped = [name for name, value in (("rank", rank), ("alpha", alpha), ("target", target)) if value]
    if method == "full" and shaped:
        raise OptionError(f"--{shaped[0]} shapes an adapter, and --method full trains none", option=shaped[0])
    if prompts is None and held_out:
        raise OptionError("--held-out is a share of the lines of --prompts: tasks hold out theirs", option="held_out")
    if out is None:
        raise OptionError(
            "gesso reinforce needs --out, as in: gesso reinforce mini --task arithmetic --out runs/mine", option="out"
        )
    run.prepare(out, result="model" if method == "full" else "adapter")
    usual = LoraConfig()
    policy = PolicyConfig(
        group_size=group_size,
        kl_weight=kl,
        max_new_tokens=max_new_tokens,
        max_denoising_steps=max_denoising_steps,
        backprop_steps=backprop_steps,
    )
    settings = TrainConfig(
        steps=steps,
        batch_size=batch_size,
        micro_batch_size=micro_batch_size,
        beta2=0.99,
        gradient_checkpointing=gradient_checkpointing,
        precision=cast("Precision", precision),
        optimizer=cast("Optimizer", optimizer),
        seed=seed,
        checkpoint_every=checkpoint_every,
        keep_checkpoints=keep,
        log_every=1,
        evaluate_every=evaluate_every,
        evaluation_examples=evaluation_examples,
        patience=patience,
    )
    recipe = reinforce_recipe(
        resolve(model, offline=offline),
        base=model,
        method=cast("Method", method),
        cases=find_cases(tuple(task or ()), prompts, reward, held_out, seed),
        policy=policy,
        train=settings,
        learning_rate=rate_of_checkpoints(out) if learning_rate is None else learning_rate,
        adapter=LoraConfig(
            rank=usual.rank if rank is None else rank,
            alpha=usual.alpha if alpha is None else alpha,
            targets=tuple(target or usual.targets),
        ),
    )
    from gesso.cli.training import print_result, run_command

    return run_command(recipe, out, run, partial(print_result, recipe, out))
