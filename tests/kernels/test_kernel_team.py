"""Threads that share a compiled job: every unit once, whoever does it; helpers that look on go to sleep."""

import ctypes
import importlib.util
import threading
import time
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Any

import pytest
import torch

from gesso.nn.quant.integer import Int4, Int8

if importlib.util.find_spec("llvmlite") is None:
    pytest.skip("llvmlite is not installed", allow_module_level=True)

from gesso.kernels.host import openmp as openmp_threads
from gesso.kernels.host import packed, threads
from gesso.kernels.host.calls import UNIT, units
from gesso.kernels.host.openmp import take_units
from gesso.kernels.host.team import ASLEEP
from gesso.kernels.host.threads import Work, product_threads, products_by, share_units

pytestmark = pytest.mark.numbers
WATCH = 2_000_000
Seen = list[tuple[int, int, int]]
_KIND = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_int64] * 3)


def noting(seen: Seen, slow: dict[int, float] | None = None) -> tuple[Work, object]:
    """Makes a job that notes (thread, begin, end), and its owner; threads that are `slow` take so many seconds."""

    def note(_: int, thread: int, begin: int, end: int) -> None:
        if slow and thread in slow:
            threading.Event().wait(slow[thread])
        seen.append((thread, begin, end))

    kernel = _KIND(note)
    address = ctypes.cast(kernel, ctypes.c_void_p).value
    assert address is not None
    return Work(kernel, address), kernel


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Shares the smallest product, too."""
    monkeypatch.setattr(packed, "MULTIPLIED_ALONE", 0)
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("watch", [0, WATCH])
@pytest.mark.parametrize("count", [1, 2, 7, 100])
@pytest.mark.parametrize("number", [1, 2, 4])
def test_every_unit_is_done_once(number: int, count: int, watch: int) -> None:
    with products_by(number, watch):
        for _ in range(5):
            seen: Seen = []
            work, owner = noting(seen)
            share_units(work, 0, count, number)
            assert sorted(unit for _, begin, end in seen for unit in range(begin, end)) == list(range(count))
            assert {thread for thread, *_ in seen} <= set(range(number))
            del owner


@pytest.mark.parametrize("openmp", [True, False], ids=["PyTorch's threads", "our own"])
@pytest.mark.parametrize("count", [1, 2, 7, 100])
@pytest.mark.parametrize("number", [1, 2, 4])
def test_every_unit_is_taken_once(number: int, count: int, openmp: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not openmp:
        monkeypatch.setattr(openmp_threads, "_openmp", lambda: None)
    for _ in range(5):
        seen: Seen = []
        work, owner = noting(seen)
        take_units(work, 0, count, number)
        assert sorted(unit for _, begin, end in seen for unit in range(begin, end)) == list(range(count))
        assert {thread for thread, *_ in seen} <= set(range(number))
        del owner


def test_one_that_is_held_up_does_not_hold_up_the_others() -> None:
    # The caller does nothing quickly; a helper, once it comes, gets some of the rest.
    for _ in range(200):
        seen: Seen = []
        work, owner = noting(seen, slow={0: 0.01})
        share_units(work, 0, 64, 2)
        del owner
        if any(thread == 1 for thread, *_ in seen):
            return
    raise AssertionError("no helper ever came")


class Interrupted:
    """Interrupts the first call of a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.calls = function, 0

    def __call__(self, *given: Any, **named: Any) -> Any:
        self.calls += 1
        if self.calls == 1:
            raise KeyboardInterrupt
        return self.function(*given, **named)


def is_left_alone() -> bool:
    """Says whether no job is open, and no helper inside one."""
    team = threads._team(1)
    return team.job.value % 2 == team.inside.value == 0


def test_an_interrupt_waits_for_the_helper_that_is_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads.time, "sleep", Interrupted(time.sleep))
    for _ in range(200):  # until a helper came, for which its caller has to wait
        seen: Seen = []
        work, owner = noting(seen, slow={0: 0.002, 1: 0.1})
        try:
            share_units(work, 0, 16, 2)
        except KeyboardInterrupt:
            break
        finally:
            assert is_left_alone()
            assert sorted(unit for _, begin, end in seen for unit in range(begin, end)) == list(range(16))
            del owner
    else:
        raise AssertionError("nobody was waited for")


