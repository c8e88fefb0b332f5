"""Prints what a run of `gesso finetune` is about to do. Imported when one starts."""

from typing import cast

from gesso.cli.progress import stderr_console
from gesso.train.file_data import FileData
from gesso.train.recipe import Recipe

COPYING = 0.5
"""Share of the answers' words that prompts hold from which on the option for them is named."""


def print_plan(recipe: Recipe, vary_copies: float, evaluated: int, rate_is: str) -> None:
    """Prints what the data holds and how much of it is evaluated, and names the options for what is left to a default
    or to chance.

    Args:
        evaluated: held-out examples that are, at most.
        rate_is: what the learning rate is, where it was not given; else empty.
    """
    told = stderr_console(markup=False)
    examples = cast(FileData, recipe.examples)
    told.print(examples.report.summary, style="dim")
    unused = list(examples.report.unused)
    if examples.report.changes and not recipe.train.denoiser_loss_weight:
        unused.append("source (canvases start from it, and the causal pass learns alone: --no-causal-only)")
    if unused:
        told.print(f"keys of the data that are not used: {', '.join(unused)}", style="dim")
    if 0 < evaluated < (held_out := examples.report.held_out):
        told.print(
            f"the held-out loss is that of the first {evaluated:,} of {held_out:,} held out: --evaluation-examples",
            style="dim",
        )
    if rate_is:
        told.print(f"learning rate {recipe.train.learning_rate:g}, {rate_is}: --learning-rate", style="dim")
    if not vary_copies and (share := examples.copied_share()) >= COPYING:
        told.print(
            f"{share:.0%} of the answers' words stand in their prompts: where they are taken as they are,"
            " --vary-copies 0.9 teaches to copy any",
            style="dim",
        )
