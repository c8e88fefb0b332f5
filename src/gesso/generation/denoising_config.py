"""Declares what a request may ask of the length of its answer and of how its canvases are denoised."""

from dataclasses import dataclass
from typing import Literal

from gesso.diffusion.samplers import Sampler
from gesso.diffusion.schedules import Schedule
from gesso.diffusion.stopping import StoppingRule
from gesso.generation import bounds
from gesso.generation.strategies import strategy_option
from gesso.generation.strategy_config import StrategyConfig
from gesso.generation.table import ANSWER, DENOISING, GUIDANCE
from gesso.options import IntegerOrWord, option

Mode = Literal["canvas", "ar", "auto"]
Verify = int | Literal["auto", "exact"]
CanvasWidths = Literal["full", "need", "auto"]


@dataclass(frozen=True, slots=True, init=False)
class DenoisingConfig(StrategyConfig):
    """Holds the first options of a `GenerationConfig`, in the order of `--help`."""

    max_new_tokens: int = option(
        256,
        "Most tokens of the answer.",
        unit="tokens",
        minimum=1,
        field="max_tokens",
        file="generation_config.json",
        group=ANSWER,
    )
    min_new_tokens: int = option(
        0,
        "Fewest tokens of the answer: none of them ends it, and no stop text counts in them.",
        unit="tokens",
        minimum=0,
        field="min_tokens",
        group=ANSWER,
    )
    max_denoising_steps: int = option(
        48,
        "Most denoising steps a canvas takes; token by token there are none.",
        unit="steps",
        minimum=1,
        maximum=bounds.MOST_STEPS,
        file="generation_config.json",
        group=DENOISING,
    )
    restart_steps: int | None = option(
        None,
        "Steps after which a canvas that has not settled starts again from noise, and the schedule with it; "
        "max_denoising_steps counts them all. Canvases that start from a given text do not.",
        unit="steps",
        minimum=1,
        unset="never",
        file="gesso.json",
        group=DENOISING,
    )
    sampler: str = strategy_option(
        "sampler",
        "Which tokens of a step a canvas keeps, and what becomes of the others.",
        file="generation_config.json",
        group=DENOISING,
    )
    sampler_options: Sampler = None  # type: ignore[assignment]
    """The sampler itself, its options set."""
    schedule: str = strategy_option(
        "schedule", "How the temperature falls from step to step.", file="gesso.json", group=DENOISING
    )
    schedule_options: Schedule = None  # type: ignore[assignment]
    stopping: str = strategy_option(
        "stopping", "When a canvas is done before its last step.", file="gesso.json", group=DENOISING
    )
    stopping_options: StoppingRule = None  # type: ignore[assignment]
    canvas_length: int | None = option(
        None,
        "Tokens of a canvas: from 4 to the model's own number.",
        unit="tokens",
        minimum=1,
        unset="the model's",
        group=DENOISING,
    )
    canvas_width: CanvasWidths = option(
        "full",
        "Width of each canvas: full, need (no wider than what is left to write) or auto (starts with an eighth and "
        f"doubles); never below {bounds.NARROWEST} tokens.",
        group=DENOISING,
    )
    stop_at_end: bool = option(False, "Only what stands before the answer's end must settle.", group=DENOISING)
    verify: Verify = option(
        0,
        "Rounds in which tokens that the causal pass disputes are redone before a canvas is committed; auto: one, past "
        "canvas 1; exact: as many as it takes until every token is the causal pass's own.",
        unit="rounds",
        kind=IntegerOrWord(("auto", "exact"), "rounds", 0, bounds.MOST_ROUNDS),
        file="gesso.json",
        group=DENOISING,
    )
    verify_threshold: float | None = option(
        None,
        "By how much the causal pass must find another token likelier to dispute one.",
        unit="nats",
        minimum=0,
        unset=f"{bounds.VERIFY_THRESHOLD:g}; 0 with verify exact",
        group=DENOISING,
    )
    guidance_scale: float = option(
        1.0,
        "Classifier-free guidance: logits are those behind negative_prompt, plus so many times what the prompt adds to "
        "them. 1 is none; others take a second pass a step.",
        minimum=0,
        maximum=bounds.MOST_GUIDANCE,
        group=GUIDANCE,
    )
    guidance_start: float = option(
        1.0, "Noise level, from 1 down to 0, from which guidance holds.", above=0, maximum=1, group=GUIDANCE
    )
    guidance_end: float = option(
        0.0, "Noise level from which on it does not hold any more.", minimum=0, below=1, group=GUIDANCE
    )
    mode: Mode = option(
        "canvas", "canvas, ar (token by token, same weights), or auto: the quicker.", file="gesso.json", group=DENOISING
    )
