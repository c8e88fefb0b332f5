"""The skills with open slots: their graders, their phrasings, and what is held out of training."""

import inspect
import json
import random
import re
from itertools import pairwise

import pytest

from gesso.tasks import TASKS, Example, evaluation_set, held_out
from gesso.tasks.skills.abstention import Abstention
from gesso.tasks.skills.calls import read_call
from gesso.tasks.skills.catalogue import SKILLS
from gesso.tasks.skills.extraction.facts import FACTS
from gesso.tasks.skills.extraction.skill import Extraction
from gesso.tasks.skills.filling import LATER, PROMPT
from gesso.tasks.skills.patterns import Phrasings, expand, variants
from gesso.tasks.skills.replacing.skill import _sentence
from gesso.tasks.skills.sentiment.skill import Sentiment
from gesso.tasks.skills.skill import REFUSAL, Skill, abstains
from gesso.tasks.skills.slots import Slots
from gesso.tasks.skills.units.skill import Units
from tasks.drawing import drawn

ALL = pytest.mark.parametrize("skill", SKILLS, ids=lambda skill: skill.name)
ANSWERING = [skill for skill in SKILLS if skill.name not in ("abstention", "filling")]


def test_the_skills_are_tasks_by_name() -> None:
    assert len({skill.name for skill in SKILLS}) == len(SKILLS) == 21
    # What filling asks is always the same, so nobody can be asked for its answer.
    assert {skill.name for skill in SKILLS} - set(TASKS) == {"filling"}


@ALL
@pytest.mark.parametrize("evaluation", [False, True])
def test_the_reference_answer_is_right(skill: Skill, evaluation: bool) -> None:
    for example in drawn(skill, evaluation=evaluation):
        assert example.task == skill.name
        assert example.kind
        assert skill.grade(example, example.answer), example
        assert skill.grade(example, example.answer + "\n"), example
        assert not re.search(r"[{}]", example.prompt) or "{" in example.answer + example.prompt
        # Functions are indented, and tables may be padded.
        unpadded = re.sub(r" +\|", " |", example.prompt).replace("\n    ", "").replace("\n  ", "").replace("    ", "")
        assert "  " not in unpadded, example.prompt
        assert "~" not in example.prompt


