"""`gesso chat`, behind a pipe and in a terminal."""

import io
import sys
from typing import Any

import pytest
from engine.tiny import reciter

from cli.conftest import Gesso
from gesso import api
from gesso.engine.engine import Engine


@pytest.fixture
def partner(monkeypatch: pytest.MonkeyPatch) -> Engine:
    """Says `fig` to everything."""
    engine = reciter("fig")
    monkeypatch.setattr(api, "load", lambda *_, **__: engine)
    return engine


def heard(engine: Engine) -> list[str]:
    """What the model was given, turn by turn."""
    model: Any = engine.model
    return [engine.tokenizer.decode(ids) for ids in model.encoded]


def turn(role: str, text: str) -> str:
    return f"<|turn>{role}\n{text}<turn|>\n"


WORDS = "pear fig apple kiwi lemon mango plum lime grape peach"
ASK = "<|turn>model\n<|channel>thought\n<channel|>"


def test_a_line_is_a_message_and_answers_are_remembered(gesso: Gesso, partner: Engine) -> None:
    outcome = gesso("chat", "--system", "s", stdin="one\n\n  \ntwo\n")
    assert (outcome.code, outcome.out, outcome.err) == (0, "fig\nfig\n", "")
    start = "<bos>" + turn("system", "s") + turn("user", "one")
    assert heard(partner) == [start + ASK, start + turn("model", "fig") + turn("user", "two") + ASK]


def test_clear_forgets_all_but_the_system_message(gesso: Gesso, partner: Engine) -> None:
    gesso("chat", "--system", "s", stdin="one\n/clear\ntwo\n")
    assert heard(partner)[1] == "<bos>" + turn("system", "s") + turn("user", "two") + ASK


@pytest.mark.parametrize("leave", ["/exit", "/quit"])
def test_exit_ends_it(gesso: Gesso, partner: Engine, leave: str) -> None:
    outcome = gesso("chat", stdin=f"one\n{leave}\ntwo\n")
    assert (outcome.code, outcome.out, len(heard(partner))) == (0, "fig\n", 1)


def test_an_unknown_command_is_no_message(gesso: Gesso, partner: Engine) -> None:
    outcome = gesso("chat", stdin="/frobnicate now\n")
    assert (outcome.code, outcome.out, heard(partner)) == (0, "", [])
    assert outcome.err.startswith("no command /frobnicate: /clear")


def test_a_message_that_is_refused_is_forgotten(gesso: Gesso, partner: Engine) -> None:
    outcome = gesso("chat", stdin="<|image|>\none\n")
    assert outcome.out == "fig\n"
    assert outcome.err == "gesso: the prompt holds an image; images are not supported yet\n"
    assert heard(partner) == ["<bos>" + turn("user", "one") + ASK]


def test_input_that_is_no_text_is_refused(gesso: Gesso, partner: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(io, "StringIO", lambda _: io.TextIOWrapper(io.BytesIO(b"caf\xe9\n"), encoding="utf-8"))
    outcome = gesso("chat", stdin="replaced")
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert "standard input is no UTF-8 text" in outcome.err


def test_settings_reach_the_engine(gesso: Gesso, partner: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}

    def stream(prompt: Any, **options: Any) -> Any:
        seen.update(options)
        return Engine.stream(partner, "hi")

    monkeypatch.setattr(partner, "stream", stream, raising=False)
    gesso("chat", "--seed", 3, "--entropy-bound", 0.5, "--stop", "x", "--thinking", stdin="one\n")
    assert (seen["seed"], seen["entropy_bound"], seen["stop"], seen["thinking"]) == (3, 0.5, ("x",), True)
    assert seen["drafts"] is False


def test_a_cancelled_turn_is_marked_and_forgotten(
    gesso: Gesso, monkeypatch: pytest.MonkeyPatch, interrupt_at: Any
) -> None:
    engine = reciter(WORDS, canvas=2)
    monkeypatch.setattr(api, "load", lambda *_, **__: engine)
    answers = iter(["one", "two", "/exit"])
    monkeypatch.setattr("builtins.input", lambda _: next(answers))
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda _: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    interrupt_at(5)
    outcome = gesso("chat", stdin=None)
    assert outcome.code == 0
    assert "pear fig apple kiwi" in outcome.out
    assert "[cancelled: the answer ends here, unfinished]" in outcome.out
    assert "this turn is forgotten\n" in outcome.err
    asked = [text for text in heard(engine) if text.endswith(ASK)]
    assert asked == ["<bos>" + turn("user", word) + ASK for word in ("one", "two")]


def test_a_cancelled_turn_ends_a_conversation_from_a_pipe(
    gesso: Gesso, monkeypatch: pytest.MonkeyPatch, interrupt_at: Any
) -> None:
    monkeypatch.setattr(api, "load", lambda *_, **__: reciter(WORDS, canvas=2))
    interrupt_at(3)
    outcome = gesso("chat", stdin="one\ntwo\n")
    assert (outcome.code, outcome.out) == (130, "pear fig\n")


def test_in_a_terminal_it_prompts_and_draws(gesso: Gesso, partner: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    answers = iter(["one", KeyboardInterrupt, "/exit"])

    def ask(prompt: str) -> str:
        asked.append(prompt)
        answer = next(answers)
        if not isinstance(answer, str):
            raise answer
        return answer

    monkeypatch.setattr("builtins.input", ask)
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda _: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    outcome = gesso("chat", stdin=None)
    assert outcome.code == 0
    assert asked == ["> ", "> ", "> "], "Ctrl-C at the prompt asks again"
    assert "Ctrl-D ends it" in outcome.err
    assert "step 1/12" in outcome.out
    assert "tokens/forward" in outcome.out
