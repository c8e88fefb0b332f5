"""Runs an engine for as long as a process lives: any thread submits requests, one thread runs the model.

`submit` checks a request in the caller's thread and puts it into the queue; the engine's thread runs the step loop and
calls each request's listener with its events. Who must not wait while a constraint is compiled calls `prepare`, and
`submit` with what that gave when it is ready. Cancelling, deadlines and closing take effect between two passes. When
there is nothing to do, the thread measures what `mode: auto` wants to know, pass by pass.

An error that concerns one request ends that request. Any other is the end of the engine: `failure` says why, all that
wait or run are told, and whoever submits afterwards is refused at once. It takes a new process to go on.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from gesso.engine.async_requests import AsyncRequests
from gesso.engine.constraint import TABLE_BYTES
from gesso.engine.engine import Engine, Request
from gesso.engine.engine_core import EngineCore
from gesso.engine.events import Failed
from gesso.engine.exit_hook import ExitHook
from gesso.engine.limits import Limits, Stats
from gesso.engine.listeners import Listener, Listeners
from gesso.engine.prefix_store import PrefixStore
from gesso.engine.prepared_request import PreparedRequest
from gesso.engine.progress import fail
from gesso.engine.request_handle import RequestHandle
from gesso.engine.request_state import RequestState
from gesso.errors import ClosingError, EngineDeadError, OptionError, QueueFullError
from gesso.options.paths import checked_path

__all__ = ["AsyncEngine", "Limits", "Listener", "RequestHandle", "Stats"]

LOG = logging.getLogger(__name__)


class AsyncEngine(AsyncRequests):
    """Queues requests before an engine, which runs them together. It is started once and closed once.

    With asyncio: `async with AsyncEngine(engine) as service: result = await service.generate(prompt, seed=7)`.
    """

    def __init__(
        self, engine: Engine, limits: Limits | None = None, adapters: Mapping[str, Path | str] | None = None
    ) -> None:
        """
        Args:
            adapters: folders of LoRA adapters, by the names that requests choose them by. They are the engine's: a name
                that it knows already means the new one from here on, in every service over it.

        Raises:
            CheckpointError: an adapter does not fit the model.
            OptionError: an impossible limit, or what is no engine, no limits or no path.
        """
        for name, given, kind in (("engine", engine, Engine), ("limits", limits or Limits(), Limits)):
            if not isinstance(given, kind):
                raise OptionError(f"{name} must be a gesso.{kind.__name__}, got {given!r:.60}", option=name)
        self.engine = engine
        self.limits = limits or Limits()
        super().__init__(self.limits.max_num_seqs + self.limits.max_waiting, self.limits.request_timeout)
        self._chunk = self.limits.prefill_chunk or engine.chunk
        if adapters:
            engine.runner.load_adapters({name: checked_path(name, folder) for name, folder in adapters.items()})
        # Caches get what weights and adapters leave.
        self._kv_memory = self.limits.kv_memory or engine.runner.kv_memory(TABLE_BYTES)
        self.adapters: tuple[str, ...] = tuple(adapters or ())
        self._core = EngineCore(
            engine.runner,
            max_running=self.limits.max_num_seqs,
            chunk=self._chunk,
            kv_memory=self._kv_memory,
            prefixes=PrefixStore(engine.runner),
            isolate=True,
        )
        self._new: deque[RequestState] = deque()
        self._changed = threading.Condition()
        self._listeners = Listeners(self._changed)
        self._thread: threading.Thread | None = None
        self._closing = self._stopped = False
        self._failure: str | None = None
        self._compiling = 0
        self._busy_since: float | None = None
        self._exit_hook = ExitHook(self._stop)

    @property
    def ready(self) -> bool:
        """Says whether requests are accepted."""
        return self._thread is not None and not self._closing and self.failure is None

    @property
    def failure(self) -> str | None:
        """Says why no request can run until the process is restarted; None where all is well."""
        if self._failure is not None or self._thread is None or self._closing:
            return self._failure
        return self.engine.runner.lost if self._thread.is_alive() else "the engine's thread is gone"

    @property
    def busy_seconds(self) -> float:
        """Counts the seconds since the iteration that is under way began, of one pass or a few; 0 where none is."""
        since = self._busy_since
        return 0.0 if since is None else time.monotonic() - since

    @property
    def hung(self) -> bool:
        """Tells whether an iteration is under way for longer than any takes: the thread hangs inside a pass."""
        return self.busy_seconds > self.limits.hang_seconds

    def start(self) -> None:
        """Starts the engine's thread.

        Raises:
            ClosingError: it was started before.
        """
        thread = threading.Thread(target=self._run, name="gesso-engine", daemon=True)
        with self._changed:
            if self._thread is not None or self._closing:
                raise ClosingError("an AsyncEngine is started once: make another one over the same engine")
            self._thread = thread
        thread.start()
        self._exit_hook.register()

    def prepare(self, request: Request) -> PreparedRequest:
        """Checks and tokenises a request that is to be submitted, and begins to compile its constraint.

        The bound of the queue is looked at first. Requests whose constraints are compiled are counted by themselves,
        with the same bound: however many come, they take nobody's place in the queue.

        Raises:
            as `submit`, but for what is wrong with the constraint.
        """
        self._check_alive()
        if request.adapter is not None and request.adapter not in self.adapters:
            raise OptionError.no_adapter(request.adapter, self.adapters)
        self.check_room()
        prepared = self.engine.prepare(request, self._chunk, self.limits.max_model_len, measure=False)
        if not prepared.ready:
            with self._changed:
                compiled = self._compiling
                full = compiled >= self.limits.max_waiting + self.limits.max_num_seqs
                self._compiling += not full
            if full:
                prepared.cancel()
                raise QueueFullError(f"{compiled} requests wait for their constraints already", 1.0)
            prepared.on_ready(self._compiled)
        return prepared

    def submit(self, request: Request | PreparedRequest, listener: Listener) -> RequestHandle:
        """Checks, tokenizes and queues a request.

        `listener` gets its events in the engine's thread and must not block.

        Raises:
            OptionError, TextError: the request is wrong, or can never fit the memory.
            QueueFullError: too many wait already.
            ClosingError: the service takes no more requests.
            EngineDeadError: it has failed for good.
        """
        prepared = self.prepare(request) if isinstance(request, Request) else request
        state = prepared.finish()
        if (need := self._core.need(state)) > self._kv_memory:
            raise OptionError(
                f"the request needs {need:,} bytes of cache, the server has {self._kv_memory:,}: shorten the prompt "
                "or max_new_tokens",
                option="max_new_tokens",
            )
        with self._changed:
            self._check_room()
            self._listeners.add(state, listener, prepared.since)
            self._new.append(state)
            self._changed.notify()
        return RequestHandle(state, lambda: self._position(state), self._wake)

    def check_room(self) -> None:
        """Refuses a request for which there is no room now, before work is done for it.

        Raises:
            as `submit`, but for what is wrong with the request.
        """
        with self._changed:
            self._check_room()

    def _check_room(self) -> None:
        self._check_alive()
        if not self.ready:
            begun = self._thread is not None or self._closing
            raise ClosingError("the server is shutting down" if begun else "the AsyncEngine has not been started")
        waiting = len(self._core.scheduler.waiting) + len(self._new)
        free = self.limits.max_num_seqs - len(self._core.scheduler.running)
        if waiting >= self.limits.max_waiting + free:
            raise QueueFullError(f"{waiting} requests wait already", max(1.0, self._expected(waiting)))

    def _compiled(self) -> None:
        with self._changed:
            self._compiling -= 1

    def stats(self) -> Stats:
        """Returns the counters and gauges of the engine as they are now."""
        with self._changed:
            scheduler, totals = self._core.scheduler, self._listeners.totals
            waiting = len(scheduler.waiting) + len(self._new)
            cache_bytes, prefix_bytes = self._core.held_bytes
            return Stats(
                counters=replace(self._core.counters),
                waiting=waiting,
                running=len(scheduler.running),
                canvases=totals.canvases,
                completion_tokens=totals.completion_tokens,
                requests=dict(totals.outcomes),
                cache_bytes=cache_bytes,
                prefix_bytes=prefix_bytes,
                kv_memory=self._kv_memory,
                expected_seconds=self._expected(waiting) if len(scheduler.running) >= self.limits.max_num_seqs else 0.0,
                images_encoded=self.engine.runner.images_encoded,
            )

    def close(self, drain_seconds: float = 0.0) -> None:
        """Stops accepting requests, lets those under way finish for `drain_seconds`, cancels the rest, and blocks until
        the thread has ended."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._exit_hook.unregister()
        if self._thread is None:
            return
        deadline = time.monotonic() + drain_seconds
        while self._listeners.requests and self._thread.is_alive() and time.monotonic() < deadline:
            time.sleep(0.01)
        self._stop().join()

    def _stop(self) -> threading.Thread:
        """Cancels what runs; the thread ends behind its pass."""
        assert self._thread is not None
        with self._changed:
            self._closing = self._stopped = True
            for state in self._listeners.requests:
                state.cancelled = True
            self._changed.notify()
        return self._thread

    def _check_alive(self) -> None:
        if self.failure is not None:
            raise EngineDeadError(f"the engine has failed: {self.failure}")

    def _expected(self, waiting: int) -> float:
        return self._listeners.totals.mean_seconds * (waiting + 1) / self.limits.max_num_seqs

    def _position(self, state: RequestState) -> int:
        with self._changed:
            if state in self._new:
                return len(self._core.scheduler.waiting) + self._new.index(state)
            return self._core.scheduler.position(state)

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify()

    def _run(self) -> None:
        """Runs the engine's thread from its beginning to its end."""
        try:
            self._iterate()
        except BaseException as error:
            LOG.exception("the engine has failed")
            self._die(error)
        finally:
            self.engine.costs.stop()

    def _iterate(self) -> None:
        """Runs iterations as long as there is work; measures costs when idle."""
        while True:
            costs = self.engine.costs
            self._busy_since = None
            with self._changed:
                while not (self._new or not self._core.idle or self._stopped or costs.wanted):
                    self._changed.wait()
                if self._stopped and not self._new and self._core.idle:
                    return
                while self._new:
                    self._core.scheduler.add(self._new.popleft())
                timed_out = self._listeners.late(self.limits.request_timeout)
                for state in timed_out:
                    self._core.remove(state)
            self._busy_since = time.monotonic()
            for state in timed_out:
                seconds = self.limits.request_timeout
                self._listeners.tell(state, fail(state, Failed("timeout", f"not finished within {seconds:g} seconds")))
            if self._core.idle:
                costs.measure_pass()
                continue
            for state, events in self._core.step():
                self._listeners.tell(state, events)

    def _die(self, error: BaseException) -> None:
        """Fails every request and accepts no more. The device may be lost, so nothing is asked of it."""
        reason = str(error) if isinstance(error, EngineDeadError) else f"{type(error).__name__} in the step loop"
        with self._changed:
            self._failure = reason
            self._new.clear()
            ended = self._listeners.requests
        for state in ended:
            self._listeners.tell(state, fail(state, Failed("crash", f"the engine has failed: {reason}")))
        try:
            self._core.close()
        except Exception:
            LOG.exception("the engine's caches could not be let go")
