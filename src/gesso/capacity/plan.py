"""Makes a plan: the fewest replicas that carry the load with one of them lost, checked by a simulation."""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from gesso.capacity.cost import Memory, StepCosts
from gesso.capacity.simulation import Outcome, simulate
from gesso.capacity.traffic import Load
from gesso.config import ModelConfig
from gesso.errors import OptionError
from gesso.options import Integer, Number, checked, option

MOST_REPLICAS = 2000
FAULT_SECONDS = 120.0
"""Seconds for which a replica is lost."""
FAULT_PLAYED = 240.0
"""Seconds of traffic that a fault is played with: it ends within them, and what has queued up meanwhile is seen."""
FAULT_BEGINS = 60.0
"""Seconds after which a replica is lost, where a third of the undisturbed play is not less."""
REQUESTS = 3000
"""Requests of a simulation without faults."""
MOST_PLAYED = 30_000
"""Requests of one simulation, which take some seconds."""
MOST_STEPS, LEAST_PLAYED = 2_000_000, 30
"""Steps of all its canvases, likewise; and requests that it has at least."""
MOST_AT_ONCE = 10_000


@dataclass(frozen=True, slots=True)
class Users:
    """Describes the users and what they ask. Lengths are means, in tokens.

    Raises:
        OptionError: a value that is impossible.
    """

    users: int = option(500, "Users at the busiest hour.", minimum=1, maximum=10**12)
    requests_per_hour: float = option(20.0, "Requests an hour of one user.", minimum=1e-6, maximum=10**6)
    prompt: int = option(1024, "Length of a prompt.", minimum=1, maximum=10**9, unit="tokens")
    output: int = option(512, "Length of an answer.", minimum=1, maximum=10**9, unit="tokens")
    cached: float = option(0.5, "Share of prompts' tokens that the prefix store has.", minimum=0, below=1)
    steps: float = option(12.0, "Denoising steps of a canvas.", minimum=1, maximum=10_000, unit="steps")

    def __post_init__(self) -> None:
        checked(self)

    def check(self, config: ModelConfig) -> None:
        """Checks that a model takes what the users ask.

        Raises:
            OptionError: their mean request is longer than the model's positions.
        """
        if (length := self.prompt + self.output) > (most := config.max_position_embeddings):
            raise OptionError(
                f"prompt and output are {length:,} tokens together, on average; the model takes {most:,}",
                option="prompt" if self.prompt > self.output else "output",
            )

    @property
    def load(self) -> Load:
        """Returns what comes to the servers."""
        per_second = self.users * self.requests_per_hour / 3600
        return Load(per_second, self.prompt * (1 - self.cached), self.output, self.steps)


@dataclass(frozen=True, slots=True)
class Plan:
    """Holds a plan and what a simulation says of it."""

    replicas: int
    spare: int
    """Replicas, among these, that may be lost."""
    at_once: int
    """Requests that a replica runs together."""
    requests_per_second: float
    capacity: float
    """Requests a second that one replica answers at full load."""
    tokens_per_second: float
    """Tokens a second that one replica writes at full load."""
    memory: Memory | None
    usual: Outcome
    with_fault: Outcome
    """What is seen while one replica is lost for two minutes, a minute from the beginning or earlier."""

    @property
    def fault_seen(self) -> float:
        """Returns the seconds of traffic that `with_fault` was played with; below 240 the fault is cut off."""
        return self.with_fault.requests / self.requests_per_second

    def to_dict(self) -> dict[str, Any]:
        """Returns all fields for JSON."""
        return dataclasses.asdict(self)


def capacity(load: Load, costs: StepCosts, at_once: int) -> float:
    """Computes the requests a second of one replica that never runs dry."""
    canvases = _canvases(load.output, costs.canvas)
    step_share = costs.step(at_once) / at_once
    beside = costs.request + load.prompt * costs.prompt_token + (canvases - 1) * costs.commit
    return 1 / (canvases * load.steps * step_share + beside)


def make_plan(
    users: Users,
    costs: StepCosts,
    memory: Memory | None,
    *,
    max_num_seqs: int = 8,
    utilization: float = 0.7,
    spare: int = 1,
    requests: int = REQUESTS,
) -> Plan:
    """Makes a plan.

    Args:
        utilization: the share of its capacity that a replica is to work at, with all of them there.
        requests: of the undisturbed simulation, fewer where they are long; the one with a fault has more where they
            come fast.

    Raises:
        OptionError: a value that is impossible, more than 2,000 replicas, or requests that are too long to be played.
    """
    utilization = Number(above=0, below=1).check("utilization", utilization)
    spare = Integer(0, maximum=MOST_REPLICAS).check("spare", spare)
    max_num_seqs = Integer(1, maximum=MOST_AT_ONCE).check("max_num_seqs", max_num_seqs)
    load = users.load
    at_once = max_num_seqs if memory is None else min(max_num_seqs, memory.requests)
    one = capacity(load, costs, at_once)
    planned = utilization * one
    needed = load.requests_per_second / planned + spare if planned else math.inf
    if needed > MOST_REPLICAS:
        raise OptionError(f"{needed:,.0f} replicas would be needed, more than {MOST_REPLICAS}", option="users")
    replicas = max(1, math.ceil(load.requests_per_second / planned)) + spare
    playable = _playable(load, costs)
    usual = min(requests, playable)
    begins = min(usual / load.requests_per_second / 3, FAULT_BEGINS)
    played = max(usual, min(MOST_PLAYED, playable, math.ceil(load.requests_per_second * FAULT_PLAYED)))
    return Plan(
        replicas=replicas,
        spare=spare,
        at_once=at_once,
        requests_per_second=load.requests_per_second,
        capacity=one,
        tokens_per_second=one * _canvases(load.output, costs.canvas) * costs.canvas,
        memory=memory,
        usual=simulate(load, costs, replicas, at_once, requests=usual),
        with_fault=simulate(load, costs, replicas, at_once, requests=played, failures=[(begins, FAULT_SECONDS)]),
    )


def _canvases(output: float, canvas: int) -> float:
    """The mean number of canvases of answers whose lengths are exponentially distributed."""
    return -1 / math.expm1(-canvas / output)


def _playable(load: Load, costs: StepCosts) -> int:
    """Counts the requests that a simulation may have.

    Raises:
        OptionError: too few, as they take too many steps.
    """
    steps = _canvases(load.output, costs.canvas) * load.steps
    if (found := int(MOST_STEPS / steps)) < LEAST_PLAYED:
        raise OptionError(f"an answer takes {steps:,.0f} steps: that is too many to be played", option="output")
    return found
