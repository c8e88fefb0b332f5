"""Conversations of the skills: what a step draws, and that prompts are those of the chat template."""

import json
import random

import pytest

from gesso.tasks.base import Example, held_out, messages_of
from gesso.tasks.registry import TASKS, TRAINING_TASKS
from gesso.tasks.spelled import build_tokenizer
from gesso.tasks.vocabulary import SPECIAL_TOKENS
from gesso.text.chat_template import ChatTemplate
from gesso.text.tokenizer import Tokenizer
from gesso.train.recipes.common import TOKENS
from gesso.train.recipes.skill_mixtures import mixtures
from gesso.train.recipes.skills import CANVAS, NARROW, NARROWEST, skill_data
from gesso.train.skill_data import Mixture, SkillData

TOKENIZER = Tokenizer(build_tokenizer())


@pytest.fixture(scope="module")
def data() -> SkillData:
    return skill_data(mixtures("skills"), seed=3)


def template() -> ChatTemplate:
    from gesso.train.recipes.common import chat_template

    return ChatTemplate(chat_template(), TOKENS)


@pytest.mark.parametrize("name", ["sorting", "dialogues", "calls", "results", "changes", "filling"])
def test_prompts_are_those_of_the_template(name: str, data: SkillData) -> None:
    rng = random.Random(1)
    for _ in range(10):
        example = TRAINING_TASKS[name].sample(rng)
        tools = [json.loads(tool) for tool in example.tools]
        rendered = template().render(messages_of(example), tools=tools or None)
        found = data.conversation(example)
        assert list(found.prompt) == TOKENIZER.encode(rendered)
        assert TOKENIZER.decode(found.answer) == example.answer + "<turn|>"
        assert bool(found.source) == bool(example.source)


def test_a_step_is_repeatable_and_no_two_are_alike(data: SkillData) -> None:
    first = data.batch(5, 12, 16)
    assert first == skill_data(mixtures("skills"), seed=3).batch(5, 12, 16)
    assert first != data.batch(6, 12, 16)
    assert first != skill_data(mixtures("skills"), seed=4).batch(5, 12, 16)


def test_answers_fit_their_canvas_and_are_not_lost_in_it(data: SkillData) -> None:
    for width in (NARROWEST, *(narrow.canvas_length for narrow in NARROW)):
        lengths = [len(row.answer) for row in data.batch(mixtures("skills")[1].start, 60, width)]
        assert max(lengths) <= width
        if width > NARROWEST:
            assert sum(4 * length < width for length in lengths) < 30
    assert any(
        len(row.answer) > CANVAS
        for step in range(8)
        for row in data.batch(mixtures("skills")[1].start + step, 60, CANVAS)
    )


def test_whole_answers_are_as_long_as_the_tasks_draw_them(data: SkillData) -> None:
    """An answer that was cut to fit canvases would be short far more often than it is when somebody asks."""
    data = skill_data((Mixture(0, {"replacing": 1.0}),), seed=3)
    rng = random.Random(3)
    drawn = [len(data.conversation(TRAINING_TASKS["replacing"].sample(rng)).answer) for _ in range(2000)]
    whole = [len(row.answer) for step in range(20) for row in data.batch(step, 100, None)]
    assert sum(whole) / len(whole) == pytest.approx(sum(drawn) / len(drawn), rel=0.1)
    assert max(whole) > CANVAS


def test_mixtures_follow_each_other() -> None:
    data = skill_data((Mixture(0, {"sums": 1.0}), Mixture(7, {"calls": 1.0})), seed=3)
    calls = TOKENIZER.special["<|tool_call>"]
    assert not any(calls in row.answer for row in data.batch(6, 20, 32))
    assert all(calls in row.answer for row in data.batch(7, 20, 64))


def test_mixtures_name_tasks() -> None:
    for mixture in mixtures("skills"):
        assert min(mixture.weights.values()) > 0
        assert set(mixture.weights) <= set(TRAINING_TASKS)


def test_evaluation_examples_are_held_out(monkeypatch: pytest.MonkeyPatch, data: SkillData) -> None:
    drawn: list[Example] = []
    monkeypatch.setattr(SkillData, "conversation", lambda self, example, rng=None: drawn.append(example))
    data.evaluation(60)
    assert len(drawn) == 60
    tasks = {**TASKS, **TRAINING_TASKS}
    assert all(held_out(tasks[example.task].split_key(example)) for example in drawn)
    assert any("reworded" in example.kind for example in drawn)


def test_the_fingerprint_tells_other_data(data: SkillData) -> None:
    others = (skill_data(mixtures("skills")[:1], seed=3), skill_data(mixtures("skills"), seed=4))
    assert len({data.fingerprint, *(other.fingerprint for other in others)}) == 3


def test_special_tokens_have_the_ids_of_the_other_models() -> None:
    assert [TOKENIZER.special[token] for token in SPECIAL_TOKENS] == list(range(len(SPECIAL_TOKENS)))
