"""`gesso chat`, behind a pipe and in a terminal."""

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from engine.seeing import picture, png
from engine.tiny import reciter

from cli.conftest import Gesso
from gesso import api
from gesso.cli import app, chat, interrupt, session
from gesso.cli.signals import Signals
from gesso.engine.engine import Engine, Request


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


def test_a_byte_order_mark_is_no_part_of_a_message(gesso: Gesso, partner: Engine) -> None:
    gesso("chat", stdin="\ufeffone\n")
    assert heard(partner) == ["<bos>" + turn("user", "one") + ASK]


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


def test_commands_may_end_with_a_space_and_paths_are_messages(gesso: Gesso, partner: Engine) -> None:
    outcome = gesso("chat", stdin="/help\n/usr/bin is a folder\n/clear \n/exit \nnever said\n")
    assert (outcome.code, outcome.out) == (0, "fig\n")
    assert outcome.err.startswith("/clear forgets the conversation")
    assert heard(partner) == ["<bos>" + turn("user", "/usr/bin is a folder") + ASK]


def test_a_message_of_several_lines(gesso: Gesso, partner: Engine) -> None:
    fenced = '''"""one

/two
"""
"""three""" never said
"""four'''
    gesso("chat", stdin=fenced)
    asked = [part.rpartition("<|turn>user\n")[2].removesuffix("<turn|>\n" + ASK) for part in heard(partner)]
    assert asked == ["one\n\n/two", "three", "four"]


def test_ctrl_c_begins_a_message_of_several_lines_anew(
    gesso: Gesso, partner: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: Any = iter(['"""one', KeyboardInterrupt, "two"])
    prompts: list[str] = []

    def ask(prompt: str) -> str:
        prompts.append(prompt)
        line = next(lines, EOFError)
        if isinstance(line, str):
            return line
        raise line

    monkeypatch.setattr("builtins.input", ask)
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda _: True)
    monkeypatch.setenv("TERM", "dumb")
    assert gesso("chat", stdin=None).code == 0
    assert prompts == ["> ", "... ", "> ", "> "]
    assert heard(partner) == ["<bos>" + turn("user", "two") + ASK]


