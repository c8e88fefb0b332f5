"""Plays users, replicas and faults, event by event.

A request comes, goes to the least busy replica, waits there for a place, has its prompt encoded and then its canvases
denoised, one step of all running canvases after the other, and each canvas but the last encoded when it is done: what
happens between two steps of a replica is one event. A replica that fails loses what it runs; the router asks another
one for the same again. Replicas that share a processor share its time: of k at work each gets a k-th of it. Requests
are drawn from one seed, so two plays differ by nothing but what is changed between them.
"""

import heapq
import math
import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from gesso.capacity.cost import StepCosts
from gesso.capacity.traffic import SEED, Arrival, Load, draw_arrivals


@dataclass(slots=True)
class _Request:
    arrival: Arrival
    first: float | None = None


@dataclass(slots=True)
class _Running:
    request: _Request
    steps_left: int
    """Steps of the canvas at work that are still to be taken."""
    canvas: int = 0


@dataclass(slots=True)
class _Replica:
    place: int
    running: list[_Running] = field(default_factory=list)
    waiting: deque[_Request] = field(default_factory=deque)
    busy: bool = False
    turn: int = 0
    """Counts what was said of when its iteration ends, and its failures: what was said before is void."""
    worked: float = 0.0
    """Seconds of a processor that it has had to itself."""
    left: float = 0.0
    """Such seconds that its iteration has still to have."""
    since: float = 0.0
    """The moment of which that is said."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Holds what a simulation saw. Times are in seconds."""

    requests: int
    """Requests that were finished."""
    tokens_per_second: float
    """Tokens a second over the time in which requests came."""
    first_block: tuple[float, float]
    """Median and 95th percentile of the time to the first block."""
    whole: tuple[float, float]
    """And of the whole answer."""
    whole_mean: float
    utilization: float
    """Share of the time that the replicas' processors were at work."""
    repeated: int
    """Requests that were asked of another replica."""
    seconds: float = 0.0
    """Seconds from the beginning until the last request was finished."""


def simulate(
    load: Load,
    costs: StepCosts,
    replicas: int,
    at_once: int,
    *,
    requests: int = 3000,
    failures: Sequence[tuple[float, float]] = (),
) -> Outcome:
    """Plays so many requests to their ends.

    Args:
        at_once: requests that a replica runs together.
        failures: when a replica fails, and after how many seconds it is back; the first replica first, in turns.
    """
    arrivals = draw_arrivals(load, costs.canvas, requests)
    return play(arrivals, costs, replicas, at_once, failures=failures)


def play(
    arrivals: Sequence[Arrival],
    costs: StepCosts,
    replicas: int,
    at_once: int,
    *,
    failures: Sequence[tuple[float, float]] = (),
    processors: int | None = None,
) -> Outcome:
    """Plays given requests to their ends.

    Args:
        at_once: requests that a replica runs together.
        failures: when a replica fails, and after how many seconds it is back; the first replica first, in turns.
        processors: that the replicas share, replica i on processor i modulo so many; one each without it.
    """
    return _Play(costs, replicas, at_once, failures, processors or replicas).run(arrivals)