@ALL
def test_damaged_answers_are_wrong(skill: Skill) -> None:
    for example in drawn(skill):
        answer = example.answer
        for text in ("", answer[: len(answer) // 2], answer + " " + answer, answer + "x"):
            # Half of a bare number's digits may be left where the unit is cut off.
            asks_units = isinstance(skill, Units) or "/units/" in example.kind
            if not (asks_units and answer.startswith(text) and text):
                assert not skill.grade(example, text), (example, text)


@pytest.mark.parametrize("skill", ANSWERING, ids=lambda skill: skill.name)
def test_the_answer_to_another_prompt_is_wrong(skill: Skill) -> None:
    wrong = [
        skill.grade(example, other.answer)
        for example, other in pairwise(drawn(skill))
        if example.answer.casefold() != other.answer.casefold()
        and other.answer.split()[:2] != example.answer.split()[:2]
    ]
    assert len(wrong) > 50
    assert not any(wrong)


@ALL
def test_every_skill_has_many_phrasings_and_holds_some_out(skill: Skill) -> None:
    if skill.name != "filling":
        assert sum(variants(p) for group in skill.phrasings.values() for p in group.seen) >= 20
        # Politeness and layout multiply them: the same request is hardly ever put twice in the same words.
    for group in skill.phrasings.values():
        assert group.unseen
        texts = [
            {expand(p, random.Random(i)) for p in side for i in range(min(60, 3 * variants(p)))}
            for side in (group.seen, group.unseen)
        ]
        assert not texts[0] & texts[1]


@pytest.mark.parametrize("skill", [s for s in ANSWERING if s.name not in ("dialogues", "units")], ids=lambda s: s.name)
def test_at_least_twenty_wordings_of_a_request(skill: Skill) -> None:
    shapes = set()
    for example in drawn(skill, 600):
        words = re.findall(r"[A-Za-z]+", example.prompt)
        known = [word for word in words if word not in example.answer]
        shapes.add(tuple(known[:4]))
    assert len(shapes) >= 20


def test_no_training_example_has_a_held_out_phrasing() -> None:
    class Recording(Slots):
        used: list[Phrasings]

        def choice(self, phrasings: Phrasings, **values: object) -> str:
            assert not self.reworded
            return super().choice(phrasings, **values)

    rng = random.Random(3)
    for skill in SKILLS:
        for _ in range(50):
            skill.draw(Recording(rng))


@ALL
def test_evaluation_sets_are_held_out(skill: Skill) -> None:
    found = evaluation_set(skill, 40, seed=3)
    assert found == evaluation_set(skill, 40, seed=3)
    assert all(held_out(skill.split_key(example)) for example in found)
    if skill.name != "filling":
        assert any(example.kind.endswith(", reworded") for example in found)
        assert any(not example.kind.endswith(", reworded") for example in found)


def test_every_answer_says_whether_it_abstains() -> None:
    for skill in SKILLS:
        example = drawn(skill, 1)[0]
        assert skill.counts(example, REFUSAL) == {"abstained": (1, 1)}
        assert skill.counts(example, "fig") == {"abstained": (0, 1)}
    assert abstains(f" {REFUSAL}\n")


def test_abstention_knows_seven_kinds() -> None:
    kinds = {example.kind for example in drawn(Abstention(), 300)}
    assert kinds == {"facts", "opinions", "long", "languages", "near", "close", "pasted"}


def test_fills_ask_what_the_fill_asks() -> None:
    from gesso.control import window
    from gesso.control.fill import INSTRUCTION

    assert PROMPT == INSTRUCTION
    source = inspect.getsource(window)
    assert repr(LATER)[1:-1] in source


def test_calls_are_read_as_the_parser_reads_them() -> None:
    from gesso.text.tool_calls import parse_tool_call

    for example in drawn(TASKS["calls"], 100):
        inner = example.answer.removeprefix("<|tool_call>").removesuffix("<tool_call|>")
        parsed = parse_tool_call(inner)
        call = {"name": parsed.name, "arguments": json.loads(parsed.arguments)}
        assert read_call(example.answer) == call
        assert TASKS["calls"].grade(example, json.dumps(call))
        assert not TASKS["calls"].grade(example, json.dumps({**call, "arguments": {}}))


def test_tables_in_yaml_hold_texts() -> None:
    values = {"yes", "no", "on", "off", "y", "n", "true", "false", "null"}
    for example in drawn(TASKS["conversion"], 1500):
        lines = example.answer.split("\n") if example.kind and "yaml" in example.kind else []
        parts = {part.strip(" -").lower() for line in lines for part in line.split(": ")}
        assert not parts & values, example.answer


def test_a_call_is_compared_by_value_and_type() -> None:
    answer = "<|tool_call>call:set_timer{minutes:1}<tool_call|>"
    example, task = Example("calls", "", answer), TASKS["calls"]
    assert task.grade(example, '{"name": "set_timer", "arguments": {"minutes": 1}}')
    for text in (
        '{"name": "set_timer", "arguments": {"minutes": true}}',
        '{"name": "set_timer", "arguments": {"minutes": 1.0}}',
        '{"name": "x", "name": "set_timer", "arguments": {"minutes": 1}}',
        "[" * 100_000,
    ):
        assert not task.grade(example, text)


def test_sentences_have_names_to_replace_and_full_stops_that_stay() -> None:
    """The word that goes stands alone wherever it stands, with no mark at it."""
    twice = stops = 0
    for seed in range(300):
        text, old, new, answer = _sentence(Slots(random.Random(seed)), remove=False)
        given = text.split(" ")
        assert old in given
        assert answer.split(" ") == [new if word == old else word for word in given]
        assert (old + new).count(".") == 0
        assert not any(word.rstrip(".") == old for word in given if word != old)
        twice += old[0].isupper() and given.count(old) == 2
        stops += given[-1].endswith(".")
    assert twice > 10
    assert stops > 30


def test_facts_of_things_stand_in_the_sentence() -> None:
    for unseen in (False, True):
        things = [example for example in drawn(Extraction(), 500, evaluation=unseen) if "things" in example.kind]
        assert len(things) > 20
        for example in things:
            for value in json.loads(example.answer).values():
                assert str(value) in example.prompt


def test_every_sentence_tells_a_fact_and_its_name() -> None:
    rng = random.Random(3)
    for kind, phrasings in Extraction.phrasings.items():
        for pattern in (*phrasings.seen, *phrasings.unseen) if kind != "ask" else ():
            for _ in range(3):
                fields = set(re.findall(r"\{(\w+)\}", " ".join(expand(line, rng) for line in pattern.split("\n"))))
                values = {field for field in fields if kind != "listed" or field.startswith("v")}
                assert values, pattern
                assert kind != "listed" or {f"k{value[1:]}" for value in values} <= fields, pattern


def test_a_turned_adjective_stands_where_english_has_it() -> None:
    turned = [example for example in drawn(Sentiment(), 3000) if " not " in example.prompt]
    assert len(turned) > 60
    assert not any(re.search(r"\b(?:an?|more|such|hardly \w+) not ", example.prompt) for example in turned)


def test_every_named_fact_can_be_drawn() -> None:
    """Patterns of sentences name facts, and known ones alone."""
    for kind, group in Extraction.phrasings.items():
        for pattern in (*group.seen, *group.unseen) if kind not in ("ask", "plain", "listed") else ():
            names = re.findall(r"\{(\w+)\}", pattern)
            assert names, pattern
            assert set(names) <= set(FACTS), pattern
