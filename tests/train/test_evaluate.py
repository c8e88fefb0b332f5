"""Scores of a task: intervals, steps, groups and shares, from an engine that only recites."""

import dataclasses
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from engine.seeing import png
from engine.tiny import TEMPLATE, TOKENS

from gesso.engine.engine import Engine, Request
from gesso.engine.result import GenerationResult
from gesso.errors import OptionError
from gesso.tasks.base import Example, Task
from gesso.tasks.vocabulary import build_tokenizer
from gesso.text.chat_template import ChatTemplate
from gesso.text.tokenizer import Tokenizer
from gesso.train.evaluate import evaluate
from gesso.train.intervals import wilson_interval
from gesso.train.recipes.skill_mixtures import mixtures
from gesso.train.recipes.skills import skill_data
from gesso.train.task_data import TaskData
from gesso.vision.preprocess import prepare_image
from gesso.vision.size import PatchLayout


class Letters(Task):
    """Letters to repeat; grouped by length, and counted letter by letter."""

    name = "letters"

    def sample(self, rng: Random) -> Example:
        text = "".join(rng.choices("abc", k=rng.randint(3, 6)))
        return Example(self.name, text, text)

    def grade(self, example: Example, text: str) -> bool:
        return text == example.answer

    def group(self, example: Example) -> str:
        return "long" if len(example.prompt) > 4 else "short"

    def counts(self, example: Example, text: str) -> Mapping[str, tuple[int, int]]:
        same = sum(given == right for given, right in zip(text, example.answer, strict=False))
        return {"same": (same, len(example.answer)), "given": (min(len(text), 1), 1)}


class Plain(Letters):
    name = "plain"
    group = Task.group
    counts = Task.counts


class Reciter:
    """Repeats short prompts in one canvas of two steps, long ones in two of three and five but with a wrong end."""

    def generate_batch(self, requests: Sequence[Request]) -> list[GenerationResult]:
        self.requests = requests
        return [self._answer(str(request.prompt)) for request in requests]

    def _answer(self, prompt: str) -> GenerationResult:
        long = len(prompt) > 4
        return GenerationResult(
            text=prompt[:-1] + "?" if long else prompt,
            reasoning="",
            token_ids=(),
            finish_reason="stop",
            prompt_tokens=1,
            completion_tokens=20 if long else 10,
            denoising_steps=(3, 5) if long else (2,),
            converged=(True, False) if long else (True,),
            seed=0,
            seconds_to_first_block=0.1,
            seconds=0.5 if long else 0.25,
        )


def score(task: Task, examples: int, **options: Any) -> Any:
    return evaluate(Reciter(), task, examples=examples, seed=3, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ("sample", "Broken.sample failed: ZeroDivisionError: division by zero"),
        ("grade", "Broken.grade failed: ZeroDivisionError: division by zero"),
        ("counts", "Broken.counts failed: ZeroDivisionError: division by zero"),
    ],
)
def test_a_task_of_ones_own_that_fails_is_named(broken: str, said: str) -> None:
    def fail(*_: Any) -> Any:
        return 1 / 0

    task = type("Broken", (Letters,), {broken: fail})()
    with pytest.raises(OptionError, match=f"^{re.escape(said)}$") as error:
        score(task, 3)
    assert error.value.option == "task"


def test_what_a_task_draws_is_an_example() -> None:
    task = type("Broken", (Letters,), {"sample": lambda self, rng: "text"})()
    with pytest.raises(OptionError, match=r"it draws gesso\.tasks\.base\.Example, got 'text'$"):
        score(task, 3)
    with pytest.raises(OptionError, match=r"^task 'letters' gave only \d+ of 9000 distinct held-out prompts$"):
        score(Letters(), 9000)


def test_groups_and_shares() -> None:
    found = score(Letters(), 30)
    short, long = found.groups["short"], found.groups["long"]
    assert short.examples + long.examples == found.examples == 30
    assert (short.right, long.right, found.right) == (short.examples, 0, short.examples)
    assert short.interval == wilson_interval(short.right, short.examples)
    assert (short.mean_steps, short.mean_passes, short.p95_steps) == (2, 2, 2)
    assert (long.mean_steps, long.mean_passes, long.p95_steps, long.p95_passes) == (4, 8, 5, 8)
    assert (short.mean_seconds, long.mean_seconds_interval) == (0.25, (0.5, 0.5))
    assert found.mean_steps == pytest.approx((2 * short.examples + 8 * long.examples) / (30 + long.examples))
    low, high = found.mean_steps_interval
    assert 2 < low < found.mean_steps < high < 4
    letters = sum(len(prompt) for prompt, _, _ in found.wrong)
    assert long.shares["same"].value == pytest.approx(1 - long.examples / letters)
    low, high = found.shares["same"].interval
    assert 0.7 < low < found.shares["same"].value < high < 1
    assert len(found.wrong) == long.examples
    assert found.converged == pytest.approx(30 / (30 + long.examples))
    assert found == dataclasses.replace(score(Letters(), 30), seconds=found.seconds)


def test_a_share_of_one_has_the_width_of_its_examples() -> None:
    given = score(Letters(), 30).shares["given"]
    assert (given.value, given.interval) == (1, wilson_interval(30, 30))


def test_a_task_without_groups_and_counts() -> None:
    found = score(Plain(), 20)
    assert (found.groups, found.shares) == ({}, {})
    assert json.loads(json.dumps(dataclasses.asdict(found)))["task"] == "plain"


