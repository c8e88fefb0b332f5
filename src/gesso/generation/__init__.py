"""What may be asked of generation: `GenerationConfig` (a checkpoint's defaults and a request's settings) and
`RequestOptions` (what belongs to one request alone), both parts of the table of options."""

from gesso.generation.config import (
    CONSTRAINTS,
    LARGEST_BIAS,
    MOST_LOGPROBS,
    MOST_ROUNDS,
    MOST_TEMPERATURE,
    NARROWEST,
    SAMPLING,
    STRATEGIES,
    VERIFY_THRESHOLD,
    CanvasWidths,
    GenerationConfig,
    Mode,
    Verify,
    generation_options,
)
from gesso.generation.request import IMAGE_BUDGETS, MEDIA, RequestOptions, engine_options, split_options

__all__ = [
    "CONSTRAINTS",
    "IMAGE_BUDGETS",
    "LARGEST_BIAS",
    "MEDIA",
    "MOST_LOGPROBS",
    "MOST_ROUNDS",
    "MOST_TEMPERATURE",
    "NARROWEST",
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
    "split_options",
]
