"""Runs a grid: every setting answers the same examples with the same seeds, part by part, and what is known is kept."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from gesso.engine.engine import Engine
from gesso.engine.seeds import numbered_seed
from gesso.lab.grid import Grid, Setting, named_with_source
from gesso.lab.statistics import Answer, Row, compare
from gesso.lab.store import Place, Store, digest
from gesso.models.hub import resolve
from gesso.tasks.base import Example, Task
from gesso.tasks.registry import TASKS
from gesso.text.graded import graded_text
from gesso.train.attempts import answer_examples
from gesso.train.evaluate import example_request, grade, held_out_examples

AT_ONCE = 8
"""Examples that are answered at once, and kept together."""

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class LabResult:
    """Holds the comparison of a grid, with what the run added to the file."""

    rows: tuple[Row, ...]
    examples: int
    """Examples of each task that were asked for."""
    seed: int
    made: int
    """Answers made now; the others were in the file."""
    missing: int
    """Answers that time did not suffice for."""


@dataclass(slots=True)
class _Column:
    """A setting, and its answers to one model's examples of one task."""

    setting: Setting
    place: Place
    answers: dict[int, Answer]
    """Answers by number."""


def run_grid(
    grid: Grid,
    load: Callable[[str], Engine],
    store: Store,
    *,
    examples: int,
    seed: int = 0,
    max_seconds: float | None = None,
    adapter: Path | None = None,
    offline: bool = False,
    progress: Progress = lambda _: None,
) -> LabResult:
    """Answers what the file does not hold yet, and compares all.

    All settings answer the first few examples, then all the next few: a run that is cut short has compared all of them.

    Args:
        load: makes the engine of a model, which is dropped before the next one's is made.
        max_seconds: after this no further part is begun, and no further example drawn to be answered.
        adapter: folder of the adapter that `load` merges into every model, by which answers are known as well.

    Raises:
        OptionError: a task without so many held-out prompts, no seed, or a setting that a model refuses.
    """
    numbered_seed(seed, 0)
    end = None if max_seconds is None else time.monotonic() + max_seconds
    rows: list[Row] = []
    made = missing = 0
    for model in grid.models:
        with load(model) as engine:
            held = f"{str(engine.model.dtype).removeprefix('torch.')} {engine.runner.device.type}"
            folders = [resolve(model, offline=offline), *([] if adapter is None else [adapter])]
            weights = " ".join([*map(store.weights_digest, folders), held])
            called = model if adapter is None else f"{model} + {adapter}"
            for name in grid.tasks_of(model):
                task = TASKS[name]
                graded = named_with_source(name, type(task))
                places = [Place(weights, graded, setting.key, seed) for setting in grid.settings]
                known = max(store.known(place) for place in places)
                cases = held_out_examples(task, examples, seed, partial(_suffices, known, end))
                missing += (examples - len(cases)) * len(places)
                prompts = [digest(case.prompt) for case in cases]
                columns = [
                    _Column(setting, place, store.answers(place, prompts))
                    for setting, place in zip(grid.settings, places, strict=True)
                ]
                for column, numbers, late in _parts(columns, len(cases), end):
                    if late:
                        missing += len(numbers)
                        continue
                    progress(f"{called} {name} {numbers[0] + 1}/{examples}: {column.setting}")
                    fresh = _answer(engine, task, cases, numbers, column.setting, seed)
                    store.add(column.place, called, [(answer, prompts[answer.number], text) for answer, text in fresh])
                    column.answers |= {answer.number: answer for answer, _ in fresh}
                    made += len(fresh)
                rows += compare(called, name, [(column.setting.options, column.answers) for column in columns])
        del engine  # before the next one is loaded
    return LabResult(tuple(rows), examples, seed, made, missing)


def _suffices(known: int, end: float | None, drawn: int) -> bool:
    """Says whether there is no time for more examples than are drawn, and those with an answer are among them."""
    return drawn >= known and _is_over(end)


def _is_over(end: float | None) -> bool:
    return end is not None and time.monotonic() >= end


def _parts(columns: Sequence[_Column], examples: int, end: float | None) -> Iterator[tuple[_Column, list[int], bool]]:
    """Yields the examples that a setting has to answer yet, a few of all settings before the next few, and whether it
    is too late for them: of whole parts only, so that all settings have answered the same examples."""
    for start in range(0, examples, AT_ONCE):
        late = _is_over(end)
        for column in columns:
            todo = [n for n in range(start, min(start + AT_ONCE, examples)) if n not in column.answers]
            if todo:
                yield column, todo, late


def _answer(
    engine: Engine, task: Task, cases: list[Example], numbers: list[int], setting: Setting, seed: int
) -> list[tuple[Answer, str]]:
    """Answers of one setting to some examples, with their texts."""
    asked = setting.search
    options = {**asked.request_defaults, **setting.request}
    chosen = [cases[number] for number in numbers]
    requests = [
        example_request(case, {**options, "seed": numbered_seed(seed, number)})
        for case, number in zip(chosen, numbers, strict=True)
    ]
    attempts = answer_examples(engine, task, chosen, requests, asked)
    found = []
    for case, number, attempt in zip(chosen, numbers, attempts, strict=True):
        text = graded_text(attempt.best)
        right = grade(task, case, text)
        found.append((Answer(number, right, attempt.passes, attempt.best.completion_tokens, attempt.seconds), text))
    return found
