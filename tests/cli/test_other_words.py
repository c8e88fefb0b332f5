"""Which model answers words that the default one spells."""

from dataclasses import replace

import pytest

from cli.conftest import Gesso
from gesso.cli.other_words import suited
from gesso.load_options import LoadOptions
from gesso.models.card import ModelCard, read_card
from gesso.models.hub import bundled, resolve


@pytest.mark.parametrize(
    ("text", "load", "options", "answers"),
    [
        ("grelt blorp fnord xyzzy fig", {}, (), "skills"),
        ("grelt blorp fnord xyzzy fig", {}, ("seed", "max_new_tokens", "json_schema"), "skills"),
        ("grelt blorp fnord xyzzy fig", {}, ("mode",), "mini"),
        ("grelt blorp fnord xyzzy fig", {}, ("entropy_bound",), "mini"),
        ("grelt blorp fnord xyzzy fig", {}, ("canvas",), "mini"),
        ("grelt blorp fnord xyzzy fig", {}, ("guidance_scale",), "mini"),
        ("Sort: fig, apple, pear", {}, (), ""),
        ("grelt", {"model": "skills"}, (), ""),
        ("grelt", {"model": str(resolve("mini"))}, (), ""),
        ("grelt", {"adapter": "folder"}, (), ""),
    ],
)
def test_other_words_go_to_the_model_that_takes_any(
    text: str, load: dict[str, str], options: tuple[str, ...], answers: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = LoadOptions(**load)  # type: ignore[arg-type]
    found = suited(given, text, named=False, options=options)
    assert found == replace(given, model=answers or given.model)
    err = capsys.readouterr().err
    told = "mini has no tokens for these words: grelt, blorp, fnord ..."
    keeps = {"mini": f"{told}; for any words: --model skills\n", "": ""}
    assert err == keeps.get(answers, f"{told}; skills answers (--model mini keeps mini)\n")
    # Who names a model gets it.
    assert suited(given, text, named=True, options=options) == given
    assert (capsys.readouterr().err != "") == (err != "")


def test_other_wordings_go_to_the_model_that_takes_any(capsys: pytest.CaptureFixture[str]) -> None:
    assert suited(LoadOptions(), "Write hello in uppercase", named=False).model == "skills"
    assert capsys.readouterr().err == "mini was not trained on this wording; skills answers (--model mini keeps mini)\n"


def test_the_model_named_is_there() -> None:
    cards = [card for name in bundled() if (card := read_card(resolve(name))) is not None]
    named = {card.model_for_other_words for card in cards} - {""}
    assert named == {"skills"}
    assert named <= set(bundled())


@pytest.fixture
def carded(gesso: Gesso, monkeypatch: pytest.MonkeyPatch) -> Gesso:
    """Every model names `skills` for other words."""
    monkeypatch.setattr("gesso.models.card.read_card", lambda _: ModelCard(model_for_other_words="skills"))
    return gesso


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_generate_says_who_answers(carded: Gesso, more: tuple[str, ...]) -> None:
    options = ("--max-new-tokens", 4, *more)
    outcome = carded("generate", "Sort: grelt, apple", *options)
    assert outcome.code == 0
    assert outcome.err == "mini has no tokens for these words: grelt; skills answers (--model mini keeps mini)\n"
    assert not carded("generate", "Sort: fig, apple", *options).err
    named = carded("generate", "Sort: grelt, apple", "--model", "mini", *options)
    assert named.err == "mini has no tokens for these words: grelt; for any words: --model skills\n"


def test_chat_remarks_on_words_of_a_model_that_was_named(carded: Gesso) -> None:
    assert "grelt" in carded("chat", "--model", "mini", "--max-new-tokens", 4, stdin="grelt\n").err
