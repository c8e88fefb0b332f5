"""Decides which requests run, which wait, and whose prompt is read next. It knows requests and tokens, no tensors.

The rule: in every iteration each running request that has its prompt behind it takes a denoising step, and every
finished canvas is committed. Prompts are read in chunks, and chunks take turns: an iteration reads as many as fit
`prefill_tokens` by what they cost, at least one, those that waited longest first. So a denoising request waits for
nobody's prompt longer than one iteration, and one that started, or read a chunk, when R ran waits at most R - 1
iterations for its next chunk, whoever comes or ends meanwhile. Requests start in the order they came; one that does
not fit the memory yet is waited for, not overtaken.

Those of one group, such as the choices of one answer, take turns with the others: one of which fewer of the group run
goes first, and where a group has every place, one of another group gets one more.
"""

from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar


class Schedulable(Protocol):
    """Tells the scheduler all that it knows of a request."""

    @property
    def group(self) -> Hashable:
        """Returns what it is a part of; itself where it is by itself."""

    @property
    def pending(self) -> int:
        """Returns the number of tokens to encode before its next denoising step."""

    @property
    def chunk(self) -> int:
        """Returns how many of the pending tokens make the next chunk."""

    @property
    def chunk_cost(self) -> int:
        """Returns what that chunk costs, in tokens of text: at least as many as it has."""

    @property
    def reads_prompt(self) -> bool:
        """Says whether the pending tokens are the prompt's; else they are a canvas to be committed."""


R = TypeVar("R", bound=Schedulable)


@dataclass(frozen=True, slots=True)
class Plan(Generic[R]):
    """Lists the requests of one iteration: those in `encode` encode a chunk each, then those in `denoise` take a
    denoising step."""

    encode: list[R] = field(default_factory=list)
    denoise: list[R] = field(default_factory=list)


class Scheduler(Generic[R]):
    """Holds the queue and the running requests. Whoever fills the queue bounds its length."""

    def __init__(self, max_running: int, prefill_tokens: int) -> None:
        self._max_running = max_running
        self._prefill_tokens = prefill_tokens
        self._turns: deque[R] = deque()
        self._last: Hashable = None
        """Group that had the last turn."""
        self.waiting: deque[R] = deque()
        self.running: list[R] = []

    @property
    def idle(self) -> bool:
        """Says whether no request waits or runs."""
        return not self.waiting and not self.running

    def add(self, request: R) -> None:
        """Puts a request at the end of the queue."""
        self.waiting.append(request)

    def position(self, request: R) -> int:
        """Returns the number of requests before it in the queue; 0 where it does not wait. Any thread may ask."""
        ahead = self._groups(tuple(self.running))
        turns: dict[R, int] = {}
        for waiting in tuple(self.waiting):
            turns[waiting] = ahead[waiting.group]
            ahead[waiting.group] += 1
        order = sorted(turns, key=turns.__getitem__)
        return order.index(request) if request in turns else 0

    def admit(self, fits: Callable[[R], bool]) -> Iterator[R]:
        """Starts waiting requests, in order, as long as there are places and the next one fits.

        `fits` is asked about a request when the one before it was taken, and its memory accounted for.
        """
        while (request := self._next()) is not None and fits(request):
            self.waiting.remove(request)
            self.running.append(request)
            self._turns.append(request)
            self._last = request.group
            yield request

    def _groups(self, running: Sequence[R]) -> Counter[Hashable]:
        """How many of each group run; where none does, the one that had the last turn waits for others."""
        return Counter(request.group for request in running) if running else Counter([self._last])

    def _next(self) -> R | None:
        """The request that starts next; None where none may."""
        if not self.waiting or len(self.running) > self._max_running:
            return None
        running = self._groups(self.running)
        alone = next((request for request in self.waiting if not running[request.group]), None)
        if len(self.running) < self._max_running:
            return alone or min(self.waiting, key=lambda request: running[request.group])
        return alone if 1 == len(running) < len(self.running) else None

    def plan(self) -> Plan[R]:
        """Returns the requests of the next iteration."""
        plan: Plan[R] = Plan()
        plan.encode.extend(request for request in self.running if request.pending and not request.reads_prompt)
        budget = self._prefill_tokens
        served: list[R] = []
        for request in self._turns:
            if request.pending and request.reads_prompt and (not served or request.chunk_cost <= budget):
                served.append(request)
                budget -= request.chunk_cost
        for request in served:
            self._turns.remove(request)
            self._turns.append(request)
        plan.encode.extend(served)
        encoded = {id(request) for request in plan.encode}
        plan.denoise.extend(
            request
            for request in self.running
            if not request.pending or (id(request) in encoded and request.chunk == request.pending)
        )
        return plan

    def remove(self, request: R) -> None:
        """Removes a request that is done, or was given up while it waited."""
        if request in self.waiting:
            self.waiting.remove(request)
        else:
            self.running.remove(request)
            self._turns.remove(request)
