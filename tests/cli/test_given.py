"""What a command line says of a config is told apart from what holds without it."""

from dataclasses import dataclass
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from gesso.cli import options as opt
from gesso.cli.given import Given
from gesso.errors import OptionError
from gesso.options import Texts, checked, option

SHOWN: dict[str, Any] = {"field": None}


@dataclass(frozen=True, slots=True)
class Config:
    """Has a setting of every sort."""

    size: int = option(4, "Size.", minimum=1, **SHOWN)
    rate: float | None = option(None, "Rate.", unset="the model's", **SHOWN)
    kept: int = option(2, "Kept.", minimum=1, flag="--keep", **SHOWN)
    on: bool = option(False, "On.", flag="--*/--no-*", **SHOWN)
    names: tuple[str, ...] = option(("a", "b"), "Names.", kind=Texts(), flag="--name", **SHOWN)
    inner: int = option(3, "Inner.", **{**SHOWN, "flag": None})
    left_out: int = option(5, "Left out.", **SHOWN)

    def __post_init__(self) -> None:
        checked(self)
        if self.kept > self.size:
            raise OptionError("kept must be at most size", option="kept")


SEEN: list[Given[Config]] = []


@opt.takes(rows={Config: ("size", "rate", "kept", "on", "names")}, usual={"size": 8}, helps={"rate": "Speed."})
def command(settings: Given[Config]) -> None:
    """Does nothing."""
    SEEN.append(settings)
    settings.build()


def given(*arguments: str) -> Given[Config]:
    """What the command is called with."""
    app = typer.Typer(rich_markup_mode=None)
    app.command()(command)
    done = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return SEEN[-1]


def test_without_any_the_defaults_of_command_and_config_hold() -> None:
    settings = given()
    assert (settings.values, settings.flags) == ({}, [])
    assert [settings[name] for name in ("size", "kept", "on", "inner")] == [8, 2, False, 3]
    assert settings.build(inner=7) == Config(size=8, inner=7)


@pytest.mark.parametrize(
    ("arguments", "values"),
    [
        (("--size", "4"), {"size": 4}),
        (("--rate", "0"), {"rate": 0.0}),
        (("--keep", "3"), {"kept": 3}),
        (("--on",), {"on": True}),
        (("--no-on",), {"on": False}),
        (("--name", "x", "--name", "y"), {"names": ("x", "y")}),
    ],
)
def test_what_is_given_is_told_even_where_it_is_the_default(arguments: tuple[str, ...], values: dict[str, Any]) -> None:
    settings = given(*arguments)
    assert settings.values == values
    assert all(name in settings and settings[name] == value for name, value in values.items())
    assert settings.flags == ["--on" if "--no-on" in arguments else arguments[0]]
    assert settings.build() == Config(**{"size": 8, **values})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--keep", "0"), "--keep must be an integer of at least 1, got 0"),
        (("--keep", "9"), "--keep must be at most size"),
    ],
)
def test_a_refusal_names_the_flag(arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(OptionError, match=f"^{message}$"):
        given(*arguments)


def test_help_says_what_holds_in_this_command() -> None:
    app = typer.Typer(rich_markup_mode=None)
    app.command()(command)
    shown = " ".join(CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200", "NO_COLOR": "1"}).output.split())
    for text in ("Size.", "[at least 1]", "[default: 8]", "Speed.", "[default: the model's]", "[default: a, b]"):
        assert text in shown
    assert "Rate." not in shown
    assert "left-out" not in shown
    assert "inner" not in shown
