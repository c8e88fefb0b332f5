"""The engine for ever: requests from any thread, one thread that steps the model.

`submit` checks a request in the caller's thread and puts it into the queue; the engine's thread runs the loop and calls
each request's listener with its events. Cancelling, deadlines and closing take effect between two passes.
"""

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gesso.engine.engine import Engine, Request
from gesso.engine.engine_core import EngineCore
from gesso.engine.events import BlockCommitted, Event, Failed, Finished
from gesso.engine.memory import default_kv_memory
from gesso.engine.prefix_store import PrefixStore
from gesso.engine.request_state import RequestState
from gesso.errors import ClosingError, OptionError, QueueFullError
from gesso.models.adapter_switch import AdapterSwitch

LOG = logging.getLogger(__name__)
Listener = Callable[[Event], None]
_SMOOTHING = 0.2
"""Weight of the newest request in the running mean of how long one takes."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a service allows."""

    max_num_seqs: int = 8
    """Requests that run at once."""
    max_waiting: int = 64
    """Requests in the queue; one more is refused."""
    kv_memory: int | None = None
    """Bytes for caches of running requests and stored prefixes together; None: by the device."""
    max_model_len: int | None = None
    """Tokens of prompt and answer; None: the model's limit."""
    prefill_chunk: int | None = None
    """Prompt tokens encoded at a time, and the grain of stored prefixes; None: by the device."""
    request_timeout: float | None = None
    """Seconds from submission; None: for ever."""

    def __post_init__(self) -> None:
        for name, least in (("max_num_seqs", 1), ("max_waiting", 0), ("kv_memory", 1), ("max_model_len", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise OptionError(f"{name} must be at least {least}, got {value}", option=name)
        if self.prefill_chunk is not None and self.prefill_chunk < 16:
            raise OptionError(f"prefill_chunk must be at least 16, got {self.prefill_chunk}", option="prefill_chunk")
        if self.request_timeout is not None and not self.request_timeout > 0:
            raise OptionError(f"request_timeout must be above 0, got {self.request_timeout}", option="request_timeout")


@dataclass(frozen=True, slots=True)
class Stats:
    """A look at a service; counts are since its start."""

    waiting: int
    running: int
    steps: int
    """Denoising passes of the model."""
    canvas_steps: int
    """Canvases stepped, summed over passes."""
    canvases: int
    """Canvases finished."""
    prompt_tokens: int
    cached_tokens: int
    """Of them, those that did not have to be encoded."""
    completion_tokens: int
    requests: Mapping[str, int]
    """Finished requests by finish reason, and `timeout` and `crash`."""
    cache_bytes: int
    """Of running requests."""
    prefix_bytes: int
    """Of stored prefixes."""
    kv_memory: int
    """The bound on both."""
    expected_seconds: float
    """How long a request that came now would wait in the queue, by what the last ones took."""


class RequestHandle:
    """A submitted request."""

    def __init__(self, service: "AsyncEngine", sequence: RequestState) -> None:
        self._service = service
        self._sequence = sequence
        self.prompt_tokens = len(sequence.prompt_ids)

    @property
    def position(self) -> int:
        """Requests before it in the queue; 0 when it runs or is done."""
        return self._service._position(self._sequence)

    def cancel(self) -> None:
        """End it before the next pass; `Finished` with reason `cancelled` follows if it was not finished yet."""
        self._sequence.cancelled = True
        self._service._wake()


@dataclass(eq=False, slots=True)
class _Entry:
    """What a service knows of a request beside its sequence."""

    listener: Listener
    submitted: float


class AsyncEngine:
    """A queue before an engine. Start it once; close it once."""

    def __init__(
        self, engine: Engine, limits: Limits | None = None, adapters: Mapping[str, Path] | None = None
    ) -> None:
        """
        Raises:
            CheckpointError: an adapter does not fit the model.
            OptionError: an impossible limit.
        """
        self.engine = engine
        self.limits = limits or Limits()
        self._chunk = self.limits.prefill_chunk or engine.chunk
        self._kv_memory = self.limits.kv_memory or default_kv_memory(engine.model.device)
        switch = AdapterSwitch(engine.model, adapters) if adapters else None
        self.adapters: tuple[str, ...] = switch.names if switch else ()
        self._loop = EngineCore(
            engine.model,
            max_running=self.limits.max_num_seqs,
            chunk=self._chunk,
            kv_memory=self._kv_memory,
            prefixes=PrefixStore(engine.model.config, self._chunk),
            adapters=switch,
            isolate=True,
        )
        self._entries: dict[RequestState, _Entry] = {}
        self._new: deque[RequestState] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closing = self._stopped = False
        self._outcomes: Counter[str] = Counter()
        self._canvases = self._completion_tokens = 0
        self._mean_seconds = 1.0

    @property
    def ready(self) -> bool:
        """Whether requests are taken."""
        return self._thread is not None and not self._closing

    def start(self) -> None:
        """Start the engine's thread."""
        self._thread = threading.Thread(target=self._run, name="gesso-engine", daemon=True)
        self._thread.start()

    def submit(self, request: Request, listener: Listener) -> RequestHandle:
        """Check, tokenize and queue a request. `listener` gets its events in the engine's thread: it must not block.

        Raises:
            OptionError, TextError: the request is wrong, or can never fit the memory.
            QueueFullError: too many wait already.
            ClosingError: the service takes no more requests.
        """
        if request.adapter is not None and request.adapter not in self.adapters:
            known = ", ".join(self.adapters) or "none"
            raise OptionError(f"no adapter {request.adapter!r}; known: {known}", option="adapter")
        sequence = self.engine.start(request, self._chunk, self.limits.max_model_len)
        if (need := self._loop.need(sequence)) > self._kv_memory:
            raise OptionError(
                f"the request needs {need:,} bytes of cache, the server has {self._kv_memory:,}: shorten the prompt "
                "or max_new_tokens",
                option="max_new_tokens",
            )
        with self._changed:
            if not self.ready:
                raise ClosingError("the server is shutting down")
            waiting = len(self._loop.scheduler.waiting) + len(self._new)
            free = self.limits.max_num_seqs - len(self._loop.scheduler.running)
            if waiting >= self.limits.max_waiting + free:
                raise QueueFullError(f"{waiting} requests wait already", max(1.0, self._expected(waiting)))
            self._entries[sequence] = _Entry(listener, time.monotonic())
            self._new.append(sequence)
            self._changed.notify()
        return RequestHandle(self, sequence)

    def stats(self) -> Stats:
        """How things stand."""
        with self._changed:
            scheduler, counters = self._loop.scheduler, self._loop.counters
            waiting = len(scheduler.waiting) + len(self._new)
            cache_bytes, prefix_bytes = self._loop.held_bytes
            return Stats(
                waiting=waiting,
                running=len(scheduler.running),
                steps=counters.steps,
                canvas_steps=counters.canvas_steps,
                canvases=self._canvases,
                prompt_tokens=counters.prompt_tokens,
                cached_tokens=counters.cached_tokens,
                completion_tokens=self._completion_tokens,
                requests=dict(self._outcomes),
                cache_bytes=cache_bytes,
                prefix_bytes=prefix_bytes,
                kv_memory=self._kv_memory,
                expected_seconds=self._expected(waiting) if len(scheduler.running) >= self.limits.max_num_seqs else 0.0,
            )

    def close(self, drain_seconds: float = 0.0) -> None:
        """Take no more requests; let those that are here finish for so long, then cancel them. Blocks until done."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread is None:
            return
        deadline = time.monotonic() + drain_seconds
        while self._entries and self._thread.is_alive() and time.monotonic() < deadline:
            time.sleep(0.01)
        with self._changed:
            for sequence in tuple(self._entries):  # the engine's thread takes out those that finish
                sequence.cancelled = True
            self._stopped = True
            self._changed.notify()
        self._thread.join()

    def _expected(self, waiting: int) -> float:
        return self._mean_seconds * (waiting + 1) / self.limits.max_num_seqs

    def _position(self, sequence: RequestState) -> int:
        with self._changed:
            if sequence in self._new:
                return len(self._loop.scheduler.waiting) + self._new.index(sequence)
            return self._loop.scheduler.position(sequence)

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify()

    def _run(self) -> None:
        """The engine's thread: as long as there is something to do, one iteration after the other."""
        while True:
            with self._changed:
                while not (self._new or not self._loop.idle or self._stopped):
                    self._changed.wait()
                if self._stopped and not self._new and self._loop.idle:
                    return
                while self._new:
                    self._loop.scheduler.add(self._new.popleft())
                late = self._late()
                for sequence in late:
                    self._loop.remove(sequence)
            for sequence in late:
                seconds = self.limits.request_timeout
                self._tell(sequence, sequence.fail(Failed("timeout", f"not finished within {seconds:g} seconds")))
            try:
                happened = self._loop.step()
            except Exception:
                # Everything that concerns one request is isolated below; this is a fault of the loop itself.
                LOG.exception("the step loop failed")
                happened = self._give_up()
            for sequence, events in happened:
                self._tell(sequence, events)

    def _late(self) -> list[RequestState]:
        """Requests past their deadline."""
        timeout = self.limits.request_timeout
        if timeout is None:
            return []
        now = time.monotonic()
        return [sequence for sequence, entry in tuple(self._entries.items()) if now - entry.submitted > timeout]

    def _give_up(self) -> list[tuple[RequestState, list[Event]]]:
        """End every request."""
        scheduler = self._loop.scheduler
        happened = []
        for sequence in (*scheduler.running, *scheduler.waiting):
            self._loop.remove(sequence)
            happened.append((sequence, sequence.fail(Failed("crash", "the engine failed"))))
        return happened

    def _tell(self, sequence: RequestState, events: list[Event]) -> None:
        entry = self._entries.get(sequence)
        if entry is None:
            return
        for event in events:
            self._count(event)
            if isinstance(event, Finished | Failed):
                del self._entries[sequence]
            try:
                entry.listener(event)
            except Exception:
                LOG.exception("a listener failed")
                sequence.cancelled = True

    def _count(self, event: Event) -> None:
        with self._changed:
            if isinstance(event, BlockCommitted):
                self._canvases += 1
                self._completion_tokens += len(event.tokens)
            elif isinstance(event, Finished):
                self._outcomes[event.result.finish_reason] += 1
                if event.result.finish_reason != "cancelled":
                    self._mean_seconds += _SMOOTHING * (event.result.seconds - self._mean_seconds)
            elif isinstance(event, Failed):
                self._outcomes[event.kind] += 1
