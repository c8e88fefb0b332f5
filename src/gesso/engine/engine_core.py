"""Runs the step loop: requests join and leave between passes of the model.

Every iteration encodes what the scheduler picked, one flat pass over all of it, then gives each running request that
is ready one denoising step, again in one flat pass. Requests of one adapter share a pass. A request has its own cache,
settings and random generator, and its prompt is cut at the same places whoever else is there, so its result does not
depend on its neighbours.

Where a pass fails and errors are to be isolated, its requests are tried one by one, and those that fail alone are
ended with `Failed`, as is one that gets no cache. Stored prefixes are a help and no more: where they fail, requests run
without. What is left, a device that is lost or a fault of the loop itself, comes out of `step` as `EngineDeadError` or
as it is, and is the end of the loop.
"""

import logging
import sys
import traceback
from collections.abc import Callable, Sequence
from functools import partial

import torch

from gesso.engine.events import Event, Failed
from gesso.engine.limits import Counters
from gesso.engine.prefix_store import PrefixStore
from gesso.engine.progress import after_prefill, after_step, cancel, fail
from gesso.engine.request_state import RequestState
from gesso.engine.scheduler import Scheduler
from gesso.errors import EngineDeadError, GessoError, OptionError
from gesso.runner.protocol import CanvasBatch, CanvasItem, PrefillBatch, PrefillItem, Runner

LOG = logging.getLogger(__name__)
LEAST_PREFILL = 512
"""Prompt tokens that an iteration reads at least, where that many are pending."""


StepOutputs = list[tuple[RequestState, list[Event]]]

Callbacks = list[tuple[RequestState, Callable[[], list[Event]]]]


