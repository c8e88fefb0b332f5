"""The step loop: requests join and leave between passes of the model.

Every iteration encodes what the scheduler picked, one flat pass over all of it, then gives each running request that
is ready one denoising step, again in one flat pass. Requests of one adapter share a pass. A request has its own cache,
settings and random generator, and its prompt is cut at the same places whoever else is there, so its result does not
depend on its neighbours.

Where a pass fails and errors are to be isolated, its requests are tried one by one, and those that fail alone are
ended with `Failed`.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from gesso.diffusion.denoise import denoise_step
from gesso.engine.events import Event, Failed
from gesso.engine.prefix_store import PrefixStore
from gesso.engine.request_state import RequestState
from gesso.engine.scheduler import Scheduler
from gesso.errors import GessoError
from gesso.models.adapter_switch import AdapterSwitch
from gesso.models.cache import KVCache, cache_bytes
from gesso.models.diffusion_gemma import DiffusionGemma

LOG = logging.getLogger(__name__)
LEAST_PREFILL = 512
"""Prompt tokens that an iteration reads where there are so many."""

UNBOUNDED = 2**62

StepOutputs = list[tuple[RequestState, list[Event]]]

Callbacks = list[tuple[RequestState, Callable[[], list[Event]]]]


@dataclass(slots=True)
class Counters:
    """What a loop has done since it began."""

    steps: int = 0
    canvas_steps: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    crashed_passes: int = 0


class EngineCore:
    """Waiting and running requests of one model. Not for several threads at once."""

    def __init__(
        self,
        model: DiffusionGemma,
        *,
        max_running: int,
        chunk: int,
        kv_memory: int | None = None,
        prefixes: PrefixStore | None = None,
        adapters: AdapterSwitch | None = None,
        isolate: bool = False,
    ) -> None:
        """
        Args:
            kv_memory: bound on the bytes of running caches and stored prefixes together.
            isolate: an error in a pass ends the requests that it concerns; without it, it is raised.
        """
        self.model = model
        self.chunk = chunk
        self.kv_memory = kv_memory
        self.counters = Counters()
        self.cache_bytes = 0
        self.held_bytes = (0, 0)
        """Running caches and stored prefixes after the last iteration, told together."""
        self.prefixes = prefixes
        self.scheduler: Scheduler[RequestState] = Scheduler(max_running, max(chunk, LEAST_PREFILL))
        self._adapters = adapters
        self._isolate = isolate

    @property
    def idle(self) -> bool:
        return self.scheduler.idle

    def need(self, sequence: RequestState) -> int:
        """Bytes of its cache, and of what is kept beside it."""
        config, dtype, max_write_len = self.model.config, self.model.dtype, self._max_write_len(sequence)
        need = cache_bytes(config, dtype, sequence.max_seq_len, max_write_len)
        if sequence.config.verify:  # a draft that is put off
            need += cache_bytes(config, dtype, sequence.canvas_length, max_write_len)
        return need

    @torch.inference_mode()
    def step(self) -> StepOutputs:
        """One iteration; events of all the requests it concerned, each request's in order."""
        happened: StepOutputs = []
        for sequence in [s for s in (*self.scheduler.running, *self.scheduler.waiting) if s.cancelled]:
            happened.append((sequence, sequence.cancel()))
            self.remove(sequence)
        for sequence in self.scheduler.admit(self._fits):
            self._begin(sequence)
        plan = self.scheduler.plan()
        counts = {id(sequence): sequence.chunk for sequence in plan.encode}
        for group in self._groups(plan.encode):
            self._pass(group, lambda part: self._encode(part, counts), happened)
        # What is written token by token has its next token to encode by now.
        for group in self._groups([s for s in plan.denoise if not s.finished and not s.pending]):
            steps = {id(sequence): sequence.canvas.steps for sequence in group}
            self._pass(group, lambda part, steps=steps: self._denoise(part, steps), happened)  # type: ignore[misc]
        for sequence, _ in happened:
            if sequence.finished:
                self.remove(sequence)
        self.held_bytes = (self.cache_bytes, self.prefixes.bytes if self.prefixes is not None else 0)
        return happened

    def _max_write_len(self, sequence: RequestState) -> int:
        return max(min(self.chunk, len(sequence.prompt)), sequence.canvas_length)

    def _fits(self, sequence: RequestState) -> bool:
        if self.kv_memory is None:
            return True
        free = self.kv_memory - self.cache_bytes - self.need(sequence)
        if free >= 0 and self.prefixes is not None:
            self.prefixes.shrink(free)
        return free >= 0

    def _begin(self, sequence: RequestState) -> None:
        row = self.model.new_cache(1, sequence.max_seq_len, self._max_write_len(sequence)).rows[0]
        self.cache_bytes += self.need(sequence)
        sequence.begin(row)
        self.counters.prompt_tokens += len(sequence.prompt)
        if self.prefixes is not None:
            sequence.skip(self.prefixes.restore(sequence.prompt, sequence.adapter, row))
            self.counters.cached_tokens += sequence.cached_tokens

    def remove(self, sequence: RequestState) -> None:
        """Let go of a request, wherever it is."""
        if sequence in self.scheduler.running:
            self.cache_bytes -= self.need(sequence)
            del sequence.cache
        if sequence in self.scheduler.running or sequence in self.scheduler.waiting:
            self.scheduler.remove(sequence)

    def _groups(self, sequences: Sequence[RequestState]) -> list[list[RequestState]]:
        """Requests that share their weights."""
        groups: dict[str | None, list[RequestState]] = {}
        for sequence in sequences:
            groups.setdefault(sequence.adapter, []).append(sequence)
        return list(groups.values())

    def _pass(
        self, group: list[RequestState], work: Callable[[list[RequestState]], Callbacks], happened: StepOutputs
    ) -> None:
        """Do the work for all of them, or else for each by itself; then conclude what it means for each."""
        try:
            if self._adapters is not None:
                self._adapters.activate(group[0].adapter)
            conclusions = work(group)
        except Exception as error:
            if not self._isolate:
                raise
            LOG.exception("a pass over %d requests failed", len(group))
            self.counters.crashed_passes += 1
            if len(group) == 1:
                happened.append((group[0], group[0].fail(_crash(error))))
                return
            for sequence in group:
                self._pass([sequence], work, happened)
            return
        for sequence, conclude in conclusions:
            try:
                happened.append((sequence, conclude()))
            except Exception as error:
                if not self._isolate:
                    raise
                LOG.exception("a request failed on what a pass said of it")
                happened.append((sequence, sequence.fail(_crash(error))))

    def _encode(self, group: list[RequestState], counts: dict[int, int]) -> Callbacks:
        tokens = [sequence.next_tokens(counts[id(sequence)]) for sequence in group]
        sizes = [len(part) for part in tokens]
        cache = KVCache([sequence.cache for sequence in group])
        flat = torch.tensor([token for part in tokens for token in part])
        hidden = self.model.encode_flat(flat, sizes, cache).split(sizes)
        return [(s, partial(self._take_encoded, s, part)) for s, part in zip(group, hidden, strict=True)]

    def _take_encoded(self, sequence: RequestState, hidden_TD: Tensor) -> list[Event]:
        if self.prefixes is not None and sequence.cache.length <= len(sequence.prompt):
            room = self.kv_memory - self.cache_bytes if self.kv_memory is not None else UNBOUNDED
            self.prefixes.put(sequence.prompt, sequence.adapter, sequence.cache, room)
        return sequence.take_encoded(hidden_TD, self.model.vocabulary)

    def _denoise(self, group: list[RequestState], steps: dict[int, int]) -> Callbacks:
        # A pass that failed half-way is done again: whoever took the step already takes no second one.
        todo = [sequence for sequence in group if sequence.canvas.steps == steps[id(sequence)]]
        if todo:
            denoise_step(self.model, [s.canvas for s in todo], KVCache([s.cache for s in todo]))
            self.counters.steps += 1
            self.counters.canvas_steps += len(todo)
        return [(sequence, sequence.advance) for sequence in group]


def _crash(error: Exception) -> Failed:
    told = str(error) if isinstance(error, GessoError) else type(error).__name__
    return Failed("crash", f"the model failed on this request ({told})")
