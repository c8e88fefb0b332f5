"""Configures how the lines of data files become examples."""

from dataclasses import MISSING, dataclass
from typing import Literal

from gesso.options import OneOf, checked, option
from gesso.train.option_groups import DATA, IN_CODE
from gesso.vision.size import BUDGETS

Thinking = Literal["keep", "strip"]


@dataclass(frozen=True, slots=True)
class FileDataConfig:
    """Configures how lines become examples, and in which order they come.

    Raises:
        OptionError: an impossible value.
    """

    max_length: int = option(
        MISSING,
        "Tokens of prompt and answer together. Longer examples are left out; plain text is cut instead.",
        minimum=2,
        **DATA,
    )
    held_out: float = option(
        0.0,
        "Share of the lines kept for evaluation, chosen by a hash of each line.",
        minimum=0,
        below=0.5,
        **DATA,
    )
    thinking: Thinking = option(
        "keep",
        "Whether reasoning in the data is learned: with keep a turn that has some is prompted for with thinking on.",
        **DATA,
    )
    raw_pairs: bool = option(
        False,
        "Pairs without the chat template: bos and the prompt as it is, the completion as it is and eos.",
        flag="--raw",
        **DATA,
    )
    bucketed: bool = option(True, "Whether examples of like length come into one batch.", **IN_CODE)
    seed: int = option(0, "Seed of the order alone; it decides nothing else.", minimum=0, **IN_CODE)
    vary_copies: float = option(
        0.0,
        "Share of the times an example is read that the words its answer takes from its prompt are others.",
        minimum=0,
        maximum=1,
        **DATA,
    )
    image_budget: int | None = option(
        None,
        "Most soft tokens of an image whose part names no budget: 70, 140, 280, 560 or 1120.",
        kind=OneOf(BUDGETS),
        unset="the checkpoint's own",
        **DATA,
    )

    def __post_init__(self) -> None:
        checked(self)
