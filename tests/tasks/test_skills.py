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
from gesso.tasks.skills.changes import Changes
from gesso.tasks.skills.extraction import _DRAWN, Extraction
from gesso.tasks.skills.filling import LATER, PROMPT
from gesso.tasks.skills.lexicon import dictionary, draw_pseudo_word, draw_word, is_unseen
from gesso.tasks.skills.patterns import Phrasings, expand, variants
from gesso.tasks.skills.replacing import _sentence
from gesso.tasks.skills.sentiment import Sentiment
from gesso.tasks.skills.skill import REFUSAL, Skill, abstains
from gesso.tasks.skills.slots import RESERVED, Slots
from gesso.tasks.skills.sums import spell
from gesso.tasks.skills.units import Units

ALL = pytest.mark.parametrize("skill", SKILLS, ids=lambda skill: skill.name)
ANSWERING = [skill for skill in SKILLS if skill.name not in ("abstention", "filling")]


def drawn(skill: Skill, n: int = 200, *, evaluation: bool = False) -> list[Example]:
    rng = random.Random(11)
    return [skill.sample_evaluation(rng, i) if evaluation else skill.sample(rng) for i in range(n)]


def test_the_skills_are_tasks_by_name() -> None:
    assert len({skill.name for skill in SKILLS}) == len(SKILLS) == 19
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
        assert "  " not in example.prompt.replace("\n    ", "").replace("\n  ", "").replace("    ", ""), example.prompt
        assert "~" not in example.prompt


@ALL
def test_damaged_answers_are_wrong(skill: Skill) -> None:
    for example in drawn(skill):
        answer = example.answer
        for text in ("", answer[: len(answer) // 2], answer + " " + answer, answer + "x"):
            # Half of a bare number's digits may be left where the unit is cut off.
            if not (isinstance(skill, Units) and answer.startswith(text) and text):
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
        texts = [{expand(p, random.Random(i)) for p in side for i in range(60)} for side in (group.seen, group.unseen)]
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


def test_the_dictionary_is_split_by_word_alone() -> None:
    words = dictionary()
    assert len(words) == len(set(words)) > 30_000
    assert all(re.fullmatch("[a-z]{3,11}", word) for word in words)
    share = sum(map(is_unseen, words)) / len(words)
    assert 1 / 20 < share < 1 / 13
    assert is_unseen(next(filter(is_unseen, words)).upper())
    rng = random.Random(0)
    for unseen in (False, True):
        for draw in (draw_word, draw_pseudo_word):
            assert all(is_unseen(draw(rng, unseen=unseen)) == unseen for _ in range(200))


@pytest.mark.parametrize("name", ["sorting", "duplicates", "reversing", "casing", "replacing"])
def test_training_never_copies_a_held_out_word(name: str) -> None:
    skill = TASKS[name]
    rng = random.Random(5)

    def words(text: str) -> list[str]:
        return [w for w in re.findall(r"[^\W\d_]+", text) if len(w) > 2]

    seen = [skill.sample(rng) for _ in range(400)]
    plain = [e for e in seen if e.answer.islower() and not e.kind.startswith(("letters", "style", "signs", "drop"))]
    assert not any(is_unseen(word) for example in plain for word in words(example.answer))
    unseen = [skill.sample_evaluation(rng, 0) for _ in range(200)]
    plain = [e for e in unseen if e.answer.islower() and e.kind.startswith(("words", "replace"))]
    plain = [e for e in plain if not re.search(r"\d", e.answer)]
    assert all(any(map(is_unseen, words(example.answer))) for example in plain[:20])


def test_most_values_are_open() -> None:
    rng = random.Random(1)
    slots = Slots(rng)
    drawn_words = [slots.word() for _ in range(2000)]
    assert len(set(drawn_words)) > 0.6 * len(drawn_words)


def test_items_that_are_only_copied_are_of_any_letters() -> None:
    slots = Slots(random.Random(0))
    drawn = [slots.items(4) for _ in range(500)]
    assert all(len(set(items)) == 4 and not any(map(str.isspace, "".join(items))) for items in drawn)
    plain = sum(item.isascii() and item.isalpha() for items in drawn for item in items)
    assert 1800 < plain < 1960
    letters = "".join(item for items in drawn for item in items)
    assert all(any(first <= letter <= last for letter in letters) for first, last in ("àž", "αω", "ая", "一龥", "<<"))
    held_out = Slots(random.Random(0), unseen=True)
    assert all(is_unseen(item) for item in held_out.items(4))


@pytest.mark.parametrize("unseen", [False, True])
def test_plain_sentences_are_words_alone(unseen: bool) -> None:
    slots = Slots(random.Random(2), unseen=unseen)
    drawn = [slots.plain_sentence() for _ in range(300)]
    assert all(word.isalnum() for words in drawn for word in words)
    assert all(any(is_unseen(word) and len(word) > 2 for word in words) == unseen for words in drawn)
    assert len({" ".join(words) for words in drawn}) > 280
    assert {5, 6, 7, 8, 9} <= {len(words) for words in drawn}


def test_identifiers_are_names_that_python_takes() -> None:
    slots = Slots(random.Random(2))
    for _ in range(500):
        name = slots.identifier()
        assert name.isidentifier()
        assert name not in RESERVED


def test_numbers_have_up_to_six_digits() -> None:
    slots = Slots(random.Random(2))
    found = {len(str(slots.number(6))) for _ in range(500)}
    assert found == {1, 2, 3, 4, 5, 6}
    assert len(set(slots.numbers(9, 1))) == 9


def test_patterns_expand_to_what_they_say() -> None:
    pattern = "[Sort|Order] the words[ now|]"
    assert variants(pattern) == 4
    texts = {expand(pattern, random.Random(seed)) for seed in range(60)}
    assert texts == {"Sort the words", "Order the words", "Sort the words now", "Order the words now"}


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

    for example in drawn(TASKS["calls"], 100):  # type: ignore[arg-type]
        inner = example.answer.removeprefix("<|tool_call>").removesuffix("<tool_call|>")
        parsed = parse_tool_call(inner)
        call = {"name": parsed.name, "arguments": json.loads(parsed.arguments)}
        assert read_call(example.answer) == call
        assert TASKS["calls"].grade(example, json.dumps(call))
        assert not TASKS["calls"].grade(example, json.dumps({**call, "arguments": {}}))


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0, "zero"),
        (14, "fourteen"),
        (40, "forty"),
        (87, "eighty-seven"),
        (300, "three hundred"),
        (999, "nine hundred ninety-nine"),
    ],
)
def test_numbers_in_words(number: int, words: str) -> None:
    assert spell(number) == words


