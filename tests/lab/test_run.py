"""Runs of a grid: paired, kept, gone on with."""

import gc
import shutil
import sqlite3
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from gesso.api import load
from gesso.engine.engine import Engine
from gesso.errors import DataError, OptionError
from gesso.lab.grid import Grid, Setting
from gesso.lab.report import write_report
from gesso.lab.run import LabResult, run_grid
from gesso.lab.store import Store
from gesso.tasks.base import Example, Task
from gesso.tasks.registry import TASKS
from gesso.train.evaluate import evaluate

SHORT = {"max_new_tokens": 8, "max_denoising_steps": 3}
SETTINGS = (Setting(SHORT), Setting({**SHORT, "sampler": "remdm"}))


@pytest.fixture(scope="module")
def engine(tiny_folder: Path) -> Engine:
    return load(tiny_folder, "cpu")


@pytest.fixture
def lab(tiny_folder: Path, engine: Engine, tmp_path: Path) -> Callable[..., LabResult]:
    def run(
        settings: Any = SETTINGS,
        examples: int = 3,
        model: Path = tiny_folder,
        engine: Engine = engine,
        **options: Any,
    ) -> LabResult:
        grid = Grid((str(model),), ("arithmetic",), settings)
        with Store(tmp_path / "lab.sqlite") as store:
            return run_grid(grid, lambda _: engine, store, examples=examples, **options)

    return run


def test_answers_are_those_of_an_evaluation(lab: Callable[..., LabResult], engine: Engine) -> None:
    result = lab()
    assert (result.made, result.missing, len(result.rows)) == (6, 0, 2)
    for row in result.rows:
        score = evaluate(engine, "arithmetic", examples=3, **row.options)
        assert (row.right, row.passes) == (score.right, score.mean_passes)
        assert row.tokens_per_forward == pytest.approx(score.tokens_per_forward)
    assert all(row.paired == 3 for row in result.rows)


def test_the_next_run_adds_to_the_file(lab: Callable[..., LabResult]) -> None:
    first = lab()
    again = lab()
    assert again.made == 0
    assert again.rows == first.rows
    longer = lab(examples=9)
    assert longer.made == 12, "three of nine were there, of both settings"
    wider = lab(settings=(*SETTINGS, Setting({**SHORT, "best_of": 2, "check": "task"})), examples=2)
    assert wider.made == 2
    assert wider.rows[2].passes > wider.rows[0].passes, "all candidates count"
    assert lab(seed=5).made == 6


def test_what_time_does_not_suffice_for_is_left(lab: Callable[..., LabResult]) -> None:
    cut = lab(examples=10, max_seconds=0.0)
    assert (cut.made, cut.missing, cut.rows) == (0, 20, ())
    assert lab(examples=10).made == 20


def test_no_more_is_drawn_than_time_suffices_for(lab: Callable[..., LabResult]) -> None:
    """A list of all these examples would be gigabytes."""
    cut = lab(examples=10**9, max_seconds=0.5)
    assert cut.missing + cut.made == 2 * 10**9
    there = lab(examples=3).rows
    late = lab(examples=10**9, max_seconds=0.0)
    assert late.missing == 2 * 10**9 - 6
    assert late.rows == there, "what the file holds is compared, however late it is"


def test_another_checkpoint_has_answers_of_its_own(
    lab: Callable[..., LabResult], tiny_folder: Path, tmp_path: Path
) -> None:
    assert lab().made == 6
    copy = tmp_path / "copy"
    shutil.copytree(tiny_folder, copy)
    assert lab(model=copy).made == 0, "the same model elsewhere"
    weights = next(copy.glob("*.safetensors"))
    spoilt = bytearray(weights.read_bytes())
    spoilt[-1] ^= 1
    weights.write_bytes(spoilt)
    assert lab(model=copy).made == 6


def test_a_task_that_changed_is_asked_anew(lab: Callable[..., LabResult], tmp_path: Path) -> None:
    lab()
    with sqlite3.connect(tmp_path / "lab.sqlite") as base:
        base.execute("UPDATE answers SET prompt = 'other' WHERE number = 1")
    base.close()
    assert lab().made == 2


def test_another_dtype_has_answers_of_its_own(lab: Callable[..., LabResult], tiny_folder: Path) -> None:
    lab()
    half = load(tiny_folder, "cpu", dtype="bfloat16")
    assert lab(engine=half).made == 6
    assert lab(engine=half).made == lab().made == 0


