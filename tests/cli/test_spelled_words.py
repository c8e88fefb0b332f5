"""The remark on words that a model with fixed words spells."""

import random
from pathlib import Path

import pytest

from cli.conftest import Gesso
from gesso.cli.spelled_words import note_spelled_words, spelled_words
from gesso.load_options import LoadOptions
from gesso.models.card import ModelCard, read_card
from gesso.models.hub import bundled, resolve
from gesso.tasks.registry import TRAINING_TASKS
from gesso.text.tokenizer import Tokenizer

MINI = Tokenizer.from_folder(resolve("mini"))


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
    assert spelled_words(text, MINI) == words


@pytest.mark.parametrize("name", ["json", "code", "arithmetic", "ordering", "editing", "counting"])
def test_a_models_own_prompts_have_none(name: str) -> None:
    rng = random.Random(name)
    assert not any(spelled_words(TRAINING_TASKS[name].sample(rng).prompt, MINI) for _ in range(50))


@pytest.mark.parametrize(
    ("text", "options", "noted"),
    [
        (
            "grelt blorp fnord xyzzy fig",
            {},
            "mini has no tokens for these words: grelt, blorp, fnord ...; for",
        ),
        ("fig", {}, ""),
        ("grelt", {"model": "skills"}, ""),
        ("grelt", {"model": str(resolve("mini"))}, ""),
        ("grelt", {"adapter": "folder"}, ""),
    ],
)
def test_models_with_fixed_words_are_remarked_on(
    text: str, options: dict[str, str], noted: str, capsys: pytest.CaptureFixture[str]
) -> None:
    note_spelled_words(text, LoadOptions(**options), MINI)  # type: ignore[arg-type]
    err = capsys.readouterr().err
    assert noted in err
    assert bool(err) == bool(noted)


def test_the_model_named_is_there() -> None:
    cards = [card for name in bundled() if (card := read_card(resolve(name))) is not None]
    named = {card.model_for_other_words for card in cards} - {""}
    assert named == {"skills"}
    assert named <= set(bundled())


def test_the_remark_stands_beside_the_answer(gesso: Gesso, bundled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    card = ModelCard(model_for_other_words="other")
    monkeypatch.setattr("gesso.models.card.read_card", lambda _: card)
    options = ("--max-new-tokens", 4, "--max-denoising-steps", 1)
    outcome = gesso("generate", "Sort: grelt, apple", *options)
    assert outcome.code == 0
    assert outcome.err == "mini has no tokens for these words: grelt; for any word: --model other\n"
    assert not gesso("generate", "Sort: fig, apple", *options).err
    assert not gesso("generate", "Sort: grelt, apple", "--json", *options).err
    assert "grelt" in gesso("chat", stdin="grelt\n").err
