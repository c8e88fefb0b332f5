"""Plays users, replicas and faults, event by event.

A request comes, goes to the least busy replica, waits there for a place, has its prompt encoded and then its canvases
denoised, one step of all running canvases after the other: what happens between two steps of a replica is one event.
A replica that fails loses what it runs; the router asks another one for the same again. Requests are drawn from one
seed, so two plays differ by nothing but what is changed between them.
"""

import heapq
import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from gesso.capacity.cost import StepCosts


@dataclass(frozen=True, slots=True)
class Load:
    """Describes what users ask. Lengths and steps are means; the lengths are exponentially distributed, at least 1."""

    requests_per_second: float
    prompt: float
    """Tokens that have to be encoded, those of stored prefixes left out."""
    output: float
    steps: float
    """Of a canvas."""


@dataclass(slots=True)
class _Request:
    came: float
    prompt: int
    canvases: list[int]
    """Steps of each."""
    first: float | None = None


@dataclass(slots=True)
class _Running:
    request: _Request
    canvas: int = 0
    step: int = 0
    encoded: bool = False


@dataclass(slots=True)
class _Replica:
    running: list[_Running] = field(default_factory=list)
    waiting: deque[_Request] = field(default_factory=deque)
    up: bool = True
    busy: bool = False
    life: int = 0
    """How often it has failed: events of an earlier life are void."""
    worked: float = 0.0

    @property
    def load(self) -> int:
        return len(self.running) + len(self.waiting)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Holds what a simulation saw. Times are in seconds."""

    requests: int
    """Finished."""
    tokens_per_second: float
    """Over the time in which requests came."""
    first_block: tuple[float, float]
    """Median and 95th percentile of the time to the first block."""
    whole: tuple[float, float]
    """And of the whole answer."""
    whole_mean: float
    utilization: float
    """Share of the time that replicas were at work."""
    repeated: int
    """Requests that were asked of another replica."""


def simulate(
    load: Load,
    costs: StepCosts,
    replicas: int,
    at_once: int,
    *,
    requests: int = 3000,
    seed: int = 0,
    failures: Sequence[tuple[float, float]] = (),
) -> Outcome:
    """Plays so many requests to their ends.

    Args:
        at_once: requests that a replica runs together.
        failures: when a replica fails, and after how many seconds it is back; the first replica first, in turns.
    """
    return _Play(load, costs, replicas, at_once, failures).run(requests, seed)


class _Play:
    """One simulation. Events are (time, number, what, replica or request, life or failure), the earliest first."""

    def __init__(
        self, load: Load, costs: StepCosts, replicas: int, at_once: int, failures: Sequence[tuple[float, float]]
    ) -> None:
        self._load, self._costs, self._at_once, self._failures = load, costs, at_once, failures
        self._fleet = [_Replica() for _ in range(replicas)]
        self._events: list[tuple[float, int, str, int, int]] = []
        self._homeless: list[_Request] = []
        """Those that came while no replica was up."""
        self._finished: list[tuple[float, float, int]] = []
        """Seconds to the first block and to the end, and canvases."""
        self._now, self._order, self._repeated = 0.0, 0, 0

    def run(self, requests: int, seed: int) -> Outcome:
        """Plays until nothing is left to happen."""
        draw, came = random.Random(seed), 0.0
        for number, (time, _) in enumerate(self._failures):
            self._at(time, "fail", number % len(self._fleet), number)
        for _ in range(requests):
            came += draw.expovariate(self._load.requests_per_second)
            self._at(came, "come")
        while self._events and len(self._finished) < requests:
            self._now, _, what, place, number = heapq.heappop(self._events)
            if what == "come":
                self._send(self._drawn(draw))
            elif what == "again":
                self._send(self._homeless[place])
            elif what == "step" and number == self._fleet[place].life:
                self._step(place)
            elif what == "fail" and self._fleet[place].up:
                self._fail(place, self._failures[number][1])
            elif what == "back":
                self._fleet[place].up = True
        firsts, wholes = (sorted(each[part] for each in self._finished) for part in (0, 1))
        return Outcome(
            requests=len(self._finished),
            tokens_per_second=sum(each[2] for each in self._finished) * self._costs.canvas / self._now,
            first_block=(_quantile(firsts, 0.5), _quantile(firsts, 0.95)),
            whole=(_quantile(wholes, 0.5), _quantile(wholes, 0.95)),
            whole_mean=sum(wholes) / len(wholes),
            utilization=sum(replica.worked for replica in self._fleet) / (len(self._fleet) * self._now),
            repeated=self._repeated,
        )

    def _at(self, time: float, what: str, place: int = 0, number: int = 0) -> None:
        self._order += 1
        heapq.heappush(self._events, (time, self._order, what, place, number))

    def _drawn(self, draw: random.Random) -> _Request:
        load = self._load
        canvases = -(-_length(draw, load.output) // self._costs.canvas)
        steps = [max(1, round(draw.gauss(load.steps, load.steps / 4))) for _ in range(canvases)]
        return _Request(self._now, _length(draw, load.prompt) if load.prompt else 0, steps)

    def _send(self, request: _Request) -> None:
        """Gives a request to the least busy replica; where none is up, it tries again in a second."""
        ready = [place for place, replica in enumerate(self._fleet) if replica.up]
        if not ready:
            self._homeless.append(request)
            self._at(self._now + 1.0, "again", len(self._homeless) - 1)
            return
        place = min(ready, key=lambda number: (self._fleet[number].load, number))
        self._fleet[place].waiting.append(request)
        if not self._fleet[place].busy:
            self._begin(place)

    def _begin(self, place: int) -> None:
        """Begins an iteration of a replica: prompts of those that come in, and a step of all."""
        replica = self._fleet[place]
        while replica.waiting and len(replica.running) < self._at_once:
            replica.running.append(_Running(replica.waiting.popleft()))
        replica.busy = bool(replica.running)
        if not replica.running:
            return
        tokens = sum(each.request.prompt for each in replica.running if not each.encoded)
        seconds = tokens * self._costs.prompt_token + self._costs.step(len(replica.running))
        for each in replica.running:
            each.encoded = True
        replica.worked += seconds
        self._at(self._now + seconds, "step", place, replica.life)

    def _step(self, place: int) -> None:
        """Ends an iteration: canvases that are done are shown, and answers that are done leave."""
        replica, left = self._fleet[place], []
        for each in replica.running:
            request = each.request
            each.step += 1
            if each.step >= request.canvases[each.canvas]:
                each.canvas, each.step = each.canvas + 1, 0
                request.first = self._now if request.first is None else request.first
            if each.canvas < len(request.canvases):
                left.append(each)
            else:
                assert request.first is not None
                times = request.first - request.came, self._now - request.came
                self._finished.append((*times, len(request.canvases)))
        replica.running = left
        self._begin(place)

    def _fail(self, place: int, seconds: float) -> None:
        """Loses a replica: what it had is asked of others from its beginning."""
        replica = self._fleet[place]
        lost = [each.request for each in replica.running] + list(replica.waiting)
        replica.running, replica.up, replica.busy = [], False, False
        replica.waiting.clear()
        replica.life += 1
        self._at(self._now + seconds, "back", place)
        self._repeated += len(lost)
        for request in lost:
            self._send(request)


def _length(draw: random.Random, mean: float) -> int:
    return max(1, round(draw.expovariate(1 / mean)))


def _quantile(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
