"""Which model answers words that the default one spells."""

from dataclasses import replace
from pathlib import Path

import pytest

from cli.conftest import Gesso
from gesso.cli.model_notes import note_no_thinking, suited
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


def test_who_speaks_before_the_prompt_is_heard_by_the_model_that_takes_any(capsys: pytest.CaptureFixture[str]) -> None:
    assert suited(LoadOptions(), "Sort: fig, apple, pear", named=False, alone=False).model == "skills"
    assert "mini was trained on single messages" in capsys.readouterr().err


def test_it_is_told_who_was_not_trained_to_think(capsys: pytest.CaptureFixture[str]) -> None:
    note_no_thinking(LoadOptions(), {"thinking": True})
    assert capsys.readouterr().err == "mini was not trained to think: its answer may be empty\n"
    note_no_thinking(LoadOptions(adapter="folder"), {"thinking": True})
    note_no_thinking(LoadOptions(), {})
    assert not capsys.readouterr().err


def test_words_of_the_text_beside_a_prompt_count(capsys: pytest.CaptureFixture[str]) -> None:
    assert suited(LoadOptions(), "Sort: fig, apple, pear", named=False, beside="grelt").model == "skills"
    assert "mini has no tokens for these words: grelt; skills answers" in capsys.readouterr().err
    assert suited(LoadOptions(), "Sort: fig, apple, pear", named=False, beside="fig").model == "mini"


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


def test_fill_and_edit_say_who_answers(carded: Gesso, tmp_path: Path) -> None:
    file = tmp_path / "text"
    file.write_text("def grelt(x):\n    return {{ }}\n", encoding="utf-8")
    answers = "mini has no tokens for these words: grelt; skills answers (--model mini keeps mini)\n"
    keeps = "mini has no tokens for these words: grelt; for any words: --model skills\n"
    assert carded("fill", file, "--max-new-tokens", 3).err == answers
    assert carded("fill", file, "--max-denoising-steps", 1, "--max-new-tokens", 3).err == keeps
    file.write_text("def grelt(x):\n    return x + 7\n", encoding="utf-8")
    assert carded("edit", file, "Sort: fig.").err.startswith(answers)
    assert carded("edit", file, "Sort: fig.", "--strength", 1).err.startswith(keeps)
    file.write_text("def add_seven(x):\n    return x + 7\n", encoding="utf-8")
    assert "skills" not in carded("edit", file, "Sort: fig.").err


def test_choose_says_who_answers(carded: Gesso) -> None:
    answers = "mini has no tokens for these words: grelt; skills answers (--model mini keeps mini)\n"
    assert carded("choose", "Sort: grelt, apple", "--options", "fig,pear").err == answers
    assert carded("choose", "Sort: fig, apple", "--options", "grelt,pear").err == answers
    assert not carded("choose", "Sort: fig, apple", "--options", "fig,pear").err


def test_chat_remarks_on_words_of_a_model_that_was_named(carded: Gesso) -> None:
    assert "grelt" in carded("chat", "--model", "mini", "--max-new-tokens", 4, stdin="grelt\n").err
