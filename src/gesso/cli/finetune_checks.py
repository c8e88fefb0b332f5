"""Refuses options of `gesso finetune` that exclude each other, or that need another."""

from collections.abc import Sequence
from pathlib import Path

from gesso.cli.given import Given
from gesso.config import LoraConfig
from gesso.errors import OptionError
from gesso.train.config import TrainConfig
from gesso.train.data_config import FileDataConfig
from gesso.train.plan import Plan


def check_contradictions(
    plan: Given[Plan],
    train: Given[TrainConfig],
    reading: Given[FileDataConfig],
    shape: Given[LoraConfig],
    adapter: Path | None,
    experts: bool,
    held_out_file: list[Path] | None,
    estimate: bool,
) -> None:
    """Raises OptionError where two options exclude each other, or one needs another."""
    shaped = [*shape.flags, *(["--experts"] if experts else [])]
    check_adapter(plan, [*shaped, *(["--estimate"] if estimate else [])], adapter)
    check_shape(plan, shaped)
    if experts and "targets" in shape:
        raise OptionError(
            "--experts adds the experts to the default targets; with --target name layers.*.experts", option="experts"
        )
    if "steps" in plan and "epochs" in plan:
        raise OptionError("--steps stands in the place of --epochs: give one of them", option="steps")
    if "held_out" in reading and held_out_file:
        raise OptionError("--held-out and --held-out-file exclude each other", option="held_out")
    if "sample_every" in train and "sample_prompts" not in train:
        raise OptionError("--sample-every needs a --sample-prompt", option="sample_every")
    if "own_draft_rounds" in train and not plan["own_drafts"]:
        raise OptionError("--draft-rounds needs --own-drafts", option="own_draft_rounds")
    for name in ("own_drafts", "source_share"):
        if train["on_policy"] and plan[name]:
            flag = f"--{name.replace('_', '-')}"
            message = f"{flag} corrupts canvases, and with --on-policy all begin as noise: one of them"
            raise OptionError(message, option=name)


def check_adapter(plan: Given[Plan], others: Sequence[str], adapter: Path | None) -> None:
    """Raises OptionError where a run goes on from an adapter, and something does not go with that.

    Args:
        others: flags that do not.
    """
    full = ["--method full"] if plan["method"] == "full" else []
    if adapter is not None and (wrong := [*full, *others]):
        message = f"--adapter has its own shape and goes on from there: leave out {wrong[0]}"
        raise OptionError(message, option="adapter")


def check_shape(plan: Given[Plan], shaped: Sequence[str]) -> None:
    """Raises OptionError where no adapter is trained, and flags shape one.

    Args:
        shaped: those flags.
    """
    if plan["method"] == "full" and shaped:
        raise OptionError(f"{shaped[0]} shapes an adapter, and --method full trains none", option="method")


def check_evaluation(evaluates: bool, every: int, train: Given[TrainConfig], held_out: str | None = None) -> None:
    """Raises OptionError where something is asked of evaluations, and there are none.

    Args:
        evaluates: whether something is held out.
        every: steps between evaluations; 0 never.
        held_out: the option that says what is held out, where one was given.
    """
    for option in ("patience", "evaluate_every", "evaluation_examples"):
        if train.values.get(option) and not evaluates:
            flag = option.replace("_", "-")
            raise OptionError(f"--{flag} needs held-out examples, and --held-out 0 leaves none", option=option)
    asked = "evaluation_examples" if "evaluation_examples" in train else held_out
    if asked is not None and not every:
        raise OptionError(f"--{asked.replace('_', '-')} means nothing with --evaluate-every 0", option=asked)