def test_requests_have_seeds_of_their_own_and_the_options() -> None:
    engine = Reciter()
    evaluate(engine, Letters(), examples=3, seed=5, entropy_bound=0.2)  # type: ignore[arg-type]
    assert [request.options["seed"] for request in engine.requests] == [5, 6, 7]
    assert all(request.options["entropy_bound"] == 0.2 for request in engine.requests)


class Pictures(Letters):
    """A picture before each prompt; every other one after an earlier turn."""

    def sample(self, rng: Random) -> Example:
        example = super().sample(rng)
        history = ("hi", "hello") if rng.random() < 0.5 else ()
        return dataclasses.replace(example, history=history, images=(png(len(example.prompt)),))


def test_images_are_shown_before_all_that_is_said(seeing: Engine) -> None:
    requests: list[Request] = []

    class Watched:
        def generate_batch(self, given: Sequence[Request]) -> list[GenerationResult]:
            requests.extend(given)
            return seeing.generate_batch(given)

    engine: Any = Watched()
    options = {"image_budget": 70, "max_new_tokens": 8}
    found = evaluate(engine, Pictures(), examples=6, seed=1, **options)
    assert found.examples == 6
    assert len({isinstance(request.prompt, str) for request in requests}) == 2, "with and without earlier turns"
    for request in requests:
        (span,) = seeing.start(request).prompt.spans
        said: Any = request.prompt
        text = said if isinstance(said, str) else said[-1]["content"]
        assert text is said or [part["type"] for part in said[0]["content"]] == ["image", "text"]
        image = prepare_image(png(len(text)), 70, PatchLayout(4, 3))
        assert (span.length, span.content_hash) == (64, image.digest)


def test_a_recipe_without_eyes_refuses_images() -> None:
    tokenizer, template = Tokenizer(build_tokenizer()), ChatTemplate(TEMPLATE, TOKENS)
    data = TaskData((), tokenizer, template, 1, seed=0)
    assert data._draw(Letters(), Random(0)).prompt
    with pytest.raises(OptionError, match="task 'letters' shows images, and this model reads text only"):
        data._draw(Pictures(), Random(0))
    skills = skill_data(mixtures("skills")[1:], seed=3)
    assert skills.conversation(Letters().sample(Random(0))).prompt
    with pytest.raises(OptionError, match="shows images"):
        skills.conversation(Pictures().sample(Random(0)))


def test_a_model_is_measured_by_the_name_of_a_task_by_ones_own_and_by_a_file(tmp_path: Path) -> None:
    engine: Any = Reciter()
    own = evaluate(engine, Letters(), examples=30, seed=3)
    assert dataclasses.replace(own, seconds=0) == dataclasses.replace(score(Letters(), 30), seconds=0)
    named = evaluate(engine, "counting", examples=3, seed=1, max_new_tokens=9)
    assert (named.task, named.examples) == ("counting", 3)
    assert [request.options["max_new_tokens"] for request in engine.requests] == [9] * 3
    file = tmp_path / "lines.jsonl"
    lines = [{"prompt": text, "completion": text} for text in ("ab", "abcdef")]
    file.write_text("\n".join(map(json.dumps, lines)), "utf-8")
    asked = evaluate(engine, file)
    assert (asked.task, asked.examples, asked.right) == ("lines.jsonl", 2, 1)


@pytest.mark.parametrize(
    ("task", "options", "said"),
    [
        ("chess", {}, "no task 'chess'; known: "),
        (Letters, {}, "task must be a name, a task or a path, got "),
        (3, {}, "task must be a name, a task or a path, got 3"),
        ("counting", {"examples": 0}, "examples must be an integer of at least 1, got 0"),
        ("counting", {"seed": -1}, "seed must be "),
        ("counting", {"at_once": 3}, "at_once"),
    ],
)
def test_what_cannot_be_measured_is_refused(task: Any, options: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError, match=f"^{re.escape(said)}"):
        evaluate(Reciter(), task, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("given", ["mini", None])
def test_what_is_no_engine_is_refused(given: Any) -> None:
    with pytest.raises(OptionError, match=f"^engine must be what gesso.load returns, got {given!r}") as refused:
        evaluate(given, "counting")
    assert refused.value.option == "engine"


def test_too_many_examples_are_refused() -> None:
    with pytest.raises(OptionError, match="letters"):
        score(Letters(), 400)


def test_other_pictures_are_asked_about_with_the_same_words(tmp_path: Path) -> None:
    from engine.seeing import make_seeing_folder

    from gesso.api import load

    engine = load(make_seeing_folder(tmp_path), "cpu")
    options = {"image_budget": 70, "max_new_tokens": 8}
    score = evaluate(engine, "sight-colours", examples=4, other_pictures=True, **options)
    plain = evaluate(engine, "sight-colours", examples=4, **options)
    assert set(score.shares) - set(plain.shares) == {"changes", "right of another"}
    assert score.wrong == plain.wrong
    assert 0 < score.shares["changes"].value <= 1
    clips = evaluate(engine, "sight-clips", examples=2, max_new_tokens=8)
    assert clips.examples == 2
    with pytest.raises(OptionError, match="'arithmetic' shows no pictures"):
        evaluate(engine, "arithmetic", examples=1, other_pictures=True)
