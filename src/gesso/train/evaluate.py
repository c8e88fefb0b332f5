"""Evaluates a model on held-out prompts of a task."""

import dataclasses
import json
import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gesso.control.search_options import SEARCH_OPTIONS, SearchOptions
from gesso.engine.engine import Engine, Request
from gesso.engine.seeds import numbered_seed
from gesso.errors import DataError, OptionError
from gesso.options import Integer
from gesso.options.user_code import failures_in
from gesso.tasks.base import Example, Task, drawn_for_evaluation, messages_of
from gesso.tasks.registry import find_task
from gesso.tasks.sight.picture_task import PictureTask
from gesso.text.graded import graded_text
from gesso.train.attempts import Attempt, answer_examples
from gesso.train.file_task import FileTask, LineExample, told_with_line
from gesso.train.intervals import Interval, mean_interval, ratio_interval, wilson_interval
from gesso.train.task_data import shown_parts

EXAMPLES = 200
"""Held-out prompts of a task, where nobody says how many."""


@dataclass(frozen=True, slots=True)
class Share:
    """Counts how many of how many, summed over all answers."""

    value: float
    interval: Interval
    """`ratio_interval`; of a share of 0 or 1, about which that tells nothing, Wilson's with one count an example."""


@dataclass(frozen=True, slots=True)
class GroupScore:
    """Holds the outcome of some examples. Intervals of means are those of `ratio_interval`."""

    examples: int
    right: int
    interval: Interval
    """Wilson interval of the share that is right."""
    mean_steps: float
    """Denoising steps a canvas, over all canvases."""
    mean_steps_interval: Interval
    p95_steps: float
    mean_passes: float
    """Passes an example: denoising steps of all canvases and candidates, guidance, and what a search scores by."""
    mean_passes_interval: Interval
    p95_passes: float
    mean_seconds: float
    """Wall clock from an example's start to its end, while others of the batch run beside it."""
    mean_seconds_interval: Interval
    shares: dict[str, Share]
    """What the task counts beside right or wrong."""