def test_units_take_the_number_alone() -> None:
    task = Units()
    example = Example("units", "", "0.25 km")
    assert task.grade(example, "0.25")
    assert task.grade(example, "0.25 km.")
    for text in ("0.2", "25 km", "0.25 m"):
        assert not task.grade(example, text)


def test_units_are_taken_by_all_their_names() -> None:
    task = Units()
    for answer, others in {
        "35000 m": ("35000m", "35,000 m", "35000 metres", "35000 meter."),
        "1 feet": ("1 foot",),
        "0.5 h": ("0.5 hours", "0.5h"),
    }.items():
        assert all(task.grade(Example("units", "", answer), text) for text in others)
    for text in ("35000 min", "35000 mm", "3,5000 m", "35 000 m", "35000 m m"):
        assert not task.grade(Example("units", "", "35000 m"), text)


def test_days_of_the_week_are_counted() -> None:
    """By what each request says itself."""
    days = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
    back = re.compile(r"before|back|earlier|ago|precedes|previous|Subtract|yesterday")
    counted = 0
    for example in drawn(TASKS["dates"], 6000):  # type: ignore[arg-type]
        said = [day for day in days if day in example.prompt]
        if example.answer not in days or len(said) != 1:
            continue
        number = re.search(r"\b([2-9]) days\b", example.prompt)
        steps = int(number[1]) if number else 1
        if back.search(example.prompt):
            steps = -steps
        counted += number is not None
        assert example.answer == days[(days.index(said[0]) + steps) % 7], example.prompt
    assert counted > 100


def test_a_date_with_its_month_is_not_asked_for_it() -> None:
    written = re.compile(
        r"(January|February|March|April|May|June|July|August|September|October|November|December) \d+, "
    )
    asked = [e.prompt for e in drawn(TASKS["dates"], 6000) if "month's name" in e.prompt]  # type: ignore[arg-type]
    assert len(asked) > 10
    assert not any(map(written.search, asked))


def test_differences_of_things_are_not_below_zero() -> None:
    below = [e for e in drawn(TASKS["sums"], 6000) if e.answer.startswith("-") and "words" in (e.kind or "")]  # type: ignore[arg-type]
    assert len(below) > 20
    things = re.compile(r"eggs|cookies|born|difference between|distance|guests", re.IGNORECASE)
    assert not any(things.search(e.prompt) and "minus" not in e.prompt and "ubtract" not in e.prompt for e in below)


def test_tables_in_yaml_hold_texts() -> None:
    values = {"yes", "no", "on", "off", "y", "n", "true", "false", "null"}
    for example in drawn(TASKS["conversion"], 1500):  # type: ignore[arg-type]
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


def test_another_operator_changes_the_sign_alone() -> None:
    """The instruction names the new one in some way, and every pattern of it is filled in."""
    names = {
        "+": ("add", "plus", "sum"),
        "-": ("subtract", "minus", "difference"),
        "*": ("multiply", "times", "product"),
    }
    names["/"] = ("divide", "divided by", "quotient")
    seen = set()
    for example in drawn(Changes(), 1500):
        if example.kind == "operator":
            asked = example.prompt.replace(example.source, "")
            ((old, new),) = {pair for pair in zip(example.source, example.answer, strict=True) if pair[0] != pair[1]}
            assert any(name in asked.lower() for name in (new, *names[new])), asked
            seen.add((old, new))
    assert len(seen) == 12  # every operator becomes every other


def test_a_number_is_named_where_there_are_others() -> None:
    alone = among = 0
    for example in drawn(Changes(), 800):
        if example.kind == "number":
            asked = example.prompt.replace(example.source, "")
            before, after = (
                re.findall(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.])", text) for text in (example.source, example.answer)
            )
            ((old, new),) = {pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]}
            assert new in asked
            assert len(before) == 1 or old in asked, asked
            alone, among = alone + (len(before) == 1), among + (len(before) > 1)
    assert alone > 5
    assert among > 5


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
            assert set(names) <= set(_DRAWN), pattern
