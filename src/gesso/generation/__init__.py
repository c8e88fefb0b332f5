"""Defines the options of generation.

`GenerationConfig` has a checkpoint's defaults and a request's settings, `RequestOptions` what belongs to one request
alone; both are parts of the table of options.

`denoising_config` and `config` within `bounds` declare the configuration's options, over a `strategy_config` (how it
is made and changed); `strategies` (in the `table` of options) and `contradictions` are its parts, `request` is what a
single request may ask.
"""

from gesso.generation.bounds import LARGEST_BIAS, MOST_LOGPROBS, NARROWEST, VERIFY_THRESHOLD
from gesso.generation.config import GenerationConfig, generation_options
from gesso.generation.contradictions import CONSTRAINTS, PENALTIES, mode_of
from gesso.generation.denoising_config import CanvasWidths, Mode, Verify
from gesso.generation.request import IMAGE_BUDGETS, MEDIA, RequestOptions, engine_options, split_options
from gesso.generation.strategies import STRATEGIES
from gesso.generation.table import SAMPLING

__all__ = [
    "CONSTRAINTS",
    "IMAGE_BUDGETS",
    "LARGEST_BIAS",
    "MEDIA",
    "MOST_LOGPROBS",
    "NARROWEST",
    "PENALTIES",
    "SAMPLING",
    "STRATEGIES",
    "VERIFY_THRESHOLD",
    "CanvasWidths",
    "GenerationConfig",
    "Mode",
    "RequestOptions",
    "Verify",
    "engine_options",
    "generation_options",
    "mode_of",
    "split_options",
]