def test_behind_the_largest_seed_comes_the_first(
    gesso: Gesso, partner: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeds: list[Any] = []
    stream = partner.stream
    monkeypatch.setattr(partner, "stream", lambda *a, **k: seeds.append(k.get("seed")) or stream(*a, **k))
    assert gesso("chat", "--seed", 2**63 - 1, stdin="one\n/retry\n").code == 0
    assert seeds == [2**63 - 1, 0]


def test_the_last_turn_is_undone_or_asked_again(gesso: Gesso, partner: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    seeds: list[Any] = []
    stream = partner.stream
    monkeypatch.setattr(partner, "stream", lambda *a, **k: seeds.append(k.get("seed")) or stream(*a, **k))
    outcome = gesso("chat", "--seed", 5, stdin="/undo\n/retry\none\n/retry\n/retry\ntwo\n/undo\nthree\n")
    again = "the same answer again: others come at a higher temperature (--temperature X)\n"
    nothing = "nothing was said yet\n"
    assert (outcome.code, outcome.err) == (0, f"{nothing}{nothing}{again}{again}the last turn is forgotten\n")
    assert seeds == [5, 6, 7, 5, 5]
    start = "<bos>" + turn("user", "one")
    assert heard(partner)[:3] == [start + ASK] * 3
    assert heard(partner)[4] == start + turn("model", "fig") + turn("user", "three") + ASK


def test_a_conversation_is_saved_as_a_line_to_train_on(gesso: Gesso, partner: Engine, tmp_path: Path) -> None:
    file = tmp_path / "talks of mine.jsonl"
    outcome = gesso("chat", "--system", "s", stdin=f"/save {file}\none\n/save {file}\ntwo\n/save {file}\n/save\n")
    saved, missing = f"saved as a line of {file}\n", "gesso: /save needs the name of a file: /save FILE\n"
    assert (outcome.code, outcome.err) == (0, f"gesso: nothing was said yet\n{saved}{saved}{missing}")
    short, long = (json.loads(line)["messages"] for line in file.read_text().splitlines())
    assert [message["role"] for message in long] == ["system", "user", "assistant", "user", "assistant"]
    assert short == long[:3]
    quoted = tmp_path / "a talk.jsonl"
    assert gesso("chat", stdin=f'one\n/save "{quoted}"\n').err == f"saved as a line of {quoted}\n"
    assert quoted.exists()
    for name in (tmp_path, tmp_path / "none" / "x", "~nosuch/x"):
        outcome = gesso("chat", stdin=f"one\n/save {name}\n")
        assert (outcome.code, outcome.err.count("\n")) == (0, 1)
        assert outcome.err.startswith(f"gesso: {name}: " if name != "~nosuch/x" else "gesso: '~nosuch/x' cannot be")


def test_a_plain_terminal_is_asked_too(gesso: Gesso, partner: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def ask(prompt: str) -> str:
        asked.append(prompt)
        return "/exit"

    monkeypatch.setattr("builtins.input", ask)
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda _: True)
    monkeypatch.setenv("TERM", "dumb")
    outcome = gesso("chat", stdin=None)
    assert asked == ["> "]
    assert "Ctrl-D ends it" in outcome.err


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such terminals")
@pytest.mark.parametrize(
    ("pasted", "message"),
    [(b"one\r\r/clear", "one\n\n/clear"), (b"/clear\r", "/clear"), (b'"""a\rb"""\r', "a\nb")],
)
def test_what_is_pasted_is_one_message(pasted: bytes, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    ours, theirs = os.openpty()
    code = "from gesso.cli import chat; chat._edit_lines(pasted=True); print('said', [chat._message(True)])"
    process = subprocess.Popen([sys.executable, "-c", code], stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = b""
    while b"> " not in shown:
        shown += os.read(ours, 1000)
    assert b"\x1b[?2004h" in shown  # the terminal is asked to say where what is pasted begins and ends
    os.write(ours, b"\x1b[200~" + pasted + b"\x1b[201~\r")
    while b"]" not in shown.partition(b"said ")[2]:
        shown += os.read(ours, 1000)
    assert process.wait(timeout=60) == 0
    os.close(ours)
    assert f"said {[message]!r}" in shown.decode()


def test_a_message_that_is_refused_is_forgotten(gesso: Gesso, partner: Engine) -> None:
    outcome = gesso("chat", stdin=f"{'x' * 10**6}\none\n")
    assert (outcome.code, outcome.out) == (2, "fig\n")
    assert outcome.err.startswith("gesso: the prompt is too long")
    assert heard(partner) == ["<bos>" + turn("user", "one") + ASK]


def test_a_model_without_eyes_says_so_when_an_image_is_attached(gesso: Gesso, partner: Engine, tmp_path: Path) -> None:
    (tmp_path / "a b.png").write_bytes(png())
    outcome = gesso("chat", stdin=f"/image {tmp_path / 'a b.png'}\n/image\none\n")
    first, second = outcome.err.splitlines()
    assert first.startswith("gesso: this model reads text only")
    assert second == "gesso: /image needs the name of a file: /image FILE"
    assert heard(partner) == ["<bos>" + turn("user", "one") + ASK]


@pytest.mark.parametrize("command", ["image", "video"])
def test_a_home_folder_of_nobody_is_one_line(gesso: Gesso, partner: Engine, command: str) -> None:
    outcome = gesso("chat", stdin=f"/{command} ~nosuch/x.png\none\n")
    assert (outcome.code, outcome.out) == (0, "fig\n")
    assert outcome.err.startswith("gesso: '~nosuch/x.png' cannot be found: ")
    assert outcome.err.count("\n") == 1


def test_images_go_with_the_next_message(
    gesso: Gesso, seeing: Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """They are read when they are attached, and stay in the conversation."""
    asked: list[Any] = []

    def stream(prompt: Any, **options: Any) -> Any:
        state = seeing.start(Request(prompt, {"image_budget": options["image_budget"]}))
        asked.append([(span.length, span.content_hash) for span in state.prompt.spans])
        return Engine.stream(seeing, "hi", max_new_tokens=8, seed=1)

    monkeypatch.setattr(seeing, "stream", stream, raising=False)
    monkeypatch.setattr(api, "load", lambda *_, **__: seeing)
    for name, seed in (("a b.png", 1), ("c.png", 2)):
        picture(seed=seed).save(tmp_path / name)
    lines = [f"/image {tmp_path / 'a b.png'}", f"/image {tmp_path / 'c.png'}", "one", "two", "/image none.png", "three"]
    lines += [f"/image '{tmp_path / 'a b.png'}'", "/image http://127.0.0.1:1/x.png", "/clear", "four"]
    outcome = gesso("chat", "--image-budget", 70, stdin="\n".join(lines))
    assert outcome.code == 0
    assert [[length for length, _ in turn] for turn in asked] == [[64, 64], [64, 64], [64, 64], []]
    assert asked[0] == asked[1]
    assert asked[0][0] != asked[0][1]
    assert "gesso: 'none.png' is no file" in outcome.err
    assert "'http://127.0.0.1:1/x.png' is an address: nothing is fetched here" in outcome.err
    assert outcome.err.count("goes with your next message") == 3
    assert outcome.err.count(f"image {str(tmp_path / 'a b.png')!r} goes") == 2


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
    assert seen["frames"] is False


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


@pytest.mark.parametrize("place", ["prompt", "answer", "end"])
def test_sigterm_ends_a_conversation_in_a_terminal(
    gesso: Gesso, partner: Engine, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """At the prompt, in the midst of an answer, and when all of it has come."""
    signals, show, lines = Signals(), session.present, iter(["one", "/exit"])
    signals.running = True
    for module in (app, chat, interrupt):
        monkeypatch.setattr(module, "SIGNALS", signals)

    def ask(_: str) -> str:
        if place == "prompt":
            signal.raise_signal(signal.SIGTERM)
        return next(lines)

    def present(events: Any, **options: Any) -> Any:
        if place == "answer":
            signal.raise_signal(signal.SIGTERM)
        result = show(events, **options)
        if place == "end":
            signal.raise_signal(signal.SIGTERM)
        return result

    monkeypatch.setattr("builtins.input", ask)
    monkeypatch.setattr(session, "present", present)
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda _: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    before = signal.signal(signal.SIGTERM, signals.handle)
    try:
        outcome = gesso("chat", stdin=None)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert (outcome.code, signals.exit_code()) == (130, 143)
    assert list(lines) == (["one", "/exit"] if place == "prompt" else ["/exit"])
    assert "forgotten" not in outcome.err


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
