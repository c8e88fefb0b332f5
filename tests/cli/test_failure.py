"""How mistakes are told: one line for people, an object for programs."""

import json
from pathlib import Path

import pytest
import torch
import typer

from cli.conftest import Gesso
from gesso import api
from gesso.cli.app import app
from gesso.errors import HubError, OptionError, TrainingError, UserError

WITH_JSON = {
    "generate": ["x", "--seed", "abc"],
    "choose": ["x"],
    "edit": ["nosuch", "Go on."],
    "fill": ["nosuch"],
    "eval": ["--task", "nosuch"],
    "bench": ["--mode", "nosuch"],
    "batch": ["nosuch", "--out", "out.jsonl"],
    "plan": ["--users", "0", "--gpu", "h200"],
    "doctor": ["--frobnicate"],
    "lab": ["nosuch.json"],
    "models": ["--frobnicate"],
    "models show": ["nosuch"],
}
"""A mistake in every command that has `--json`."""


def names(command: object, above: tuple[str, ...] = ()) -> dict[str, object]:
    """All commands by their names, those that are groups as well."""
    found = {" ".join(above): command}
    for name, child in getattr(command, "commands", {}).items():
        found |= names(child, (*above, name))
    return found


def test_every_command_with_json_is_tried_here() -> None:
    commands = names(typer.main.get_command(app))
    found = {name for name, command in commands.items() if any("--json" in p.opts for p in command.params)}  # type: ignore[attr-defined]
    assert found == set(WITH_JSON)


@pytest.mark.parametrize("command", WITH_JSON)
def test_with_json_a_mistake_is_an_object(gesso: Gesso, command: str) -> None:
    outcome = gesso(*command.split(), "--json", *WITH_JSON[command])
    assert (outcome.code, outcome.err.count("\n"), outcome.out.count("\n")) == (2, 1, 1)
    error = json.loads(outcome.out)["error"]
    assert set(error) == {"message", "option", "hint", "type"}
    assert outcome.err == f"gesso: {error['message']}\n"


@pytest.mark.parametrize(
    ("arguments", "option", "kind"),
    [
        (["generate", "x", "--seed", "abc"], "--seed", "UsageError"),
        (["generate", "x", "--sed", "1"], "--sed", "UsageError"),
        (["generate", "  "], "prompt", "TextError"),
        (["fill"], "file", "UsageError"),
        (["fill", "."], None, "IsADirectoryError"),
        (["models", "show", "nosuch"], None, "HubError"),
    ],
)
def test_the_object_names_the_option(gesso: Gesso, arguments: list[str], option: str | None, kind: str) -> None:
    error = json.loads(gesso(*arguments, "--json").out)["error"]
    assert (error["option"], error["type"], error["hint"]) == (option, kind, None)


def failing(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def load(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(api, "load", load)


def test_a_text_that_begins_with_a_dash_is_told_where_it_stands(gesso: Gesso) -> None:
    told = "gesso: No such option: -5\n  a text that begins with a dash stands last, behind --"
    assert gesso("generate", "-5 + 3").err.startswith(told)
    assert json.loads(gesso("generate", "-5 + 3", "--json").out)["error"]["hint"].endswith('gesso generate -- "-5 + 3"')
    assert gesso("generate", "fig pear", "--nope=a b").err.count("\n") == 1
    assert gesso("generate", "--", "-5 + 3").code == 0


def test_a_hint_is_a_second_line(gesso: Gesso, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, OptionError("it is\nwrong", option="max_denoising_steps", hint="give\nless"))
    outcome = gesso("generate", "x", "--json")
    assert (outcome.code, outcome.err) == (2, "gesso: it is wrong\n  give less\n")
    assert json.loads(outcome.out)["error"] == {
        "message": "it is wrong", "option": "--max-denoising-steps", "hint": "give less", "type": "OptionError",
    }  # fmt: skip


def test_an_option_that_is_none_of_the_command_line_keeps_its_name(
    gesso: Gesso, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, HubError("no", option="diffusion.steps"))
    assert json.loads(gesso("generate", "x", "--json").out)["error"]["option"] == "diffusion.steps"


def test_what_is_nobodys_mistake_is_an_object_too(gesso: Gesso, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, TrainingError("the disk is full"))
    outcome = gesso("generate", "x", "--json")
    assert (outcome.code, json.loads(outcome.out)["error"]["type"]) == (1, "TrainingError")


GPU = "CUDA out of memory. Tried to allocate 2.00 GiB."
RAM = "[enforce fail at alloc_cpu.cpp:127] . DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes."
LIBRARY = "libtorch_cpu.so: failed to map segment from shared object"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (MemoryError(), "there is not enough memory"),
        (MemoryError("Cannot allocate memory (os error 12)"), "memory: Cannot allocate memory (os error 12)"),
        (torch.OutOfMemoryError(GPU + "\nmore"), f"there is not enough memory: {GPU}"),
        (RuntimeError(RAM + "\nException raised from"), f"there is not enough memory: {RAM}"),
        (ImportError(f"Of NumPy:\n\nOriginal error was: {LIBRARY}\n"), LIBRARY),
    ],
)
def test_a_machine_without_memory_is_one_line(
    gesso: Gesso, monkeypatch: pytest.MonkeyPatch, error: Exception, told: str
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(api, "load", fails)
    outcome = gesso("generate", "x", "--model", "mini", "--json")
    assert (outcome.code, outcome.err.count("\n")) == (1, 1)
    assert outcome.err.endswith(f"{told}\n")
    assert json.loads(outcome.out)["error"]["type"] == type(error).__name__


@pytest.mark.parametrize("error", [RuntimeError("a shared object"), ImportError("cannot import name 'x'"), KeyError()])
def test_a_mistake_of_our_own_is_not_hidden(gesso: Gesso, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fails(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(api, "load", fails)
    with pytest.raises(type(error)):
        gesso("generate", "x", "--model", "mini")


def test_without_json_nothing_is_printed(gesso: Gesso, tmp_path: Path) -> None:
    assert gesso("generate", "  ").out == ""
    assert gesso("replay", "nosuch", "--json").out == "", "a command that has no --json"
    (tmp_path / "--json").write_text("no hole")
    assert gesso("fill", "--", tmp_path / "--json").out == ""


def test_an_error_carries_its_option_and_hint() -> None:
    plain, full = UserError("no"), OptionError("no", option="seed", hint="give one")
    assert (plain.option, plain.hint, str(plain)) == (None, None, "no")
    assert (full.option, full.hint, str(full)) == ("seed", "give one", "no")