def test_an_interrupt_before_helpers_are_woken_leaves_no_job_open(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: Seen = []
    work, owner = noting(seen, slow={0: 0.002})
    team = threads._team(1)
    monkeypatch.setattr(team, "settle", Interrupted(team.settle))
    with pytest.raises(KeyboardInterrupt):
        share_units(work, 0, 16, 2)
    assert is_left_alone()
    for _ in range(200):
        seen.clear()
        share_units(work, 0, 64, 2)
        assert sorted(unit for _, begin, end in seen for unit in range(begin, end)) == list(range(64))
        if any(thread == 1 for thread, *_ in seen):
            break
    else:
        raise AssertionError("the helper never came again")
    del owner


def test_an_interrupt_waits_for_all_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    class Done(SimpleQueue):  # type: ignore[type-arg]
        def __init__(self) -> None:
            self.get = Interrupted(super().get)  # type: ignore[method-assign]

    monkeypatch.setattr(threads, "_Done", Done)
    ended: list[int] = []

    def work(thread: int, begin: int, end: int) -> None:
        threading.Event().wait(0.1 * thread)
        ended.append(thread)

    with pytest.raises(KeyboardInterrupt):
        threads.share_out(work, 3, 3)
    assert sorted(ended) == [0, 1, 2]


def test_helpers_that_look_on_go_to_sleep() -> None:
    work, owner = noting([])
    with products_by(3, WATCH):
        share_units(work, 0, 50, 3)
    states, end = threads._team(2).states, time.monotonic() + 60
    while any(state.value != ASLEEP for state in states):
        assert time.monotonic() < end
        time.sleep(0.001)
    del owner


def test_two_callers_at_once_both_get_everything_done() -> None:
    wrong: list[int] = []

    def call() -> None:
        for _ in range(50):
            seen: Seen = []
            work, owner = noting(seen)
            share_units(work, 0, 20, 2)
            if sorted(unit for _, begin, end in seen for unit in range(begin, end)) != list(range(20)):
                wrong.append(1)
            del owner

    callers = [threading.Thread(target=call) for _ in range(3)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not wrong


def test_how_many_share_a_product_is_one_threads_own_matter() -> None:
    before, found = product_threads(), list[int]()
    with products_by(5, 0):
        other = threading.Thread(target=lambda: found.append(product_threads()))
        other.start()
        other.join()
        assert product_threads() == 5
    assert product_threads() == before
    assert 5 not in found


@pytest.mark.parametrize("form", [Int4(), Int8()], ids=["int4", "int8"])
@pytest.mark.parametrize("rows", [1, 3, 20])
def test_products_have_the_same_bits_by_any_number_of_threads(form: Int4 | Int8, rows: int, shared: None) -> None:
    generator = torch.Generator().manual_seed(0)
    # Columns that fill no unit, one that is less than one, and several units.
    matrices = [form.quantize(torch.randn(n, 128, generator=generator)) for n in (70, 3, 5 * UNIT, 33)]
    x = torch.randn(rows, 128, generator=generator)
    torch.set_num_threads(1)
    alone = [packed.matmul(x, form.kernel, parts) for parts in matrices]
    for number in (2, 3):
        torch.set_num_threads(number)
        for watch in (0, WATCH):
            with products_by(number, watch):
                for _ in range(5):
                    found = packed.matmul_several(x, form.kernel, matrices)
                    assert all(torch.equal(*pair) for pair in zip(alone, found, strict=True))


def test_chosen_matrices_have_the_same_bits_by_any_number_of_threads(shared: None) -> None:
    form, generator = Int4(), torch.Generator().manual_seed(0)
    parts = form.quantize(torch.randn(6 * 40, 128, generator=generator))
    stack = tuple(part.view(6, 40, -1) for part in parts)
    x, chosen = torch.randn(2, 128, generator=generator), [4, 1, 5, 1, 0, 3]
    torch.set_num_threads(1)
    alone = packed.matmul_chosen(x, form.kernel, stack, chosen)
    torch.set_num_threads(3)
    assert torch.equal(packed.matmul_chosen(x, form.kernel, stack, chosen), alone)


def test_units_cover_all_columns() -> None:
    assert [units(columns) for columns in (1, UNIT, UNIT + 1)] == [1, 1, 2]
