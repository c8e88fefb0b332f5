"""How many threads a CPU takes: fast cores once each, no more than the process's share, and what the user says."""

import os
from pathlib import Path

import pytest
import torch

import gesso
from gesso.errors import OptionError
from gesso.nn import cpu_threads
from gesso.nn.cpu_threads import best_threads, decide, performance_cores, quota, use_performance_cores


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n", "ascii")


@pytest.fixture
def system(tmp_path: Path) -> Path:
    """Four performance cores of two threads each, neighbours in pairs, and four slow ones."""
    for cpu in range(12):
        siblings = f"{cpu // 2 * 2}-{cpu // 2 * 2 + 1}" if cpu < 8 else str(cpu)
        write(tmp_path / "cpu" / f"cpu{cpu}" / "topology" / "thread_siblings_list", siblings)
    return tmp_path


def test_threads_of_one_core_count_once(system: Path) -> None:
    assert performance_cores(range(8), system) == 4
    assert performance_cores([0, 3], system) == 2
    assert performance_cores([4, 5], system) == 1


def test_slow_cores_of_a_hybrid_processor_are_left_out(system: Path) -> None:
    assert performance_cores(range(12), system) == 8
    write(system / "cpu_core" / "cpus", "0-7")
    assert performance_cores(range(12), system) == 4
    assert performance_cores([9, 10, 11], system) == 3  # there is nothing else


def test_cores_that_are_half_as_strong_are_left_out(tmp_path: Path) -> None:
    for cpu, capacity in enumerate((250, 250, 870, 870, 1024)):
        write(tmp_path / "cpu" / f"cpu{cpu}" / "cpu_capacity", str(capacity))
    assert performance_cores(range(5), tmp_path) == 3


def test_a_system_that_says_nothing_has_as_many_as_are_allowed(tmp_path: Path) -> None:
    assert performance_cores(range(6), tmp_path) == 6


@pytest.mark.parametrize(("text", "expected"), [("150000 100000", 2), ("max 100000", None), ("", None)])
def test_the_share_of_a_container(tmp_path: Path, text: str, expected: int | None) -> None:
    write(tmp_path / "cpu.max", text)
    assert quota(tmp_path / "cpu.max") == expected
    assert quota(tmp_path / "none") is None


def test_only_fewer_threads_are_taken_and_only_where_nobody_has_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in cpu_threads.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(cpu_threads, "_decided", False)
    taken: list[int] = []
    monkeypatch.setattr(torch, "get_num_threads", lambda: 8)
    monkeypatch.setattr(torch, "set_num_threads", taken.append)
    monkeypatch.setattr(cpu_threads, "best_threads", lambda: 8)
    use_performance_cores()
    assert taken == []
    monkeypatch.setattr(cpu_threads, "best_threads", lambda: 4)
    use_performance_cores()
    assert taken == [4]
    monkeypatch.setenv("OMP_NUM_THREADS", "8")
    use_performance_cores()
    assert taken == [4]
    monkeypatch.delenv("OMP_NUM_THREADS")
    decide(6)
    use_performance_cores()
    assert taken == [4, 6]


@pytest.mark.parametrize("threads", [0, True, 1.5, "2", 100_000])
def test_a_number_that_cannot_be_is_refused_before_anything_changes(
    threads: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu_threads, "_decided", False)
    with pytest.raises(OptionError, match=r"^threads must be (an integer of at least 1|at most 1024), got"):
        gesso.load("mini", threads=threads)  # type: ignore[arg-type]
    assert not cpu_threads._decided


def test_this_machine_has_at_least_one() -> None:
    assert 1 <= best_threads() <= (os.cpu_count() or 1)
