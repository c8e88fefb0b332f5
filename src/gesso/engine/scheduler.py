"""Decides which requests run, which wait, and whose prompt is read next. It knows jobs and tokens, no tensors.

The rule: in every iteration each running job that has its prompt behind it takes a denoising step, and every finished
canvas is committed. Prompts are read in chunks, and chunks take turns: an iteration reads as many as fit
`prefill_tokens` by what they cost, at least one, those that waited longest first. So a denoising job waits for
nobody's prompt longer than one iteration, and of R running jobs none waits longer than R - 1 iterations for its next
chunk. Jobs start in the order they came; one that does not fit the memory yet is waited for, not overtaken.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar


class Job(Protocol):
    """Tells the scheduler all that it knows of a request."""

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


J = TypeVar("J", bound=Job)


@dataclass(frozen=True, slots=True)
class Plan(Generic[J]):
    """Lists the jobs of one iteration: those in `encode` encode a chunk each, then those in `denoise` take a denoising
    step."""

    encode: list[J] = field(default_factory=list)
    denoise: list[J] = field(default_factory=list)


class Scheduler(Generic[J]):
    """Holds the queue and the running jobs. Whoever fills the queue bounds its length."""

    def __init__(self, max_running: int, prefill_tokens: int) -> None:
        self._max_running = max_running
        self._prefill_tokens = prefill_tokens
        self._turns: deque[J] = deque()
        self.waiting: deque[J] = deque()
        self.running: list[J] = []

    @property
    def idle(self) -> bool:
        """Says whether no job waits or runs."""
        return not self.waiting and not self.running

    def add(self, job: J) -> None:
        """Puts a job at the end of the queue."""
        self.waiting.append(job)

    @property
    def _free(self) -> int:
        return self._max_running - len(self.running)

    def position(self, job: J) -> int:
        """Returns the number of jobs before it in the queue; 0 where it does not wait. Any thread may ask."""
        waiting = tuple(self.waiting)
        return waiting.index(job) if job in waiting else 0

    def admit(self, fits: Callable[[J], bool]) -> Iterator[J]:
        """Starts waiting jobs, in order, as long as there are places and the next one fits.

        `fits` is asked about a job when the one before it was taken, and its memory accounted for.
        """
        while self.waiting and self._free and fits(self.waiting[0]):
            job = self.waiting.popleft()
            self.running.append(job)
            self._turns.append(job)
            yield job

    def plan(self) -> Plan[J]:
        """Returns the jobs of the next iteration."""
        plan: Plan[J] = Plan()
        plan.encode.extend(job for job in self.running if job.pending and not job.reads_prompt)
        budget = self._prefill_tokens
        served: list[J] = []
        for job in self._turns:
            if job.pending and job.reads_prompt and (not served or job.chunk_cost <= budget):
                served.append(job)
                budget -= job.chunk_cost
        for job in served:
            self._turns.remove(job)
            self._turns.append(job)
        plan.encode.extend(served)
        encoded = {id(job) for job in plan.encode}
        plan.denoise.extend(
            job for job in self.running if not job.pending or (id(job) in encoded and job.chunk == job.pending)
        )
        return plan

    def remove(self, job: J) -> None:
        """Removes a job that is done, or was given up while it waited."""
        if job in self.waiting:
            self.waiting.remove(job)
        else:
            self.running.remove(job)
            self._turns.remove(job)
