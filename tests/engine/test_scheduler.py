"""The rule of the scheduler, on jobs that are nothing but numbers."""

from dataclasses import dataclass

from hypothesis import example, given
from hypothesis import strategies as st

from gesso.engine.scheduler import Scheduler

CHUNK, BUDGET = 8, 16


@dataclass(eq=False)
class Job:
    """`prompt` tokens to read, at `cost` a token, then `canvases` of `steps` steps, each committed."""

    prompt: int
    canvases: int = 1
    steps: int = 1
    cost: int = 1
    read: int = 0
    done: int = 0
    commit: int = 0
    waited: int = 0
    ahead: int = 0
    """Those that may read before it does: all that ran when it started, or read last."""
    part_of: str = ""

    @property
    def group(self) -> object:
        return self.part_of or id(self)

    @property
    def pending(self) -> int:
        return self.prompt - self.read or self.commit

    @property
    def reads_prompt(self) -> bool:
        return self.read < self.prompt

    @property
    def chunk(self) -> int:
        return min(self.prompt - self.read, CHUNK - self.read % CHUNK) if self.reads_prompt else self.commit

    @property
    def chunk_cost(self) -> int:
        return self.cost * self.chunk

    def encode(self) -> None:
        if self.reads_prompt:
            self.read += self.chunk
        else:
            self.commit = 0

    def step(self) -> bool:
        """True when it is finished."""
        self.done += 1
        if self.done % self.steps:
            return False
        self.commit = 4
        return self.done >= self.steps * self.canvases


JOBS = st.lists(
    st.builds(Job, st.integers(1, 60), st.integers(1, 3), st.integers(1, 4), st.sampled_from([1, 1, 3])),
    min_size=1,
    max_size=12,
)


@example([Job(1, steps=1, cost=3), Job(20, cost=3), Job(20, cost=3)], 3)
@given(JOBS, st.integers(1, 8))
def test_nobody_waits_longer_than_the_rule_says(jobs: list[Job], places: int) -> None:
    scheduler: Scheduler[Job] = Scheduler(places, BUDGET)
    for job in jobs:
        scheduler.add(job)
    order: list[Job] = []
    for _ in range(2000):
        if scheduler.idle:
            break
        come = list(scheduler.admit(lambda _: True))
        order += come
        for job in come:
            job.ahead = len(scheduler.running) - 1
        plan = scheduler.plan()
        assert len(scheduler.running) <= places
        prompts = [job for job in plan.encode if job.reads_prompt]
        assert sum(job.chunk_cost for job in prompts) <= BUDGET or len(prompts) == 1
        served = {id(job) for job in (*plan.encode, *plan.denoise)}
        finished = []
        for job in scheduler.running:
            if not job.reads_prompt:
                assert id(job) in {id(j) for j in plan.denoise}, "whoever has read the prompt steps in every iteration"
            if id(job) in served:
                job.waited, job.ahead = 0, len(scheduler.running) - 1
            else:
                job.waited += 1
            assert job.waited <= job.ahead
        for job in plan.encode:
            job.encode()
        for job in plan.denoise:
            assert not job.pending
            if job.step():
                finished.append(job)
        for job in finished:
            scheduler.remove(job)
    assert scheduler.idle
    assert order == jobs, "first come, first served"


def test_what_does_not_fit_is_waited_for_and_not_overtaken() -> None:
    scheduler: Scheduler[Job] = Scheduler(4, BUDGET)
    small, large, other = Job(1), Job(50), Job(1)
    for job in (small, large, other):
        scheduler.add(job)
    assert list(scheduler.admit(lambda job: job.prompt < 10)) == [small]
    assert [scheduler.position(job) for job in (small, large, other)] == [0, 0, 1]
    scheduler.remove(small)
    assert list(scheduler.admit(lambda _: True)) == [large, other]


def test_who_gives_up_leaves_the_queue() -> None:
    scheduler: Scheduler[Job] = Scheduler(1, BUDGET)
    first, second = Job(1), Job(1)
    scheduler.add(first)
    scheduler.add(second)
    scheduler.remove(first)
    assert list(scheduler.admit(lambda _: True)) == [second]
    scheduler.remove(second)
    assert scheduler.idle


def admitted(scheduler: Scheduler[Job]) -> str:
    return "".join(job.part_of for job in scheduler.admit(lambda _: True))


def filled(places: int, queue: str) -> Scheduler[Job]:
    """A scheduler with a job of each letter's group in its queue."""
    scheduler: Scheduler[Job] = Scheduler(places, BUDGET)
    for name in queue:
        scheduler.add(Job(4, part_of=name))
    return scheduler


def test_jobs_of_a_group_take_turns_with_others() -> None:
    scheduler = filled(5, "aaaabcb")
    assert [scheduler.position(job) for job in scheduler.waiting] == [0, 3, 5, 6, 1, 2, 4]
    assert admitted(scheduler) == "abcab"
    scheduler.remove(scheduler.running[0])
    assert admitted(scheduler) == "a"


def test_a_group_that_has_every_place_leaves_one_more_for_another() -> None:
    scheduler = filled(3, "aaaaa")
    assert admitted(scheduler) == "aaa"
    scheduler.add(Job(4, part_of="b"))
    scheduler.add(Job(4, part_of="c"))
    assert admitted(scheduler) == "b"
    scheduler.remove(scheduler.running[0])
    assert admitted(scheduler) == "", "as many run as there are places"
    scheduler.remove(scheduler.running[0])
    assert admitted(scheduler) == "c"
    assert [job.part_of for job in scheduler.waiting] == ["a", "a"]


def test_one_place_is_one_place_and_goes_round() -> None:
    scheduler = filled(1, "aaab")
    order = admitted(scheduler)
    assert [scheduler.position(job) for job in scheduler.waiting] == [1, 2, 0]
    while scheduler.waiting:
        scheduler.remove(scheduler.running[0])
        order += admitted(scheduler)
    assert order == "abaa"


@given(st.text("abcd", min_size=1, max_size=30), st.integers(1, 6))
def test_positions_are_the_order_of_the_queue(queue: str, places: int) -> None:
    scheduler = filled(places, queue)
    order = sorted(scheduler.waiting, key=scheduler.position)
    assert sorted(map(scheduler.position, scheduler.waiting)) == list(range(len(queue)))
    started = list(scheduler.admit(lambda _: True))
    assert started[:places] == order[: len(started[:places])]
    assert len(started) <= places + 1
    while scheduler.waiting:
        scheduler.remove(scheduler.running[0])
        list(scheduler.admit(lambda _: True))
