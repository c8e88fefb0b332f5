"""Implements `gesso finetune`."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from gesso.cli import options as opt
from gesso.cli.given import Given
from gesso.cli.run_options import RunOptions
from gesso.config import LoraConfig
from gesso.train.config import TrainConfig
from gesso.train.data_config import FileDataConfig
from gesso.train.plan import Plan

USUAL: dict[str, Any] = {
    "batch_size": 16,
    "checkpoint_every": 100,
    "evaluate_every": 50,
    "held_out": 0.05,
    "max_length": 1024,
    "own_draft_rounds": 3,
    "sample_every": 100,
}
"""Defaults that are not the configs' own."""
_DATA, _ADAPTER = {"rich_help_panel": "Data"}, {"rich_help_panel": "Adapter"}
Files = Annotated[
    list[Path] | None,
    typer.Argument(help="JSON lines: chats (messages), pairs (prompt, completion) or plain text (text)."),
]
HeldOutFiles = Annotated[
    list[Path] | None,
    typer.Option("--held-out-file", metavar="FILE", help="Evaluate on this file instead. May be repeated.", **_DATA),
]
TrainVision = Annotated[
    bool,
    typer.Option("--train-vision", help="Train vision tower and projector as well; with --method full.", **_DATA),
]
Adapter = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Go on from this adapter, of gesso or PEFT (TRL); one with a delta each for encoder and decoder keeps "
        "both.",
        **_ADAPTER,
    ),
]
Experts = Annotated[bool, typer.Option("--experts", help="Deltas on the experts as well.", **_ADAPTER)]


@opt.takes(
    usual=USUAL,
    helps={"gradient_checkpointing": "Less memory for a third more work: on with qlora, else off without it."},
)
def finetune(
    run: RunOptions,
    planned: Given[Plan],
    train: Given[TrainConfig],
    reading: Given[FileDataConfig],
    shape: Given[LoraConfig],
    data: Files = None,
    out: opt.Out = None,
    model: opt.Model = "mini",
    held_out_file: HeldOutFiles = None,
    train_vision: TrainVision = False,
    adapter: Adapter = None,
    experts: Experts = False,
    estimate: opt.Estimate = False,
    offline: opt.Offline = False,
) -> int:
    """Fine-tune a model on your own data; the result is OUT/adapter, or OUT/model with --method full."""
    from gesso.cli.finetune_checks import check_contradictions, check_evaluation
    from gesso.errors import OptionError

    check_contradictions(planned, train, reading, shape, adapter, experts, held_out_file, estimate)
    plan = planned.build()
    lines = reading.build(held_out=0.0 if held_out_file else reading["held_out"], seed=train["seed"])
    evaluates = bool(lines.held_out or held_out_file)
    every = train["evaluate_every"] if evaluates else 0
    named = "held_out_file" if held_out_file else "held_out" if reading.values.get("held_out") else None
    check_evaluation(evaluates, every, train, named)
    settings = _settings(train, plan, every)
    lora = shape.build(targets=(*shape["targets"], *(("layers.*.experts",) if experts else ())))
    if estimate:
        from gesso.cli.finetune_estimate import print_finetune_estimate
        from gesso.models.hub import resolve_config

        return print_finetune_estimate(
            model,
            resolve_config(model, offline=offline),
            plan,
            settings,
            lora,
            tokens=lines.max_length,
            images=(data or [], lines.image_budget, train_vision),
            device=run.device,
        )
    if not data or out is None:
        raise OptionError(
            "gesso finetune needs DATA and --out, as in: gesso finetune chats.jsonl --out runs/mine", option="out"
        )
    run.prepare(out, result="model" if plan.method == "full" else "adapter")

    import dataclasses

    from gesso.cli.finetune_plan import print_plan
    from gesso.cli.model_notes import note_other_base
    from gesso.cli.training import is_main_process, print_result, run_command
    from gesso.models.hub import resolve
    from gesso.train.finetune import LEARNING_RATES, finetune_recipe
    from gesso.train.run_rate import rate_of_run

    rate, rate_is = plan.learning_rate, ""
    if rate is None:
        rate, rate_is = rate_of_run(out, LEARNING_RATES[plan.method])
    folder = resolve(model, offline=offline)
    note_other_base(adapter, model)
    recipe = finetune_recipe(
        data,
        folder,
        base=model,
        plan=dataclasses.replace(plan, learning_rate=rate),
        train=settings,
        data=lines,
        adapter=lora,
        held_out_files=held_out_file or (),
        train_vision=train_vision,
        adapter_start=adapter,
    )
    if is_main_process():
        print_plan(recipe, lines.vary_copies, settings.evaluation_examples if every else 0, rate_is)
    return run_command(recipe, out, run, partial(print_result, recipe, out))


def _settings(train: Given[TrainConfig], plan: Plan, every: int) -> TrainConfig:
    """The settings of the optimisation; the recipe decides on its steps.

    Args:
        every: steps between evaluations.
    """
    return train.build(
        steps=1,
        beta2=0.99,
        # Of the other canvases half get the first pass's self-conditioning, as released.
        self_conditioning_probability=(1 + plan.own_drafts) / 2,
        own_draft_probability=2 * plan.own_drafts / (1 + plan.own_drafts),
        gradient_checkpointing=train.values.get("gradient_checkpointing", plan.method == "qlora"),
        log_every=1 if plan.steps is not None and plan.steps <= 50 else 10,
        evaluate_every=every,
        sample_every=train["sample_every"] if train["sample_prompts"] else 0,
    )
