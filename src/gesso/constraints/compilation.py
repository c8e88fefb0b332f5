"""Runs compilations of constraints in threads: one thread a compilation, in lanes and by turns.

A few compilations are under way at once; one that has taken longer than `SHORT_SECONDS` of CPU goes on in a lane where
there is one at a time, so that however many large constraints come, a small one has hardly to wait. Of all of them one
has its turn for `TURN_SECONDS`, and between two turns the interpreter's lock is free: a thread that runs a model gives
that lock away hundreds of times a pass, and would stand in line behind every compilation each time. Threads are enough,
and no process pool is needed: every stage asks its budget (states, bytes, CPU seconds) inside its loops and is made of
array operations of milliseconds, so a compilation can neither run on nor be stuck where it cannot be stopped.
"""

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Condition, Lock, Semaphore, Thread
from typing import Generic, TypeVar

from gesso.constraints import budget
from gesso.constraints.budget import Budget, CancelledError
from gesso.constraints.quick_turns import quick_turns

Made = TypeVar("Made")

SHORT_SECONDS = 0.1
"""Seconds of CPU time after which a compilation goes on in the lane of the long ones."""
_short_lane, _long_lane = Semaphore(4), Semaphore(1)
_POLL_SECONDS = 0.05
"""Seconds between two looks at whether anybody waits still, while a compilation waits for a lane."""
TURN_SECONDS = 0.005
"""Seconds of wall clock after which a compilation lets another one go on, and whoever else wants the interpreter."""
_turn = Lock()


@dataclass(frozen=True, slots=True)
class Compiled(Generic[Made]):
    """Holds what is kept of a constraint."""

    automaton: Made
    ignored: tuple[str, ...]


class Compilation(Generic[Made]):
    """Holds one constraint while it is compiled and after; several may wait for it."""

    def __init__(self, make: Callable[[], Compiled[Made]], limits: Budget, done: Callable[[], None]) -> None:
        self._make, self._limits, self._done = make, limits, done
        self._changed = Condition()
        self._waiting = 0
        self._compiled: Compiled[Made] | None = None
        self._error: Exception | None = None
        self._started = False
        self._listeners: list[Callable[[], None]] = []

    @classmethod
    def finished(cls, compiled: Compiled[Made]) -> "Compilation[Made]":
        """Makes one that is there already."""
        made = cls(lambda: compiled, Budget(), lambda: None)
        made._compiled = compiled
        return made

    @property
    def ready(self) -> bool:
        """Tells whether `result` answers at once."""
        return self._compiled is not None or self._error is not None

    @property
    def ignored(self) -> tuple[str, ...]:
        """Lists what reading the constraint ignored: pointers to a schema's annotations. Empty until it is ready."""
        return self._compiled.ignored if self._compiled is not None else ()

    def on_ready(self, listener: Callable[[], None]) -> None:
        """Calls `listener` once `result` answers at once: in the compiling thread, or here and now."""
        with self._changed:
            if not self.ready:
                self._listeners.append(listener)
                return
        listener()

    def join(self) -> bool:
        """Waits for it from now on, until `leave` or `result`; false where it was given up meanwhile."""
        with self._changed:
            if isinstance(self._error, CancelledError) or (self._started and not self.ready and not self._waiting):
                return False
            self._waiting += 1
            if not self._started and not self.ready:
                thread = Thread(target=self._run, name="gesso-compile", daemon=True)
                try:
                    self._started = True
                    thread.start()
                except BaseException:  # nobody waits for what does not run
                    self._started = thread.ident is not None
                    self._waiting -= 1
                    raise
            return True

    def leave(self) -> None:
        """Waits for it no longer; when nobody does, it is given up."""
        with self._changed:
            self._waiting -= 1

    def result(self, timeout: float | None = None) -> Made:
        """Returns the automaton, once it is there. Who joined has left then.

        Raises:
            OptionError, TextError: what compiling it raised.
            TimeoutError: it is not there within `timeout` seconds.
        """
        try:
            with self._changed:
                if not self._changed.wait_for(lambda: self.ready, timeout):
                    raise TimeoutError
        finally:
            self.leave()
        if self._error is not None:
            # A copy: one exception raised in several threads would gather all their tracebacks.
            raise copy.copy(self._error)
        assert self._compiled is not None
        return self._compiled.automaton

    def _run(self) -> None:
        compiled: Compiled[Made] | None = None
        error: Exception | None = None
        lane = _Lane(lambda: self._waiting <= 0)
        try:
            lane.enter()
            limits = self._limits
            own = Budget(limits.max_states, limits.max_bytes, limits.max_seconds, lane.asked)
            with budget.python_bounds(), quick_turns(), budget.within(own):
                compiled = self._make()
        except Exception as raised:  # noqa: BLE001 - whoever waits gets it
            error = raised
        lane.leave()
        # Kept before it is told, and no longer found where it failed or was given up.
        with self._changed:
            self._compiled, self._error = compiled, error
            self._done()
            self._changed.notify_all()
            listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener()


class _Lane:
    """Where a compilation runs: first among the short ones, later alone among the long ones; and its turns."""

    def __init__(self, given_up: Callable[[], bool]) -> None:
        self._given_up = given_up
        self._lane: Semaphore | None = None
        self._clock = Budget(max_seconds=SHORT_SECONDS)
        self._turn_ends = 0.0
        """0 while it is not its turn, as before the first question: nothing is waited for while it has its turn."""

    def enter(self) -> None:
        self._take(_short_lane)
        self._clock = Budget(max_seconds=SHORT_SECONDS)

    def asked(self) -> bool:
        """Whether to stop; asked now and then by the stages."""
        if self._lane is _short_lane and self._clock.spent() > SHORT_SECONDS:
            self.leave()
            self._take(_long_lane)
            self._take_turn()
        elif time.monotonic() > self._turn_ends:
            if self._turn_ends:
                self._end_turn()
                time.sleep(TURN_SECONDS / 10)  # a lock is not handed on: who lets it go may have it back at once
            self._take_turn()
        return self._given_up()

    def leave(self) -> None:
        self._end_turn()
        if self._lane is not None:
            self._lane.release()
        self._lane = None

    def _take_turn(self) -> None:
        _turn.acquire()
        self._turn_ends = time.monotonic() + TURN_SECONDS

    def _end_turn(self) -> None:
        if self._turn_ends:
            self._turn_ends = 0.0
            _turn.release()

    def _take(self, lane: Semaphore) -> None:
        while not lane.acquire(timeout=_POLL_SECONDS):
            if self._given_up():
                raise CancelledError
        self._lane = lane
