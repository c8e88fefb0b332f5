"""Implements `gesso finetune`."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from gesso.cli import options as opt
from gesso.cli.run_options import RunOptions

if TYPE_CHECKING:
    from gesso.train.config import Optimizer, Precision
    from gesso.train.data_config import Thinking
    from gesso.train.plan import Method

DATA = "JSON lines: chats (messages), pairs (prompt, completion) or plain text (text)."
METHOD = "lora trains an adapter, qlora one over 4-bit weights, full all weights."
DRAFT_ROUNDS = 3
Files = Annotated[list[Path] | None, typer.Argument(help=DATA)]
Out = Annotated[Path | None, typer.Option(help="Folder of the run; a run that is there already goes on.")]
SamplePrompts = Annotated[
    list[str] | None, typer.Option("--sample-prompt", help="Answered on the way, to watch it learn; may be repeated.")
]
HeldOutFiles = Annotated[list[Path] | None, typer.Option("--held-out-file", help="Evaluate on this file instead.")]


@opt.takes(
    set_by={
        "keep_checkpoints": "--keep",
        "own_draft_probability": "--own-drafts",
        "own_draft_rounds": "--draft-rounds",
        "within_minutes": "--within",
    }
)
def finetune(
    run: RunOptions,
    data: Files = None,
    out: Out = None,
    model: opt.Model = "mini",
    method: Annotated[str, typer.Option(help=METHOD)] = "lora",
    epochs: Annotated[float | None, typer.Option(help="Times that each example is seen.  [default: 3.0]")] = None,
    steps: Annotated[int | None, typer.Option(help="Optimiser steps, instead of epochs.")] = None,
    batch_size: Annotated[int, typer.Option(help="Examples of a step, over all processes.")] = 16,
    micro_batch_size: Annotated[int | None, typer.Option(help="Examples at a time: less memory, same result.")] = None,
    canvases_per_example: Annotated[int, typer.Option(help="Canvases of each example that is read.")] = 1,
    own_drafts: Annotated[
        float, typer.Option(help="Share of the canvases that are drafts of the model's own, for it to correct.")
    ] = 0.0,
    draft_rounds: Annotated[int | None, typer.Option(help="Most rounds that such a draft went through; 3.")] = None,
    on_policy: Annotated[
        bool,
        typer.Option(
            "--on-policy",
            help="Learn every step of canvases that the model denoises itself from noise, not corrupted ones.",
        ),
    ] = False,
    time_exponent: Annotated[float, typer.Option(help="1 as released; less for noisier canvases.")] = 1.0,
    source_share: Annotated[
        float | None, typer.Option(help="Of pairs with a source, canvases that start from it; 0.5.")
    ] = None,
    distill: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            help="Learn to need fewer steps: say at a noise level what the start says X below; 1 is all noise.",
        ),
    ] = None,
    causal_only: Annotated[
        bool | None,
        typer.Option(
            "--causal-only/--no-causal-only",
            help="The causal pass alone learns, no canvases; on for models that write token by token.",
        ),
    ] = None,
    learning_rate: Annotated[
        float | None,
        typer.Option(
            help="2e-4, or 2e-5 with full; 3e-3 and 3e-4 below 30 million parameters; a run that goes on keeps its own."
        ),
    ] = None,
    max_length: Annotated[int, typer.Option(help="Tokens of an example; longer ones are left out.")] = 1024,
    held_out: Annotated[float | None, typer.Option(help="Share of the lines kept for evaluation; 0.05.")] = None,
    held_out_file: HeldOutFiles = None,
    thinking: Annotated[str, typer.Option(help="keep or strip the reasoning in the data.")] = "keep",
    image_budget: Annotated[
        int | None,
        typer.Option(help="Most soft tokens of an image: 70, 140, 280, 560, 1120; the checkpoint's own without it."),
    ] = None,
    train_vision: Annotated[
        bool, typer.Option("--train-vision", help="Train vision tower and projector as well; with --method full.")
    ] = False,
    vary_copies: Annotated[
        float,
        typer.Option(
            metavar="SHARE",
            help="Share of the examples shown with other words where the answer takes them from its prompt.",
        ),
    ] = 0.0,
    raw: Annotated[bool, typer.Option("--raw", help="Pairs without the chat template.")] = False,
    train_on_prompt: Annotated[
        bool, typer.Option("--train-on-prompt", help="The encoder learns the prompts as well.")
    ] = False,
    adapter: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Go on from this adapter, of gesso or PEFT (TRL); one with a delta each for encoder and decoder keeps "
            "both.",
        ),
    ] = None,
    rank: Annotated[int | None, typer.Option(help="Of the adapter's matrices; 8.")] = None,
    alpha: Annotated[float | None, typer.Option(help="Deltas are scaled by alpha / rank; 16.")] = None,
    dropout: Annotated[float | None, typer.Option(help="Of the adapter's input; 0.")] = None,
    target: opt.Targets = None,
    experts: Annotated[bool, typer.Option("--experts", help="Deltas on the experts as well.")] = False,
    gradient_checkpointing: Annotated[
        bool | None,
        typer.Option(
            "--gradient-checkpointing/--no-gradient-checkpointing",
            help="Less memory for a third more work; on with qlora.",
        ),
    ] = None,
    precision: Annotated[str, typer.Option(help="auto, float32 or bfloat16.")] = "auto",
    optimizer: opt.Optimizer = "adamw",
    expert_parallel: Annotated[
        int,
        typer.Option(metavar="N", help="Lay experts over the N processes that torchrun starts; tokens go to them."),
    ] = 1,
    context_parallel: opt.ContextParallel = 1,
    seed: Annotated[int, typer.Option(help="Of order, noise and fresh deltas.")] = 0,
    checkpoint_every: Annotated[int, typer.Option(help="Steps between checkpoints.")] = 100,
    keep: opt.Keep = 2,
    evaluate_every: Annotated[
        int | None, typer.Option(help="Steps between evaluations of the held-out loss; 0 never.  [default: 50]")
    ] = None,
    evaluation_examples: Annotated[
        int | None,
        typer.Option(help="So many of the held-out examples are evaluated, the first ones of the files; 256."),
    ] = None,
    patience: Annotated[int, typer.Option(help="End after so many evaluations without a better loss; 0 never.")] = 0,
    sample_prompt: SamplePrompts = None,
    sample_every: Annotated[int | None, typer.Option(help="Steps between answers to the sample prompts; 100.")] = None,
    within: opt.Within = None,
    estimate: opt.Estimate = False,
    offline: opt.Offline = False,
) -> int:
    """Fine-tune a model on your own data; the result is OUT/adapter, or OUT/model with --method full."""
    import dataclasses

    from gesso.cli.finetune_checks import check_contradictions, check_evaluation
    from gesso.cli.finetune_plan import print_plan
    from gesso.cli.model_notes import note_other_base
    from gesso.config import LoraConfig
    from gesso.errors import OptionError
    from gesso.models.hub import resolve, resolve_config
    from gesso.train.config import TrainConfig
    from gesso.train.data_config import FileDataConfig
    from gesso.train.finetune import finetune_recipe, rate_of_run
    from gesso.train.plan import Plan

    check_contradictions(
        method=method,
        adapter=adapter,
        shape={"rank": rank, "alpha": alpha, "dropout": dropout, "target": target},
        experts=experts,
        estimate=estimate,
        steps=steps,
        epochs=epochs,
        held_out=held_out,
        held_out_file=held_out_file,
        sample_every=sample_every,
        sample_prompt=sample_prompt,
        own_drafts=own_drafts,
        draft_rounds=draft_rounds,
    )
    share = 0.0 if held_out_file else 0.05 if held_out is None else held_out
    evaluates = bool(share or held_out_file)
    every = (50 if evaluate_every is None else evaluate_every) if evaluates else 0
    asked = {"patience": patience, "evaluate_every": evaluate_every, "evaluation_examples": evaluation_examples}
    check_evaluation(evaluates, every, asked)
    usual = LoraConfig()
    lora = LoraConfig(
        usual.rank if rank is None else rank,
        usual.alpha if alpha is None else alpha,
        usual.dropout if dropout is None else dropout,
        tuple(target or (*usual.targets, *(("layers.*.experts",) if experts else ()))),
    )
    settings = TrainConfig(
        steps=1,
        batch_size=batch_size,
        micro_batch_size=micro_batch_size,
        canvases_per_example=canvases_per_example,
        time_exponent=time_exponent,
        # Of the other canvases half get the first pass's self-conditioning, as released.
        self_conditioning_probability=(1 + own_drafts) / 2,
        own_draft_probability=2 * own_drafts / (1 + own_drafts),
        own_draft_rounds=DRAFT_ROUNDS if draft_rounds is None else draft_rounds,
        on_policy=on_policy,
        beta2=0.99,
        within_minutes=within,
        prompt_loss=train_on_prompt,
        gradient_checkpointing=method == "qlora" if gradient_checkpointing is None else gradient_checkpointing,
        precision=cast("Precision", precision),
        optimizer=cast("Optimizer", optimizer),
        expert_parallel=expert_parallel,
        context_parallel=context_parallel,
        seed=seed,
        checkpoint_every=checkpoint_every,
        keep_checkpoints=keep,
        log_every=1 if steps is not None and steps <= 50 else 10,
        evaluate_every=every,
        evaluation_examples=256 if evaluation_examples is None else evaluation_examples,
        patience=patience,
        sample_every=(100 if sample_every is None else sample_every) if sample_prompt else 0,
        sample_prompts=tuple(sample_prompt or ()),
    )
    plan = Plan(
        method=cast("Method", method),
        epochs=Plan().epochs if epochs is None else epochs,
        steps=steps,
        learning_rate=learning_rate,
        source_share=source_share,
        distill=distill,
        causal_only=causal_only,
    )
    reading = FileDataConfig(
        max_length=max_length,
        held_out=share,
        thinking=cast("Thinking", thinking),
        raw_pairs=raw,
        seed=seed,
        vary_copies=vary_copies,
        image_budget=image_budget,
    )
    if estimate:
        from gesso.cli.finetune_estimate import print_finetune_estimate

        return print_finetune_estimate(
            model,
            resolve_config(model, offline=offline),
            plan,
            settings,
            lora,
            tokens=max_length,
            images=(data or [], image_budget, train_vision),
            device=run.device,
        )
    if not data or out is None:
        raise OptionError(
            "gesso finetune needs DATA and --out, as in: gesso finetune chats.jsonl --out runs/mine", option="out"
        )
    run.prepare(out, result="model" if method == "full" else "adapter")
    rate, rate_is = (learning_rate, "") if learning_rate is not None else rate_of_run(out, plan.method)
    folder = resolve(model, offline=offline)
    note_other_base(adapter, model)
    recipe = finetune_recipe(
        data,
        folder,
        base=model,
        plan=dataclasses.replace(plan, learning_rate=rate),
        train=settings,
        data=reading,
        adapter=lora,
        held_out_files=held_out_file or (),
        train_vision=train_vision,
        adapter_start=adapter,
    )
    from gesso.cli.training import is_main_process, print_result, run_command

    if is_main_process():
        print_plan(recipe, vary_copies, settings.evaluation_examples if every else 0, rate_is)
    return run_command(recipe, out, run, partial(print_result, recipe, out))
