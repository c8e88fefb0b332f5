"""Words, items, layouts and patterns that the skills draw from, and what of them training never sees."""

import random
import re
from collections import Counter
from decimal import Decimal

import pytest

from gesso.tasks import TASKS
from gesso.tasks.skills.entries import draw_entries, draw_numbers
from gesso.tasks.skills.layouts import LINES, Layout, draw_layout
from gesso.tasks.skills.lexicon import RESERVED, dictionary, draw_pseudo_word, draw_word, is_unseen
from gesso.tasks.skills.patterns import expand, variants
from gesso.tasks.skills.slots import Slots
from tasks.drawing import drawn


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
    plain = [
        e
        for e in seen
        if e.answer.islower() and not e.kind.startswith(("letters", "style", "signs", "drop", "settings"))
    ]
    plain = [e for e in plain if e.kind != "one" or " " in e.answer]  # of one word a letter is replaced
    assert not any(is_unseen(word) for example in plain for word in words(example.answer))
    unseen = [skill.sample_evaluation(rng, 0) for _ in range(200)]
    plain = [e for e in unseen if e.answer.islower() and e.kind.startswith(("words", "replace"))]
    plain = [e for e in plain if not re.search(r"\d", e.answer)]
    assert all(any(map(is_unseen, words(example.answer))) for example in plain[:20])


def test_made_up_places_and_people_are_not_held_out_with_their_endings() -> None:
    """An ending makes another word, which may be on the other side of the split."""
    slots = Slots(random.Random(3))
    found = [slots.city() for _ in range(3000)] + [slots.name().split()[-1] for _ in range(3000)]
    assert not list(filter(is_unseen, found))


def test_nobody_says_please_twice_in_a_row() -> None:
    """A request may say it already, and so may what it is put in."""
    for ask in ("Take out the doubles please", "Take out the doubles, please", "please take out the doubles"):
        prompts = [Slots(random.Random(seed)).frame(ask, "grelt, fig") for seed in range(2000)]
        assert not [prompt for prompt in prompts if re.search(r"please,? please", prompt, re.IGNORECASE)]


def test_styles_that_begin_with_a_vowel_have_their_article() -> None:
    prompts = [e.prompt for e in drawn(TASKS["casing"], 6000)]
    assert any(re.search(r"\ban upper", prompt, re.IGNORECASE) for prompt in prompts)
    assert not any(re.search(r"\ba upper", prompt, re.IGNORECASE) for prompt in prompts)


def test_requests_that_begin_with_a_participle_stand_alone() -> None:
    for name in ("ranges", "sorting", "reversing"):
        for example in drawn(TASKS[name], 3000, evaluation=True):
            assert not re.search(r"\b(?:you|kindly|to|please) (?:starting|beginning) ", example.prompt), example.prompt


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


def test_layouts_write_what_they_say() -> None:
    assert Layout(", ", last=" and ").write(["a", "b", "c"]) == "a, b and c"
    assert Layout(", ", last=" and ").answer(["a", "b", "c"]) == "a, b, c"
    assert Layout(", ", item='"{}"', whole="[{}]").write(["a", "b"]) == '["a", "b"]'
    assert Layout("\n", item="- {}").write(["a"]) == "- a"
    assert LINES.write(["a", "b"]) == "a\nb"
    rng = random.Random(0)
    shapes = Counter(draw_layout(rng).answer(["a", "b", "c"]) for _ in range(2000))
    assert len(shapes) > 12
    assert all(re.findall("[a-c]", shape) == ["a", "b", "c"] for shape in shapes)


def test_items_of_lists_are_distinct_and_of_every_kind() -> None:
    slots = Slots(random.Random(2))
    lists = [draw_entries(slots, 4) for _ in range(400)]
    assert all(len({item.lower() for item in items}) == 4 for items in lists)
    assert any(" " in item for items in lists for item in items)
    assert any(re.search(r"\d", item) for items in lists for item in items)
    assert not any(" " in item for _ in range(200) for item in draw_entries(slots, 3, spaced=False))
    for _ in range(300):
        numbers = draw_numbers(slots, 4)
        assert len({number for number, _ in numbers}) == 4
        assert all(Decimal(re.sub(r"[^\d.-]", "", text)) == number for number, text in numbers)
