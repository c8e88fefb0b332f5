"""Refuses options of `gesso finetune` that exclude each other, or that need another."""

from collections.abc import Mapping
from pathlib import Path

from gesso.errors import OptionError


def check_contradictions(
    *,
    method: str,
    adapter: Path | None,
    shape: Mapping[str, object],
    experts: bool,
    estimate: bool,
    steps: int | None,
    epochs: float | None,
    held_out: float | None,
    held_out_file: list[Path] | None,
    sample_every: int | None,
    sample_prompt: list[str] | None,
    own_drafts: float,
    draft_rounds: int | None,
) -> None:
    """Raises OptionError where two options exclude each other, or one needs another.

    Args:
        shape: options that shape an adapter, by name; None where one was not given.
    """
    shaped = [name for name, value in shape.items() if value is not None]
    if adapter is not None and (method == "full" or shaped or experts or estimate):
        other = "method full" if method == "full" else (shaped or ["experts" if experts else "estimate"])[0]
        raise OptionError(f"--adapter has its own shape and goes on from there: leave out --{other}", option="adapter")
    if method == "full" and (shaped or experts):
        raise OptionError(f"--{(shaped or ['experts'])[0]} shapes an adapter, and --method full trains none")
    if experts and shape["target"]:
        raise OptionError(
            "--experts adds the experts to the default targets; with --target name layers.*.experts", option="experts"
        )
    if steps is not None and epochs is not None:
        raise OptionError("--steps stands in the place of --epochs: give one of them", option="steps")
    if held_out is not None and held_out_file:
        raise OptionError("--held-out and --held-out-file exclude each other", option="held_out")
    if sample_every is not None and not sample_prompt:
        raise OptionError("--sample-every needs a --sample-prompt", option="sample_every")
    if draft_rounds is not None and not own_drafts:
        raise OptionError("--draft-rounds needs --own-drafts", option="draft_rounds")
    if not 0 <= own_drafts <= 1:
        raise OptionError(f"--own-drafts must be at least 0 and at most 1, got {own_drafts:g}", option="own_drafts")


def check_evaluation(evaluates: bool, every: int, asked: Mapping[str, int | None]) -> None:
    """Raises OptionError where something is asked of evaluations, and there are none.

    Args:
        evaluates: whether something is held out.
        every: steps between evaluations; 0 never.
        asked: options of evaluations by name; None or 0 where nothing is asked.
    """
    for option, value in asked.items():
        if value and not evaluates:
            flag = option.replace("_", "-")
            raise OptionError(f"--{flag} needs held-out examples, and --held-out 0 leaves none", option=option)
    if asked["evaluation_examples"] and not every:
        raise OptionError("--evaluation-examples means nothing with --evaluate-every 0", option="evaluation_examples")