@dataclass(frozen=True, slots=True)
class TaskScore(GroupScore):
    """Holds the outcome of one task."""

    task: str
    tokens_per_forward: float
    converged: float
    """Share of the canvases that were stable and confident before their steps were used up."""
    seconds: float
    """Wall clock of all examples, batched."""
    groups: dict[str, GroupScore]
    """Outcome of each group that the task tells apart, in the order of their first examples."""
    wrong: tuple[tuple[str, str, str], ...]
    """Prompt, reference answer and answer of what is not right."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """One example with what the model made of it."""

    case: Example
    attempt: Attempt
    text: str
    right: bool
    counts: Mapping[str, tuple[int, int]]


def evaluate(
    engine: Engine,
    task: Task | str | Path,
    *,
    examples: int | None = None,
    seed: int = 0,
    other_pictures: bool = False,
    **options: Any,
) -> TaskScore:
    """Measures how often a model is right, in how many passes and how many seconds, with 95% intervals.

    Args:
        task: name of a task, one of your own (an instance of a subclass of `gesso.tasks.base.Task`), or the path of a
            file of training data, whose lines are asked.
        examples: held-out prompts of the task, 200 without it; lines of the file, all of them without it or where
            there are no more.
        seed: of the prompts and of the sampling; example i is answered with `seed + i`.
        other_pictures: ask each prompt again of another picture, and count how often the answer changes with it.
        options: keywords of every request, and of a search: `best_of`, `check` and the others of `gesso eval`.

    Raises:
        OptionError: no engine, an unknown task or option, or more examples than a task has.
        DataError: a line of the file cannot be asked.
    """
    if not hasattr(engine, "generate_batch"):  # nor is an AsyncEngine one
        raise OptionError.no_engine(engine)
    count = None if examples is None else Integer(minimum=1).check("examples", examples)
    numbered_seed(seed, 0)
    asked = SearchOptions(**{name: options.pop(name) for name in SEARCH_OPTIONS if name in options})
    if isinstance(task, Path):
        task = FileTask(task, raw=bool(options.get("raw")))
        cases = task.chosen(count, seed)
    else:
        task = find_task(task) if isinstance(task, str) else task
        if Task not in type(task).__mro__:
            raise OptionError(f"task must be a name, a task or a path, got {task!r:.60}", option="task")
        cases = held_out_examples(task, count or EXAMPLES, seed)
    return evaluate_examples(engine, task, cases, seed, options, asked, other_pictures=other_pictures)


def held_out_examples(
    task: Task, count: int, seed: int, enough: Callable[[int], bool] = lambda drawn: False
) -> list[Example]:
    """Draws held-out examples of a task.

    Args:
        enough: says whether so many will do, before the next one is drawn.

    Raises:
        OptionError: it does not have so many, or is the user's own and fails.
    """
    found: list[Example] = []
    try:
        with failures_in(task, "task", "sample"):
            left = drawn_for_evaluation(task, count, seed)
            while not enough(len(found)) and (example := next(left, None)) is not None:
                found.append(example)
            return found
    except DataError as error:
        raise OptionError(str(error), option="examples") from None


def grade(task: Task, case: Example, text: str) -> bool:
    """Says whether a text is right as an answer to an example.

    Raises:
        OptionError: the task is the user's own, and fails.
    """
    with failures_in(task, "task", "grade"):
        return bool(task.grade(case, text))


def evaluate_examples(
    engine: Engine,
    task: Task,
    cases: Sequence[Example],
    seed: int,
    options: Mapping[str, Any],
    asked: SearchOptions | None = None,
    *,
    other_pictures: bool = False,
) -> TaskScore:
    """Answers examples of a task and scores them; example i is sampled with seed `seed + i`.

    Args:
        asked: how answers are searched for; what that takes counts. None makes one answer to each prompt.
        other_pictures: ask each prompt again of a picture whose answer is another, and count how often the answer
            changes with it (`changes`) and is right there, too (`right of another`). Their steps and seconds are not
            counted.

    Raises:
        OptionError: `other_pictures` of a task without pictures.
    """
    if other_pictures and not isinstance(task, PictureTask):
        raise OptionError(f"task {task.name!r} shows no pictures that others could take the place of", option="task")
    asked = asked or SearchOptions()
    options = {**asked.request_defaults, **options}
    requests = [example_request(case, {**options, "seed": numbered_seed(seed, i)}) for i, case in enumerate(cases)]
    started = time.monotonic()
    with told_with_line(engine, cases, requests):
        attempts = answer_examples(engine, task, cases, requests, asked)
    seconds = time.monotonic() - started
    answers = []
    for case, attempt in zip(cases, attempts, strict=True):
        text = graded_text(attempt.best)
        right = grade(task, case, text)
        with failures_in(task, "task", "counts"):
            answers.append(_Answer(case, attempt, text, right, task.counts(case, text)))
    if other_pictures and isinstance(task, PictureTask):
        answers = _asked_of_others(engine, task, answers, [dict(request.options) for request in requests], seed)
    names = dict.fromkeys(name for case in cases if (name := task.group(case)))
    flags = [flag for attempt in attempts for result in attempt.results for flag in result.converged]
    tokens = sum(attempt.best.completion_tokens for attempt in attempts)
    return TaskScore(
        **_figures(answers),
        task=task.name,
        tokens_per_forward=tokens / sum(attempt.passes for attempt in attempts),
        converged=sum(flags) / len(flags),
        seconds=seconds,
        groups={name: GroupScore(**_figures([a for a in answers if task.group(a.case) == name])) for name in names},
        wrong=tuple((a.case.prompt, a.case.answer, a.text) for a in answers if not a.right),
    )


def _asked_of_others(
    engine: Engine, task: PictureTask, answers: Sequence[_Answer], options: Sequence[dict[str, Any]], seed: int
) -> list[_Answer]:
    """The same answers, with counts of what becomes of each when another picture is shown."""
    rng = random.Random(f"{task.name}/others/{seed}")
    others = [task.other_picture(answer.case, rng) for answer in answers]
    media = ("images", "videos", "tools")
    bare = [{name: value for name, value in one.items() if name not in media} for one in options]
    results = engine.generate_batch([example_request(*pair) for pair in zip(others, bare, strict=True)])
    counted = []
    for answer, other, result in zip(answers, others, results, strict=True):
        text = graded_text(result)
        changes, right = text.strip() != answer.text.strip(), grade(task, other, text)
        seen = {"changes": (int(changes), 1), "right of another": (int(right), 1)}
        counted.append(dataclasses.replace(answer, counts={**answer.counts, **seen}))
    return counted


def example_request(case: Example, options: dict[str, Any]) -> Request:
    """Returns the request of an example: its images before all that was said, or where its line has them, and its
    functions.

    Args:
        options: of the request, to which the example adds its own.
    """
    if case.tools:
        options["tools"] = [json.loads(tool) for tool in case.tools]
    if isinstance(case, LineExample) and case.messages:
        return Request(case.messages, options)
    messages, shown = messages_of(case), shown_parts(case)
    if len(messages) == 1:
        media = {"images": case.images, "videos": [part["video"] for part in shown if part["type"] == "video"]}
        return Request(case.prompt, {**options, **{name: found for name, found in media.items() if found}})
    if shown:
        messages[0]["content"] = [*shown, {"type": "text", "text": messages[0]["content"]}]
    return Request(messages, options)


def _figures(answers: Sequence[_Answer]) -> dict[str, Any]:
    """The fields of `GroupScore`."""
    right = sum(answer.right for answer in answers)
    passes = [answer.attempt.passes for answer in answers]
    made = [[steps for result in answer.attempt.results for steps in result.denoising_steps] for answer in answers]
    steps, canvases = [sum(of_canvas) for of_canvas in made], [len(of_canvas) for of_canvas in made]
    seconds = [answer.attempt.seconds for answer in answers]
    return {
        "examples": len(answers),
        "right": right,
        "interval": wilson_interval(right, len(answers)),
        "mean_steps": sum(steps) / sum(canvases),
        "mean_steps_interval": ratio_interval(steps, canvases),
        "p95_steps": _percentile_95([steps for of_canvas in made for steps in of_canvas]),
        "mean_passes": sum(passes) / len(answers),
        "mean_passes_interval": mean_interval(passes),
        "p95_passes": _percentile_95(passes),
        "mean_seconds": sum(seconds) / len(answers),
        "mean_seconds_interval": mean_interval(seconds),
        "shares": {name: _share([answer.counts[name] for answer in answers]) for name in answers[0].counts},
    }


def _share(counts: Sequence[tuple[int, int]]) -> Share:
    found, total = zip(*counts, strict=True)
    value = sum(found) / sum(total)
    if value in (0, 1):
        return Share(value, wilson_interval(round(value) * len(counts), len(counts)))
    return Share(value, ratio_interval(found, total))


def _percentile_95(values: Sequence[int]) -> int:
    """The smallest value that at least 95% of them do not exceed."""
    return sorted(values)[math.ceil(0.95 * len(values)) - 1]