class _Play:
    """One simulation. Events are (time, number, what, replica or request, turn or failure), the earliest first."""

    def __init__(
        self,
        costs: StepCosts,
        replicas: int,
        at_once: int,
        failures: Sequence[tuple[float, float]],
        processors: int,
    ) -> None:
        self._costs, self._at_once, self._failures = costs, at_once, failures
        self._processors = processors
        self._draw = random.Random(SEED)
        self._fleet = [_Replica(place) for place in range(replicas)]
        self._loads: list[float] = [0] * replicas
        """Requests that each replica runs and has waiting; infinitely many where it is down."""
        self._events: list[tuple[float, int, str, int, int]] = []
        self._homeless: list[_Request] = []
        """Requests that came while no replica was up."""
        self._finished: list[tuple[float, float, int]] = []
        """Seconds to the first block and to the end, and canvases."""
        self._now, self._order, self._repeated = 0.0, 0, 0

    def run(self, arrivals: Sequence[Arrival]) -> Outcome:
        """Plays until nothing is left to happen."""
        for number, (time, _) in enumerate(self._failures):
            self._at(time, "fail", number % len(self._fleet), number)
        for number, arrival in enumerate(arrivals):
            self._at(arrival.came, "come", number)
        while self._events and len(self._finished) < len(arrivals):
            self._now, _, what, place, number = heapq.heappop(self._events)
            if what == "come":
                self._send(_Request(arrivals[place]))
            elif what == "again":
                self._send(self._homeless[place])
            elif what == "step" and number == self._fleet[place].turn:
                self._step(place)
            elif what == "fail" and self._loads[place] < math.inf:
                self._fail(place, self._failures[number][1])
            elif what == "back":
                self._loads[place] = 0
        firsts, wholes = (sorted(each[part] for each in self._finished) for part in (0, 1))
        return Outcome(
            requests=len(self._finished),
            tokens_per_second=sum(each[2] for each in self._finished) * self._costs.canvas / self._now,
            first_block=(_quantile(firsts, 0.5), _quantile(firsts, 0.95)),
            whole=(_quantile(wholes, 0.5), _quantile(wholes, 0.95)),
            whole_mean=sum(wholes) / len(wholes),
            utilization=sum(replica.worked for replica in self._fleet)
            / (min(self._processors, len(self._fleet)) * self._now),
            repeated=self._repeated,
            seconds=self._now,
        )

    def _at(self, time: float, what: str, place: int = 0, number: int = 0) -> None:
        self._order += 1
        heapq.heappush(self._events, (time, self._order, what, place, number))

    def _send(self, request: _Request) -> None:
        """Gives a request to the least busy replica; where none is up, it tries again in a second."""
        least = min(self._loads)
        if least == math.inf:
            self._homeless.append(request)
            self._at(self._now + 1.0, "again", len(self._homeless) - 1)
            return
        place = -1
        for _ in range(1 + self._draw.choice(range(self._loads.count(least)))):
            place = self._loads.index(least, place + 1)
        self._loads[place] += 1
        self._fleet[place].waiting.append(request)
        if not self._fleet[place].busy:
            self._begin(place)

    def _begin(self, place: int, commits: int = 0) -> None:
        """Begins an iteration of a replica: prompts of those that come in, canvases that are done, and a step of all.

        Args:
            commits: canvases that are done, and have to be encoded before the next ones.
        """
        replica, costs = self._fleet[place], self._costs
        new = min(len(replica.waiting), self._at_once - len(replica.running))
        prompts = 0
        for _ in range(new):
            request = replica.waiting.popleft()
            prompts += request.arrival.prompt
            replica.running.append(_Running(request, request.arrival.canvases[0]))
        if not replica.running:
            self._turn(place, busy=False)
            return
        seconds = costs.step(len(replica.running)) + new * costs.request
        seconds += prompts * costs.prompt_token + commits * costs.commit
        replica.worked += seconds
        self._turn(place, busy=True, seconds=seconds)

    def _turn(self, place: int, *, busy: bool, seconds: float = 0.0) -> None:
        """Says when the iterations of a processor end, where one of them begins or its replica has nothing to do."""
        replica = self._fleet[place]
        if replica.busy == busy:
            changed = [replica] if busy else []
            sharing = self._sharing(place)
        else:
            before = self._sharing(place)
            for other in before:
                other.left -= (self._now - other.since) / len(before)
                other.since = self._now
            replica.busy = busy
            changed = sharing = self._sharing(place)
        replica.left, replica.since = seconds, self._now
        replica.turn += 1
        for other in changed:
            other.turn += 1
            self._at(self._now + other.left * len(sharing), "step", other.place, other.turn)

    def _sharing(self, place: int) -> list[_Replica]:
        """Returns the replicas that are at work on the processor of this one."""
        return [replica for replica in self._fleet[place % self._processors :: self._processors] if replica.busy]

    def _step(self, place: int) -> None:
        """Ends an iteration: canvases that are done are shown, and answers that are done leave."""
        replica, done = self._fleet[place], list[_Running]()
        for each in replica.running:
            each.steps_left -= 1
            if not each.steps_left:
                done.append(each)
        commits = sum(map(self._next_canvas, done))
        if commits < len(done):
            replica.running = [each for each in replica.running if each.steps_left]
            self._loads[place] -= len(done) - commits
        self._begin(place, commits)

    def _next_canvas(self, each: _Running) -> bool:
        """Shows a canvas that is done and goes on to the next; says False where it was the last."""
        request, canvases = each.request, each.request.arrival.canvases
        request.first = self._now if request.first is None else request.first
        each.canvas += 1
        if each.canvas < len(canvases):
            each.steps_left = canvases[each.canvas]
            return True
        times = request.first - request.arrival.came, self._now - request.arrival.came
        self._finished.append((*times, len(canvases)))
        return False

    def _fail(self, place: int, seconds: float) -> None:
        """Loses a replica: what it had is asked of others from its beginning."""
        replica = self._fleet[place]
        lost = [each.request for each in replica.running] + list(replica.waiting)
        self._turn(place, busy=False)
        replica.running, self._loads[place] = [], math.inf
        replica.waiting.clear()
        self._at(self._now + seconds, "back", place)
        self._repeated += len(lost)
        for request in lost:
            self._send(request)


def _quantile(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
