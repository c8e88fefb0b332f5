"""`gesso studio` and `gesso serve --open`: the page opens in the browser as soon as the server listens."""

import threading
import webbrowser
from typing import Any

import pytest

from cli.conftest import Gesso
from gesso.server import run as run_module
from gesso.server.settings import Settings

URL = "http://127.0.0.1:5"


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """A server that says that it listens and ends; its settings."""
    seen: list[Settings] = []

    def serve(service: Any, settings: Settings, listener: Any, started: Any, traces: Any, batches: Any) -> int:
        seen.append(settings)
        assert listener.getsockname()[0] == "127.0.0.1"
        assert traces is batches is None
        started(URL)
        for thread in threading.enumerate():
            if thread.name == "gesso-browser":
                thread.join()
        return 0

    monkeypatch.setattr(run_module, "serve", serve)
    return seen


@pytest.mark.parametrize("command", [("studio",), ("serve", "--port", "0", "--open")])
def test_the_browser_is_sent_to_the_server(
    gesso: Gesso, started: list[Settings], monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda url: opened.append(url) is None)
    outcome = gesso(*command)
    assert (outcome.code, outcome.out, outcome.err) == (0, f"mini is served at {URL}\n", "")
    assert opened == [URL]
    assert started[0].served_model_name == "mini"


def test_without_a_browser_the_address_is_told(
    gesso: Gesso, started: list[Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webbrowser, "open", lambda url: False)
    assert gesso("studio").err == f"no browser was found; open {URL} in one\n"


def test_a_server_alone_opens_nothing(gesso: Gesso, started: list[Settings], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webbrowser, "open", lambda url: pytest.fail("a browser was opened"))
    assert gesso("serve", "--port", "0").code == 0


def test_mistakes_are_one_line(gesso: Gesso) -> None:
    for arguments in (("--model", "nowhere", "--offline"), ("--port", "99999"), ("--adapter", "x")):
        outcome = gesso("studio", *arguments)
        assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1)
