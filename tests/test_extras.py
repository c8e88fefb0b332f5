"""What installs an extra of gesso."""

import json
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from typing import Any

import pytest

from gesso import extras


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
    assert extras.pip_install("train") == f"pip install {requirement}"

    def absent(_: str) -> None:
        raise PackageNotFoundError

    monkeypatch.setattr("importlib.metadata.distribution", absent)
    assert extras.pip_install("train") == 'pip install "gesso[train]"'


def test_the_command_line_starts_without_what_only_a_missing_extra_needs() -> None:
    code = "import gesso.extras, sys; print(*({'importlib.metadata', 'urllib.request'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout.strip() == ""
