"""What of a prompt a model with fixed words and wordings was not trained on."""

import random

import pytest

from gesso.models.card import read_card
from gesso.models.hub import resolve
from gesso.tasks.registry import TRAINING_TASKS
from gesso.text.tokenizer import Tokenizer
from gesso.text.untrained import spelled_words, untrained

MINI = Tokenizer.from_folder(resolve("mini"))
OWN = ("json", "code", "arithmetic", "ordering", "editing", "counting")
WORDING = "was not trained on this wording"


def wordings() -> tuple[str, ...]:
    card = read_card(resolve("mini"))
    assert card is not None
    return card.wordings


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Sort: pear, fig, apple, kiwi", []),
        ("Sort: grelt, Fig, grelt, tlerg", ["grelt", "Fig", "tlerg"]),
        ("who are you?", ["who", "are"]),
        ("a b c 1 + 1", []),
    ],
)
def test_words_without_a_token_are_found(text: str, words: list[str]) -> None:
    assert list(spelled_words(text, MINI)) == words


@pytest.mark.parametrize("name", OWN)
def test_a_models_own_prompts_have_none(name: str) -> None:
    rng = random.Random(name)
    assert not any(list(spelled_words(TRAINING_TASKS[name].sample(rng).prompt, MINI)) for _ in range(50))


@pytest.mark.parametrize("name", [*OWN, "revision", "revision-in-file"])
def test_a_models_own_prompts_are_trained(name: str) -> None:
    task, rng = TRAINING_TASKS[name], random.Random(name)
    for index in range(100):
        for prompt in (task.sample(rng).prompt, task.sample_evaluation(rng, index).prompt):
            assert not untrained(f" {prompt}\n", wordings(), MINI), prompt


@pytest.mark.parametrize(
    ("prompt", "told"),
    [
        ("grelt blorp fnord xyzzy fig", "has no tokens for these words: grelt, blorp, fnord ..."),
        ("Reverse the words: grelt pear fig", "has no tokens for these words: grelt"),
        ("Write hello in uppercase", WORDING),
        ("", "was not trained to go without an instruction"),
        ("Sort pear, fig, apple", WORDING),
        ("Sort: pear, fig", WORDING),
        ("What is 481+296?", WORDING),
        ("What is 4810 + 296?", WORDING),
        ("What is 481 + 296", WORDING),
        ("Count from 1 to 300 separated by commas.", WORDING),
        ("Reverse the words: cat, bird, fish", WORDING),
        ("Write a Python function add_seven.", WORDING),
    ],
)
def test_what_was_not_trained_on_is_told(prompt: str, told: str) -> None:
    assert untrained(prompt, wordings(), MINI) == told


def test_any_wording_will_do_where_none_is_named() -> None:
    assert not untrained("Write hello in uppercase", (), MINI)
    assert untrained("Write grelt in uppercase", (), MINI)


def test_a_word_without_end_is_cut() -> None:
    told = untrained("Sort: " + "x" * 300_000, wordings(), MINI)
    assert told == f"has no tokens for these words: {'x' * 30}..."