class EngineCore:
    """Steps the waiting and running requests of one runner. Only one thread may use it."""

    def __init__(
        self,
        runner: Runner,
        *,
        max_running: int,
        chunk: int,
        kv_memory: int | None = None,
        prefixes: PrefixStore | None = None,
        isolate: bool = False,
    ) -> None:
        """
        Args:
            chunk: prompt tokens encoded at a time; an iteration reads no fewer, where there are so many.
            kv_memory: bound on the bytes of running caches and stored prefixes together.
            isolate: an error in a pass ends the requests that it concerns; without it, it is raised.
        """
        self.runner = runner
        self.kv_memory = kv_memory
        self.counters = Counters()
        self.cache_bytes = 0
        self.held_bytes = (0, 0)
        """Bytes of running caches and of stored prefixes after the last iteration."""
        self.prefixes = prefixes
        self.scheduler: Scheduler[RequestState] = Scheduler(max_running, max(chunk, LEAST_PREFILL))
        self._isolate = isolate

    @property
    def idle(self) -> bool:
        """Says whether no request waits or runs."""
        return self.scheduler.idle

    def need(self, request: RequestState) -> int:
        """Returns the bytes of a request's cache, and of a candidate block that may be rolled back."""
        need = self.runner.cache_bytes(request.max_seq_len, request.max_write_len)
        if request.config.verify:  # a candidate that is rolled back
            need += self.runner.cache_bytes(request.canvas_length, request.max_write_len)
        if request.second_lengths is not None:
            need += self.runner.cache_bytes(*request.second_lengths)
        return need

    @torch.inference_mode()
    def step(self) -> StepOutputs:
        """Runs one iteration and returns the events of all requests it concerned, each request's in order.

        Raises:
            EngineDeadError: the device is lost.
        """
        outputs: StepOutputs = []
        for request in [r for r in (*self.scheduler.running, *self.scheduler.waiting) if r.cancelled]:
            outputs.append((request, cancel(request)))
            self.remove(request)
        for request in self.scheduler.admit(self._fits):
            self._begin(request, outputs)
        plan = self.scheduler.plan()
        encode = [r for r in plan.encode if not r.finished]
        for group in self._groups(encode):
            self._pass(group, self._encode, outputs)
        # What is written token by token has its next token to encode by now.
        for group in self._groups([r for r in plan.denoise if not r.finished and not r.pending]):
            steps = {request.number: request.canvas.steps for request in group}
            self._pass(group, partial(self._denoise, steps), outputs)
        for request, _ in outputs:
            if request.finished:
                self.remove(request)
        self._note_held()
        return outputs

    def remove(self, request: RequestState) -> None:
        """Releases what a request holds, and takes it out of the queue or the running ones."""
        self.cache_bytes -= request.reserved
        request.reserved = 0
        if request.cache is not None:
            self.runner.release(request.cache)
            request.cache = None
        if request.second_cache is not None:
            self.runner.release(request.second_cache)
            request.second_cache = None
        if request in self.scheduler.running or request in self.scheduler.waiting:
            self.scheduler.remove(request)
        self._note_held()

    def close(self) -> None:
        """Removes every request, and drops the stored prefixes."""
        for request in (*self.scheduler.running, *self.scheduler.waiting):
            self.remove(request)
        if self.prefixes is not None:
            self.prefixes.clear()
        self._note_held()

    def _note_held(self) -> None:
        self.held_bytes = (self.cache_bytes, self.prefixes.bytes if self.prefixes is not None else 0)

    def _fits(self, request: RequestState) -> bool:
        if self.kv_memory is None:
            return True
        free = self.kv_memory - self.cache_bytes - self.need(request)
        if free >= 0 and self.prefixes is not None:
            self.prefixes.shrink(free)
        return free >= 0

    def _begin(self, request: RequestState, outputs: StepOutputs) -> None:
        """Gives a request that leaves the queue its cache; its clock runs from here."""
        request.output.start_clock()
        try:
            request.cache = self.runner.new_cache(request.max_seq_len, request.max_write_len)
            if request.second_lengths is not None:
                request.second_cache = self.runner.new_cache(*request.second_lengths)
            restored = self._restore_prefix(request)
        except Exception as error:
            self._fail(request, error, "a request got no cache", outputs)
            return
        request.reserved = self.need(request)
        self.cache_bytes += request.reserved
        request.length = restored
        request.next_chunk = sum(chunk.end <= restored for chunk in request.chunks)
        request.cached_tokens = min(restored, request.prompt_tokens)
        self.counters.prompt_tokens += len(request.prompt)
        self.counters.cached_tokens += request.cached_tokens
        self.counters.images += len(request.prompt.spans)
        self.counters.cached_images += sum(span.end <= restored for span in request.prompt.spans)

    def _restore_prefix(self, request: RequestState) -> int:
        """Fills the cache with the stored prefix of the prompt and returns its tokens; where that fails, takes a fresh
        cache."""
        assert request.cache is not None
        if self.prefixes is None or request.prompt_logprobs is not None:
            return 0
        try:
            return self.prefixes.restore(request.chunks, request.adapter, request.cache)
        except Exception:
            LOG.exception("a stored prefix could not be used; the prompt is read from its beginning")
            self.counters.prefix_failures += 1
            self.runner.release(request.cache)
            request.cache = self.runner.new_cache(request.max_seq_len, request.max_write_len)
            return 0

    def _keep_prefix(self, request: RequestState, number: int) -> None:
        """Stores a copy of a chunk that was just encoded, if there is room."""
        if self.prefixes is None or request.cache is None:
            return
        room = self.kv_memory - self.cache_bytes if self.kv_memory is not None else sys.maxsize
        try:
            self.prefixes.put(request.chunks, number, request.adapter, request.cache, room)
        except Exception:
            LOG.exception("a prefix could not be stored")
            self.counters.prefix_failures += 1

    def _groups(self, requests: Sequence[RequestState]) -> list[list[RequestState]]:
        """Groups requests by adapter."""
        groups: dict[str | None, list[RequestState]] = {}
        for request in requests:
            groups.setdefault(request.adapter, []).append(request)
        return list(groups.values())

    def _pass(
        self, group: list[RequestState], work: Callable[[list[RequestState]], Callbacks], outputs: StepOutputs
    ) -> None:
        """Runs a pass over a group, or over each request by itself where that fails; then calls each request's
        callback."""
        try:
            callbacks = work(group)
        except Exception as error:
            if not self._isolate:
                raise
            refused = isinstance(error, OptionError)
            self.counters.crashed_passes += not refused
            if len(group) == 1:
                self._fail(group[0], error, "a pass over one request failed", outputs)
                return
            if not refused:
                LOG.exception("a pass over %d requests failed", len(group))
                self._check()
            for request in group:
                self._pass([request], work, outputs)
            return
        for request, conclude in callbacks:
            try:
                outputs.append((request, conclude()))
            except Exception as error:
                self._fail(request, error, "a request failed on what a pass said of it", outputs)

    def _fail(self, request: RequestState, error: Exception, what: str, outputs: StepOutputs) -> None:
        """Ends a request with the error that is being handled, which concerns no other unless the device is lost."""
        if not self._isolate:
            raise error
        request.error = error
        _let_go(error)
        if isinstance(error, OptionError):
            outputs.append((request, fail(request, Failed("refused", str(error), error.option))))
            return
        LOG.exception(what)
        self._check()
        reason = str(error) if isinstance(error, GessoError) else type(error).__name__
        outputs.append((request, fail(request, Failed("crash", f"the model failed on this request ({reason})"))))

    def _check(self) -> None:
        try:
            self.runner.check()
        except EngineDeadError:  # which says itself what is lost
            raise
        except Exception as error:
            raise EngineDeadError(f"the device is lost: {type(error).__name__}") from error

    def _encode(self, group: list[RequestState]) -> Callbacks:
        items = [request.prefill_items() for request in group]
        drawing = [request for request in group if request.draws_token]
        self.runner.prefill(PrefillBatch(group[0].adapter, tuple(item for own in items for item in own)))
        self.counters.steps += bool(drawing)
        self.counters.token_steps += len(drawing)
        if len(drawing) > 1:
            self._sample(drawing)
        return [(r, partial(self._after_prefill, r, own[0])) for r, own in zip(group, items, strict=True)]

    def _sample(self, group: list[RequestState]) -> None:
        """Samples the next token of several requests at once; where that fails, each samples its own."""
        items = [CanvasItem(r.number, r.cache, r.canvas) for r in group if r.cache is not None]
        try:
            self.runner.sample(CanvasBatch(group[0].adapter, tuple(items)))
        except Exception:
            if not self._isolate:
                raise
            LOG.debug("sampling for %d requests failed", len(group), exc_info=True)

    def _after_prefill(self, request: RequestState, item: PrefillItem) -> list[Event]:
        if request.reads_prompt:
            self._keep_prefix(request, request.next_chunk)
        return after_prefill(request, item, self.runner)

    def _denoise(self, steps: dict[int, int], group: list[RequestState]) -> Callbacks:
        # A pass that failed half-way is done again: whoever took the step already takes no second one.
        todo = [request for request in group if request.canvas.steps == steps[request.number]]
        if todo:
            items = [CanvasItem(r.number, r.cache, r.canvas, r.second_cache) for r in todo if r.cache is not None]
            guided = sum(r.canvas.guided for r in todo)
            self.runner.denoise(CanvasBatch(group[0].adapter, tuple(items)))
            self.counters.steps += 1
            self.counters.canvas_steps += len(todo) + guided
        return [(request, partial(after_step, request, self.runner)) for request in group]


def _let_go(error: BaseException) -> None:
    """Lets go what the frames of a failed pass hold: its error is kept, and so would its tensors be."""
    part: BaseException | None = error
    while part is not None:
        traceback.clear_frames(part.__traceback__)
        part = part.__cause__ or part.__context__
