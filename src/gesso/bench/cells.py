"""Defines what is measured: one cell for every prompt length, output length, batch size and mode."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from gesso.config import ModelConfig
from gesso.diffusion.stopping import StoppingRule
from gesso.errors import OptionError
from gesso.generation import Mode
from gesso.options import checked, keyword, option

MODES: tuple[Mode, ...] = ("canvas", "ar")
"""Modes that are measured: `auto` would be one of the two."""
RANDOM_STEPS = 16
"""Steps of a canvas of random weights, which never settle, where nobody says how many."""


@dataclass(frozen=True, slots=True)
class Cell:
    """Describes a load: `batch` requests at a time, each of `prompt` tokens, that write `output` tokens each."""

    prompt: int
    output: int
    batch: int
    mode: Mode

    def canvases(self, width: int) -> int:
        """Counts the canvases of one answer."""
        return -(-self.output // width)

    def reach(self, width: int) -> int:
        """Counts the tokens that a request's cache holds at most, the last canvas included."""
        return self.prompt + self.canvases(width) * width


@dataclass(frozen=True, slots=True)
class Settings:
    """Configures how each cell is measured."""

    steps: int | None = None
    """Denoising steps of every canvas; None lets canvases stop where they settle."""
    repeats: int = option(3, "Times that a cell is measured.", minimum=1)
    warmup: int = option(1, "Times that it runs before.", minimum=0)

    def __post_init__(self) -> None:
        checked(self)
        if self.steps is not None and self.steps < 1:
            raise OptionError(f"--steps must be `real` or at least 1, got {self.steps}", option="steps")

    def options(self, cell: Cell, stopping: StoppingRule) -> Mapping[str, Any]:
        """Returns the options of a request of the cell: exactly so many tokens, and so many steps where they are given.

        Args:
            stopping: the rule of the model's defaults, which must not end a canvas earlier.
        """
        options: dict[str, Any] = {"mode": cell.mode, "max_new_tokens": cell.output, "ignore_eos": True, "verify": 0}
        if cell.mode == "canvas" and self.steps is not None:
            options |= {"max_denoising_steps": self.steps, **stopping.for_every_step()}
        return options


def make_cells(
    prompts: Sequence[int], outputs: Sequence[int], batches: Sequence[int], modes: Sequence[str]
) -> list[Cell]:
    """Makes a cell of every combination, modes innermost.

    Raises:
        OptionError: an empty list, a number below 1, or a mode that is not measured.
    """
    for flag, values in (("--prompt", prompts), ("--output", outputs), ("--batch", batches), ("--mode", modes)):
        if not values:
            raise OptionError(f"{flag} is empty", option=keyword(flag))
        for value in values:
            if isinstance(value, int) and value < 1:
                raise OptionError(f"{flag} must be at least 1, got {value}", option=keyword(flag))
    for mode in modes:
        if mode not in MODES:
            raise OptionError(f"--mode {mode!r} is not measured; known: {', '.join(MODES)}", option="mode")
    if "ar" in modes and min(outputs) < 2:
        raise OptionError(
            "--output must be at least 2 with --mode ar: the first token comes with the prompt", option="output"
        )
    kinds = [mode for mode in MODES if mode in modes]
    sizes = product(dict.fromkeys(prompts), dict.fromkeys(outputs), dict.fromkeys(batches))
    return [Cell(prompt, output, batch, mode) for prompt, output, batch in sizes for mode in kinds]


def check_lengths(cells: Iterable[Cell], config: ModelConfig) -> None:
    """Refuses cells whose requests do not fit the model.

    Raises:
        OptionError: a prompt and its output are past the model's limit.
    """
    width, limit = config.canvas_length, config.max_position_embeddings
    for cell in cells:
        if cell.reach(width) > limit:
            raise OptionError(
                f"--prompt {cell.prompt} and --output {cell.output} (in canvases of {width}) are past the model's "
                f"{limit} tokens",
                option="prompt",
            )
