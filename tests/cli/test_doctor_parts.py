"""What installs a missing part, and that the parts are those of the project."""

import json
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest

from gesso.cli import doctor_parts

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))["project"]


def packages(requirements: list[str]) -> set[str]:
    return {requirement.partition(">")[0].strip() for requirement in requirements}


@pytest.mark.parametrize(
    ("source", "requirement"),
    [
        (None, '"gesso[train]"'),
        ({"url": "https://example.org/gesso.whl"}, '"gesso[train]"'),
        ({"url": "file:///a%20b/gesso", "dir_info": {"editable": True}}, '-e "/a b/gesso[train]"'),
        ({"url": "file:///a/gesso", "dir_info": {}}, '"/a/gesso[train]"'),
    ],
)
def test_the_command_installs_where_gesso_came_from(
    monkeypatch: pytest.MonkeyPatch, source: dict[str, Any] | None, requirement: str
) -> None:
    class Installed:
        def read_text(self, name: str) -> str | None:
            assert name == "direct_url.json"
            return None if source is None else json.dumps(source)

    monkeypatch.setattr("importlib.metadata.distribution", lambda _: Installed())
    assert doctor_parts._requirement("train") == requirement

    def absent(_: str) -> None:
        raise PackageNotFoundError

    monkeypatch.setattr("importlib.metadata.distribution", absent)
    assert doctor_parts._requirement("train") == '"gesso[train]"'


def test_the_parts_are_those_of_the_project() -> None:
    assert set(doctor_parts.NEEDED) == packages(PROJECT["dependencies"])
    for extra in doctor_parts.EXTRAS:
        assert set(doctor_parts.PARTS[extra][1].values()) == packages(PROJECT["optional-dependencies"][extra])
