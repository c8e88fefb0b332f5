"""What an answer costs as canvases and token by token: how `mode: auto` chooses.

As canvases it costs `canvases * steps * seconds of a step`, token by token `tokens * seconds of a token`. The seconds
are measured on this model and device, alone, when they are first needed; steps of a canvas and tokens of an answer are
running means of the answers so far, bounded by what the request itself allows. Both start with a guess: `STEPS`, and as
many tokens as a canvas has. How long the prompt is, and who runs beside, is left out: it slows down both.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Literal

import torch

from gesso.diffusion.denoise import CanvasState, DenoisingRules, denoise_step, take_step
from gesso.models.diffusion_gemma import DiffusionGemma

STEPS = 12.0
"""Of a canvas, before any was seen: what the published model needs on average."""
WEIGHT = 0.1
"""Of the newest answer in a running mean."""
PROMPT, RUNS = 32, 3
"""Tokens before what is timed, and how often it is."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Which way is quicker, and why."""

    mode: Literal["canvas", "ar"]
    reason: str


class CostModel:
    """Estimates for one model; threads may share it."""

    def __init__(self, model: DiffusionGemma) -> None:
        self._model = model
        self._lock = Lock()
        self._step_seconds: dict[int, float] = {}
        self._token_seconds: float | None = None
        self._steps = STEPS
        self._tokens: float | None = None

    def choose(self, width: int, most_tokens: int) -> Decision:
        """For an answer of at most `most_tokens` on canvases of `width`."""
        with self._lock:
            if self._token_seconds is None:
                self._token_seconds = self._time_token()
            if width not in self._step_seconds:
                self._step_seconds[width] = self._time_step(width)
            tokens = min(most_tokens, width if self._tokens is None else self._tokens)
            canvases = max(1, -(-round(tokens) // width))
            as_canvas = canvases * self._steps * self._step_seconds[width]
            as_tokens = tokens * self._token_seconds
        mode: Literal["canvas", "ar"] = "ar" if as_tokens < as_canvas else "canvas"
        reason = (
            f"{tokens:.0f} tokens in {1e3 * as_tokens:.0f} ms, or {canvases} canvas{'es' * (canvases > 1)} "
            f"of {width} in {self._steps:.1f} steps each in {1e3 * as_canvas:.0f} ms"
        )
        return Decision(mode, reason)

    def learn(self, steps: list[int] | None, tokens: int) -> None:
        """An answer of `tokens` is finished; `steps` are those of its canvases, None where it was written by token."""
        with self._lock:
            self._tokens = float(tokens) if self._tokens is None else self._tokens + WEIGHT * (tokens - self._tokens)
            for count in steps or ():
                self._steps += WEIGHT * (count - self._steps)

    def _time_token(self) -> float:
        model, state = self._model, self._state(1)
        cache = model.new_cache(1, PROMPT + RUNS + 1, PROMPT)

        def token() -> None:
            hidden = model.encode_flat(torch.zeros(1, dtype=torch.long), [1], cache)
            take_step(model.vocabulary, [state], [hidden])
            state.steps, state.converged = 0, False

        with torch.inference_mode():
            model.encode_flat(torch.zeros(PROMPT, dtype=torch.long), [PROMPT], cache)
            return self._time(token)

    def _time_step(self, width: int) -> float:
        model, state = self._model, self._state(width)
        cache = model.new_cache(1, PROMPT + width, max(PROMPT, width))

        def step() -> None:
            denoise_step(model, [state], cache)
            state.steps, state.converged = 0, False

        with torch.inference_mode():
            model.encode_flat(torch.zeros(PROMPT, dtype=torch.long), [PROMPT], cache)
            return self._time(step)

    def _time(self, work: Callable[[], None]) -> float:
        """Median seconds, after one run that warms up."""
        times = []
        for _ in range(RUNS + 1):
            started = time.perf_counter()
            work()
            times.append(time.perf_counter() - started)
        return statistics.median(times[1:])

    def _state(self, width: int) -> CanvasState:
        rules = DenoisingRules(max_denoising_steps=2)
        return CanvasState(rules, self._model.config.vocab_size, width, torch.Generator().manual_seed(0))
