"""Measures one cell after the other, through the engine's own loop."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from gesso.bench.cells import Cell, Settings
from gesso.bench.floor import Work, step_work
from gesso.bench.images import BenchImages
from gesso.bench.machine import synchronise
from gesso.bench.meter import EnergyMeter, MemoryMeter
from gesso.bench.spread import Spread
from gesso.engine.engine import Engine, Request
from gesso.engine.engine_core import Callbacks, EngineCore, StepOutputs
from gesso.engine.request_state import RequestState
from gesso.engine.result import GenerationResult
from gesso.models.family import only_diffusion_gemma
from gesso.text.tokenizer import TokenIds
from gesso.vision.size import DEFAULT_BUDGET

SEED = 1
TEXT = "The blue kettle costs 36 euros and is made in Oslo. Sort: pear, fig, apple, kiwi. What is 481 + 296? "


@dataclass(frozen=True, slots=True)
class CellResult:
    """Holds what was measured of a cell. A step is a pass of the denoiser with all that follows from it; left to
    right it is a token."""

    cell: Cell
    repeats: int
    first_block_s: Spread
    """Seconds until the first canvas, or token, stood: the median over the batch."""
    step_ms: Spread
    """The median step of a repeat, of the steps that concerned most requests."""
    step_rows: int
    """Requests that these steps concerned."""
    steps_per_canvas: float
    tokens_per_forward: float
    tokens_per_s: Spread
    """Tokens a second of the whole batch, prompts included."""
    peak_bytes: int
    """Bytes at the peak beyond what was held before the first cell; weights are included."""
    peak_is_of_cell: bool
    joules: float | None
    """Joules of a repeat in the median; None where the device does not tell."""
    work: Work


class TimedLoop(EngineCore):
    """Runs an engine core and notes the seconds of every step, with the number of requests in it."""

    def __init__(self, engine: Engine, rows: int) -> None:
        super().__init__(engine.runner, max_running=rows, chunk=engine.chunk)
        self.passes: list[tuple[int, float]] = []

    def step(self) -> StepOutputs:
        running = self.scheduler.running
        # Token by token, a step is a whole iteration: the causal pass, then the vocabulary.
        writes = bool(running) and not self.scheduler.waiting
        writes = writes and all(s.config.mode == "ar" and not s.reads_prompt for s in running)
        count, started = len(running), time.perf_counter()
        outputs = super().step()
        if writes:
            self._note(count, started)
        return outputs

    def _denoise(self, steps: dict[int, int], group: list[RequestState]) -> Callbacks:
        synchronise(self.runner.device)
        started = time.perf_counter()
        callbacks = super()._denoise(steps, group)
        self._note(len(group), started)
        return callbacks

    def _note(self, count: int, started: float) -> None:
        synchronise(self.runner.device)
        self.passes.append((count, time.perf_counter() - started))


@dataclass(frozen=True, slots=True)
class _Run:
    """One repeat."""

    results: list[GenerationResult]
    passes: list[tuple[int, float]]
    seconds: float
    joules: float | None


class Bench:
    """Measures cells of one engine. Memory is counted from here on."""

    def __init__(
        self,
        engine: Engine,
        settings: Settings,
        stopped: Callable[[], bool] = lambda: False,
        images: BenchImages | None = None,
    ) -> None:
        """
        Args:
            stopped: asked before every pass; once it says so, a cell ends with the repeats that are whole.
            images: what every prompt begins with; the tower encodes them anew in every repeat.
        """
        self._images = images or BenchImages(engine, (), DEFAULT_BUDGET)
        self._engine = engine
        self._settings = settings
        self._stopped = stopped
        if engine.model.device.type == "cpu":
            for tensor in engine.model.state_dict().values():
                tensor.clone()  # weights that are mapped from a file become resident by being read
        self._memory = MemoryMeter(engine.model.device)
        self._energy = EnergyMeter(engine.model.device)

    def measure(self, cell: Cell) -> CellResult | None:
        """Runs a warm-up, then the repeats; returns None where not one of them was finished."""
        texts = (prompt_tokens(self._engine, cell.prompt, row) for row in range(cell.batch))
        prompts = [self._images.before(text) for text in texts]
        for _ in range(self._settings.warmup):
            if self._run(cell, prompts) is None:
                return None
        self._memory.start()
        runs: list[_Run] = []
        while len(runs) < self._settings.repeats and (run := self._run(cell, prompts)) is not None:
            runs.append(run)
        return self._result(cell, runs) if runs else None

    def _run(self, cell: Cell, prompts: Sequence[Sequence[int]]) -> _Run | None:
        engine = self._engine
        options = self._settings.options(cell, engine.defaults.stopping_options)
        loop = TimedLoop(engine, cell.batch)
        shown = ({"images": images} if (images := self._images.fresh()) else {} for _ in prompts)
        sequences = [
            engine.start(Request(list(ids), {**options, **images, "seed": SEED + i}))
            for i, (ids, images) in enumerate(zip(prompts, shown, strict=True))
        ]
        for sequence in sequences:
            loop.scheduler.add(sequence)
        device, before = engine.model.device, self._energy.joules()
        started = time.perf_counter()
        while not loop.idle:
            if self._stopped():
                return None
            loop.step()
        synchronise(device)
        seconds, after = time.perf_counter() - started, self._energy.joules()
        joules = None if before is None or after is None else after - before
        return _Run([sequence.result() for sequence in sequences], loop.passes, seconds, joules)

    def _result(self, cell: Cell, runs: list[_Run]) -> CellResult:
        most = max(rows for run in runs for rows, _ in run.passes)
        results = [result for run in runs for result in run.results]
        steps = [count for result in results for count in result.denoising_steps]
        joules = [run.joules for run in runs if run.joules is not None]
        return CellResult(
            cell=cell,
            repeats=len(runs),
            first_block_s=Spread.of(statistics.median(r.seconds_to_first_block for r in run.results) for run in runs),
            step_ms=Spread.of(1e3 * statistics.median(s for rows, s in run.passes if rows == most) for run in runs),
            step_rows=most,
            steps_per_canvas=sum(steps) / len(steps),
            tokens_per_forward=sum(r.completion_tokens for r in results) / sum(steps),
            tokens_per_s=Spread.of(sum(r.completion_tokens for r in run.results) / run.seconds for run in runs),
            peak_bytes=self._memory.peak(),
            peak_is_of_cell=self._memory.exact,
            joules=statistics.median(joules) if joules else None,
            work=step_work(only_diffusion_gemma(self._engine.model, "model", "gesso bench"), cell, most),
        )


def prompt_tokens(engine: Engine, length: int, row: int) -> list[int]:
    """Makes a prompt of exactly `length` tokens, another for each row: a text over and over, or random tokens where
    there is no tokenizer."""
    if isinstance(engine.tokenizer, TokenIds):
        config = engine.model.config
        generator = torch.Generator().manual_seed(SEED + row)
        # A few more than needed: tokens that stand for images are left out.
        drawn = torch.randint(config.vocab_size, (2 * length + 64,), generator=generator).tolist()
        return [token for token in drawn if token not in config.image_token_ids][:length]
    text = engine.tokenizer.encode(TEXT)
    return [text[(row + place) % len(text)] for place in range(length)]
