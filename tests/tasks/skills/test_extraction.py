"""What extraction asks otherwise than by the names of a sentence's patterns: records, single values, questions."""

import json
import re

from gesso.tasks import TASKS
from gesso.tasks.skills.extraction import labelled, missing, people, placing, questions, records, rows, tokens, whole
from gesso.tasks.skills.extraction.values import DRAWN
from tasks.drawing import drawn

_MODULES = (records, rows, tokens, questions, people, labelled, missing)
_FRAMES = {"frames": placing.FRAMES, "around": placing.AROUND}
_PHRASINGS = (
    {name: group for module in _MODULES for name, group in module.PHRASINGS.items()} | _FRAMES | {"whole": whole.WHOLE}
)
_TEXTS = ("told", "pairs", "rows", "text", "questions told", "people told")
_OTHERS = ("records", "tokens", "questions", "people", "labelled")


def _strings(value: object) -> list[str]:
    """The values of JSON but for null, numbers as they are written."""
    if isinstance(value, dict):
        return [text for inner in value.values() for text in _strings(inner)]
    if isinstance(value, list):
        return [text for inner in value for text in _strings(inner)]
    return [] if value is None else [str(value)]


def test_wordings_are_held_out() -> None:
    for name, group in _PHRASINGS.items():
        assert group.seen, name
        assert group.unseen, name
        assert all((*group.seen, *group.unseen)), name
        assert not set(group.seen) & set(group.unseen), name


def test_texts_name_known_kinds_of_values() -> None:
    for name in _TEXTS:
        for pattern in (*_PHRASINGS[name].seen, *_PHRASINGS[name].unseen):
            fields = re.findall(r"\{([\w/]+)(?::(\w+))?\}", pattern)
            assert fields, pattern
            for names, kind in fields:
                assert (kind or names.split("/")[0].rstrip("0123456789")) in DRAWN, pattern


def test_every_question_is_after_a_fact_of_some_text() -> None:
    told = " ".join((*_PHRASINGS["questions told"].seen, *_PHRASINGS["questions told"].unseen))
    facts = set(re.findall(r"\{(\w+)", told))
    for name in ("asked", "indirect questions"):
        for pattern in (*_PHRASINGS[name].seen, *_PHRASINGS[name].unseen):
            assert {pattern.split(":")[0], *re.findall(r"\{(\w+)\}", pattern)} <= facts, pattern


def test_what_is_extracted_stands_in_the_text() -> None:
    found = dict.fromkeys(_OTHERS, 0)
    for example in drawn(TASKS["extraction"], 3000):
        if example.kind not in found:
            continue
        found[example.kind] += 1
        if example.answer[0] in "{[":
            values = _strings(json.loads(example.answer, parse_float=str, parse_int=str))
        else:
            values = [word.strip(",;:") for word in example.answer.split()]
        for value in values:
            assert value in example.prompt or value == "-", example
    assert min(found.values()) > 100


def test_all_numbers_of_a_text_are_extracted() -> None:
    found = 0
    for example in drawn(TASKS["extraction"], 9000):
        if example.kind == "tokens" and re.search(r"\b(all|every) (the )?(number|figure)s?\b", example.prompt):
            prompt = re.sub(r"^[12]\. ", "", example.prompt, flags=re.MULTILINE)
            assert re.findall(r"\d+", prompt) == re.findall(r"\d+", example.answer), example
            found += 1
    assert found > 3


def test_patterns_that_are_drawn_until_one_fits_are_there() -> None:
    for side in ("seen", "unseen"):
        for phrasings in (tokens.PHRASINGS["several"], people.PHRASINGS["ask column"]):
            assert any("{how}" in pattern for pattern in getattr(phrasings, side))
        assert any(re.search(r"(^|\n)\{text\}(\n|$)", pattern) for pattern in getattr(whole.WHOLE, side))