def test_a_check_that_changed_is_asked_anew(
    lab: Callable[..., LabResult], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the same second and of the same size, by which Python's bytecode would be taken for its own."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    file = tmp_path / "checks.py"
    settings = (Setting({**SHORT, "best_of": 2, "check": f"{file}:check"}),)
    for returned, passes in ((0, 6), (1, 1)):
        file.write_text(f"def check(prompt, text):\n    return {returned}\n", "utf-8")
        result = lab(settings, examples=1)
        assert (result.made, result.rows[0].passes) == (1, passes)
    assert not (tmp_path / "__pycache__").exists()


def test_answers_of_another_version_are_made_anew(lab: Callable[..., LabResult], tmp_path: Path) -> None:
    lab()
    with sqlite3.connect(tmp_path / "lab.sqlite") as base:
        base.execute("UPDATE answers SET version = '0' WHERE number = 1")
    base.close()
    assert [lab().made, lab().made] == [2, 0]


def test_particles_are_a_setting(lab: Callable[..., LabResult]) -> None:
    steps = {"max_denoising_steps": 2, "stopping": "last_step"}
    assert lab((Setting({**steps, "particles": 3}),), examples=1).rows[0].passes == 6


def test_a_seed_that_is_none_is_refused(lab: Callable[..., LabResult]) -> None:
    with pytest.raises(OptionError, match="seed must be"):
        lab(seed=2**63)


def test_a_setting_that_the_engine_refuses(lab: Callable[..., LabResult]) -> None:
    with pytest.raises(OptionError, match="max_denoising_steps"):
        lab(settings=(Setting({"max_denoising_steps": 0}),))


def test_a_file_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "other.sqlite") as base:
        base.execute("CREATE TABLE mine (x)")
    base.close()
    with pytest.raises(DataError, match="another program's data"):
        Store(tmp_path / "other.sqlite")
    (tmp_path / "text.sqlite").write_text("no database at all, but a text", encoding="utf-8")
    with pytest.raises(DataError, match="cannot be used"):
        Store(tmp_path / "text.sqlite")
    with pytest.raises(DataError, match="cannot be used"):
        Store(tmp_path / "nowhere" / "lab.sqlite")


def test_the_report_is_one_page_with_everything(lab: Callable[..., LabResult], tmp_path: Path) -> None:
    result = lab(settings=(*SETTINGS, Setting({**SHORT, "stop": ["<b>&"]})))
    write_report(result, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text("utf-8")
    assert page.count("<circle") == 3
    assert page.count("<tr") == 4
    assert "sampler=remdm" in page
    assert "&lt;b&gt;&amp;" in page
    assert "<b>&" not in page
    assert "http" not in page
    with pytest.raises(DataError, match="cannot be written"):
        write_report(result, tmp_path / "nowhere" / "report.html")


def test_an_engine_is_closed_and_dropped_before_the_next_is_loaded(tiny_folder: Path, tmp_path: Path) -> None:
    """Two large models do not fit where one does, and one process computes one model over ranks."""
    living: list[weakref.ref[Engine]] = []
    closed: list[Engine | None] = []

    def another(name: str) -> Engine:
        gc.collect()
        assert [ref() for ref in living] == [None] * len(living)
        engine = load(tiny_folder, "cpu")
        engine.close = lambda: closed.append(None)  # type: ignore[method-assign]
        living.append(weakref.ref(engine))
        return engine

    shutil.copytree(tiny_folder, tmp_path / "other")
    grid = Grid((str(tiny_folder), str(tmp_path / "other")), ("arithmetic",), SETTINGS[:1])
    with Store(tmp_path / "lab.sqlite") as store:
        run_grid(grid, another, store, examples=1)
    assert len(living) == len(closed) == 2


def test_a_task_of_ones_own_grades_what_it_drew(lab: Callable[..., LabResult], monkeypatch: pytest.MonkeyPatch) -> None:
    class Misnamed(Task):
        """Draws examples under the name of another task, which would find none right."""

        name = "arithmetic"

        def sample(self, rng: Random) -> Example:
            return Example("ordering", f"Say {rng.randrange(1000)}.", "yes")

        def grade(self, example: Example, text: str) -> bool:
            return True

    monkeypatch.setitem(TASKS, "arithmetic", Misnamed())
    assert [row.right for row in lab().rows] == [3, 3]
