"""Estimates what an answer costs as canvases and token by token, by which `mode: auto` chooses.

As canvases it costs `canvases * steps * seconds of a step`, token by token `tokens * seconds of a token`. The seconds
are measured on this model and device, alone: by the thread that runs the model, when it has nothing else to do, one
pass at a time, so that a request that comes meanwhile waits for one pass at most. Until they are known, a token is
taken to cost what a step does. Steps of a canvas and tokens of an answer are running means of the answers so far,
bounded by what the request itself allows. Both start with a guess: `STEPS`, and as many tokens as a canvas has. How
long the prompt is, with its spans of embeddings, and who runs beside, is left out: it slows down both.
"""

import logging
import statistics
from dataclasses import dataclass
from threading import Lock
from typing import Literal

from gesso.diffusion.canvas_state import CanvasState
from gesso.engine.canvases import Canvases
from gesso.generation import GenerationConfig
from gesso.runner.protocol import CacheHandle, CanvasItem, PrefillBatch, PrefillItem, Runner

LOG = logging.getLogger(__name__)

STEPS = 12.0
"""Denoising steps of a canvas before any was observed: the published model's average."""
WEIGHT = 0.1
"""Weight of the newest answer in a running mean."""
PROMPT, WARMUP, RUNS = 32, 3, 3
"""Prompt tokens before what is timed, passes that warm up (a CUDA graph is captured in the third), and passes timed."""
_TOKEN = 0
"""Stands for token by token where others stand for the width of a canvas."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Names the quicker mode, and why it is."""

    mode: Literal["canvas", "ar"]
    reason: str


class CostModel:
    """Estimates costs for one model. Threads may share it; only one of them measures."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._lock = Lock()
        self._measuring = Lock()
        self._step_seconds: dict[int, float] = {}
        self._token_seconds: float | None = None
        self._steps = STEPS
        self._tokens: float | None = None
        self._wanted: list[int] = []
        self._unmeasurable: set[int] = set()
        self._timing: _Timing | None = None

    def choose(self, width: int, most_tokens: int) -> Decision:
        """Chooses the mode of an answer of at most `most_tokens` on canvases of `width`, from the costs known now;
        unknown ones are queued to be measured."""
        with self._lock:
            missing = self._missing(width)
            self._wanted += [work for work in missing if work not in self._wanted and work not in self._unmeasurable]
            tokens = min(most_tokens, width if self._tokens is None else self._tokens)
            canvases = max(1, -(-round(tokens) // width))
            token = 1.0 if missing or self._token_seconds is None else self._token_seconds
            step = 1.0 if missing else self._step_seconds[width]
            as_canvas, as_tokens = canvases * self._steps * step, tokens * token
        shape = f"{canvases} canvas{'es' * (canvases > 1)} of {width} in {self._steps:.1f} steps each"
        if missing:
            reason = f"not measured yet, a token taken to cost what a step does: {tokens:.0f} tokens, or {shape}"
        else:
            reason = f"{tokens:.0f} tokens in {1e3 * as_tokens:.0f} ms, or {shape} in {1e3 * as_canvas:.0f} ms"
        return Decision("ar" if as_tokens < as_canvas else "canvas", reason)

    def learn(self, steps: list[int] | None, tokens: int) -> None:
        """Updates the running means with a finished answer of `tokens`.

        Args:
            steps: denoising steps of each of its canvases; None where it was written token by token.
        """
        with self._lock:
            self._tokens = float(tokens) if self._tokens is None else self._tokens + WEIGHT * (tokens - self._tokens)
            for count in steps or ():
                self._steps += WEIGHT * (count - self._steps)

    @property
    def wanted(self) -> bool:
        """Says whether there is a cost to measure."""
        return bool(self._wanted)

    def measure(self, width: int) -> None:
        """Measures, in the caller's thread, the costs for canvases of `width` that are not known yet."""
        self.choose(width, 1)
        while self.wanted:
            self.measure_pass()

    def measure_pass(self) -> None:
        """Runs one pass of the measurement under way. A measurement that fails is not tried again."""
        with self._measuring:
            if not self._wanted:
                return
            work = self._wanted[0]
            try:
                self._timing = self._timing or _Timing(self._runner, work)
                seconds = self._timing.run()
            except BaseException as error:
                self._drop()
                if not isinstance(error, Exception):  # an interrupt: another time
                    raise
                LOG.exception("the cost of a pass could not be measured")
                self._unmeasurable.add(work)
                return
            if seconds is None:
                return
            with self._lock:
                if work == _TOKEN:
                    self._token_seconds = seconds
                else:
                    self._step_seconds[work] = seconds
            self._drop()

    def stop(self) -> None:
        """Drops all measurements: the runner is about to go."""
        with self._measuring:
            if self._wanted:
                self._drop()
            self._wanted.clear()

    def _missing(self, width: int) -> list[int]:
        missing = [_TOKEN] if self._token_seconds is None else []
        return missing if width in self._step_seconds else [*missing, width]

    def _drop(self) -> None:
        """Removes the first cost from the queue, with its measurement."""
        del self._wanted[0]
        timing, self._timing = self._timing, None
        if timing is not None:
            timing.close()


class _Timing:
    """Times one kind of pass, pass by pass."""

    def __init__(self, runner: Runner, work: int) -> None:
        self._runner = runner
        self._kind: Literal["step", "token"] = "token" if work == _TOKEN else "step"
        self._width = max(1, work)
        self._cache: CacheHandle | None = None
        self._canvas = self._new_canvas()
        self._seconds: list[float] = []

    def run(self) -> float | None:
        """Runs one pass; returns the median of the timed ones, in seconds, after the last of them, None before."""
        if self._cache is None:
            max_seq_len = PROMPT + max(self._width, WARMUP + RUNS)
            self._cache = self._runner.new_cache(max_seq_len, max(PROMPT, self._width))
            prompt = PrefillItem(-1, self._cache, (0,) * PROMPT, keep=1)
            self._runner.prefill(PrefillBatch(None, (prompt,)))
            return None
        if self._kind == "token":
            self._canvas = self._new_canvas()
        self._seconds.append(self._runner.measure(self._kind, CanvasItem(-1, self._cache, self._canvas)))
        return statistics.median(self._seconds[WARMUP:]) if len(self._seconds) >= WARMUP + RUNS else None

    def close(self) -> None:
        """Releases the cache."""
        if self._cache is not None:
            self._runner.release(self._cache)

    def _new_canvas(self) -> CanvasState:
        """Returns a canvas that does not end within the passes of a measurement."""
        mode: Literal["canvas", "ar"] = "ar" if self._kind == "token" else "canvas"
        config = GenerationConfig(max_denoising_steps=WARMUP + RUNS + 1)
        # The mode at last: beside ar no option of a stopping rule may be given.
        config = config.override(**config.stopping_options.for_every_step()).override(mode=mode)
        canvases = Canvases(config, self._runner.config, self._width, 0)
        return canvases.make(0, (), self._width)
