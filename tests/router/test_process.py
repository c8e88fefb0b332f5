"""`gesso router` as a process that starts its own servers, one of which is killed in the middle of a stream."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from server.conftest import eventually

import gesso
from gesso.cli.app import run

LONG = {
    "model": "mini",
    "messages": [{"role": "user", "content": "Count from 1 to 9."}],
    "max_tokens": 160,
    "seed": 5,
    "stream": True,
    "diffusion": {"draft_frames": True, "ignore_eos": True},
}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give one of --replicas URL,URL and --spawn N"),
        (["--replicas", "http://a", "--spawn", "2"], "give one of"),
        (["--replicas", "a:80"], "--replicas takes addresses"),
        (["--spawn", "0"], "spawn must be at least 1"),
        (["--replicas", "http://a", "--", "--model", "mini"], "arguments behind -- need --spawn N"),
        (["--spawn", "1", "--replica-api-key", "k"], "leave out --replica-api-key"),
        (["--replicas", "http://a", "--slack", "-1"], "slack must be an integer of at least 0"),
    ],
)
def test_mistakes_are_one_line(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["router", "--port", "0", *arguments]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert len(captured.err.splitlines()) == 1


def test_servers_that_refuse_their_arguments_are_not_started_for_ever(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["router", "--port", "0", "--spawn", "1", "--", "--model", "nosuch"]) == 2
    assert capfd.readouterr().err.count("no model 'nosuch'") == 1


@contextmanager
def routing(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The router's process and its address."""
    source = str(Path(gesso.__file__).parents[1])
    paths = os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH"))))
    process = subprocess.Popen(
        [sys.executable, "-m", "gesso", "router", "--port", "0", "--health-seconds", "1", *arguments],
        env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        found = re.search(r"http://\S+", process.stdout.readline())
        assert found is not None
        yield process, found[0]
    finally:
        process.kill()
        process.communicate(timeout=30)


def said(lines: list[str]) -> tuple[str, int]:
    """The text of a stream, and how many ends it has."""
    data = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
    chunks: list[Any] = [json.loads(text) for text in data if text != "[DONE]"]
    assert not [chunk for chunk in chunks if "error" in chunk]
    texts = [choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"]]
    return "".join(texts), data.count("[DONE]")


def replicas(client: httpx.Client) -> list[dict[str, Any]]:
    return list(client.get("/router/replicas").json()["data"])


def is_up(client: httpx.Client) -> bool:
    return [replica["state"] for replica in replicas(client)] == ["up"]


def listens(url: str) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", int(url.rpartition(":")[2]))) == 0


def test_a_killed_server_costs_time_alone_and_none_outlives_the_router() -> None:
    """There is one server: the stream waits until another one is started in its place, and goes on with the text.

    That it is cut in the middle is what happens nearly always and not asserted: `test_streams` cuts at every event.
    """
    command = ["--wait-seconds", "300", "--spawn", "1", "--", "--model", "mini", "--device", "cpu", "--offline"]
    with routing(*command) as (process, url), httpx.Client(base_url=url, timeout=300) as client:
        assert eventually(lambda: is_up(client), 120)
        texts, killed = [], None
        for kills in (False, True):
            lines: list[str] = []
            with client.stream("POST", "/v1/chat/completions", json=LONG) as response:
                for line in response.iter_lines():
                    lines.append(line)
                    if kills and killed is None and "diffusion.draft" in line:
                        (killed,) = [replica["pid"] for replica in replicas(client)]
                        os.kill(killed, signal.SIGKILL)
            texts.append(said(lines))
        assert texts[0] == texts[1]
        assert texts[0][0]
        assert texts[0][1] == 1
        (replica,) = replicas(client)
        assert replica["pid"] != killed
        assert listens(replica["url"])
        process.kill()
    assert eventually(lambda: not listens(replica["url"]), 120)
