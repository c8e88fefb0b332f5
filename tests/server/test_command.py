"""`gesso serve`: its flags, and its life as a process."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

import gesso
from gesso.cli.app import run
from gesso.cli.serve import adapter_folders
from gesso.errors import OptionError
from gesso.extras import pip_install
from gesso.options.sizes import size_in_bytes
from gesso.server.batch_store import open_store

LONG = {
    "model": "mini",
    "messages": [{"role": "user", "content": "Count from 1 to 9."}],
    "max_tokens": 3200,
    "diffusion": {"ignore_eos": True, "confidence_threshold": 0},
}
"""Takes longer than any of these tests."""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--no-enable-chunked-prefill"], "--no-enable-chunked-prefill is not supported"),
        (["--gpu-memory-utilization", "0.9", "--device", "cpu"], "--gpu-memory-utilization has no meaning on cpu"),
        (["--gpu-memory-utilization", "0.9", "--kv-memory", "1GiB"], "give one of them"),
        (["--kv-memory", "lots"], "--kv-memory takes a size"),
        (["--kv-memory", "0"], "--kv-memory takes a size"),
        (["--adapter", "sudoku"], "NAME=DIR"),
        (["--adapter", "a b=dir"], "NAME=DIR"),
        (["--adapter", "a=x", "--adapter", "a=y"], "given twice"),
        (["--adapter", "a=/nowhere/at/all"], "/nowhere/at/all"),
        (["--diffusion-config", "{"], "--diffusion-config is no JSON"),
        (["--diffusion-config", "[1]"], "--diffusion-config must be a JSON object"),
        (["--diffusion-config", '{"steps": 3}'], "steps has no meaning here"),
        (["--diffusion-config", '{"canvas_length": "wide"}'], "canvas_length"),
        (["--diffusion-config", '{"canvas_length": 4096}'], "at most the model's 32"),
        (["--hf-overrides", '{"diffusion_sampler": "random"}'], "diffusion_sampler must be one of 'entropy_bound'"),
        (["--hf-overrides", '{"entropy_bound": 0.1}'], "entropy_bound has no meaning here"),
        (["--hf-overrides", '{"rope_theta": 1}'], "rope_theta has no meaning here"),
        (["--hf-overrides", '{"diffusion_entropy_bound": -1}'], "entropy_bound must be"),
        (["--max-num-seqs", "0"], "--max-num-seqs must be an integer of at least 1"),
        (["--allow-media-url", "https://example.org"], "--allow-media-url takes hosts such as example.org"),
        (["--allow-media-url", "example.org,"], "--allow-media-url takes hosts such as example.org"),
        (["--allow-media-url", "example.org"], "--allow-media-url: this model reads text only"),
        (["--allow-media-folder", "/nowhere/at/all"], "/nowhere/at/all is no folder"),
        (["--allow-media-folder", "/"], "--allow-media-folder: this model reads text only"),
        (["--max-images", "-1"], "--max-images must be an integer of at least 0"),
        (["--prefill-chunk", "1"], "--prefill-chunk must be an integer of at least 16"),
        (["--request-timeout", "0"], "--request-timeout must be above 0"),
        (["--drain-seconds", "-1"], "--drain-seconds must be a number of at least 0"),
        (["--drain-seconds", "nan"], "--drain-seconds must be a finite number"),
        (["--api-key", ""], "API key"),
        (["--allowed-hosts", "http://a.example"], "an allowed host must be a name"),
        (["--hang-seconds", "0"], "--hang-seconds must be above 0"),
        (["--served-model-name", ""], "served model name"),
        (["--host", "192.0.2.1"], "cannot listen at 192.0.2.1"),
        (["--host", "not a host"], "cannot listen at not a host"),
        (["--host", " "], "--host is blank"),
        (["--port", "99999"], "cannot listen"),
        (["--model", "nowhere", "--offline"], "nowhere"),
        (["--device", "abacus"], "abacus"),
    ],
)
def test_mistakes_are_one_line(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    port = [] if "--port" in arguments else ["--port", "0"]
    assert run(["serve", *port, *arguments]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert len(captured.err.splitlines()) == 1
    assert captured.out == ""


def test_a_batch_folder_that_cannot_be_used(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """It is told before a model is loaded and an address is announced."""
    with open_store(tmp_path / "taken"):
        assert run(["serve", "--port", "0", "--batch-folder", str(tmp_path / "taken")]) == 2
    told = capsys.readouterr()
    assert "is another server's" in told.err
    (tmp_path / "file").write_text("x")
    assert run(["serve", "--port", "0", "--batch-folder", str(tmp_path / "file" / "below")]) == 2
    also = capsys.readouterr()
    assert "cannot be used" in also.err
    assert len(told.err.splitlines()) == len(also.err.splitlines()) == 1
    assert told.out == also.out == ""


def test_a_port_that_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert run(["serve", "--port", str(taken.getsockname()[1])]) == 2
    assert "cannot listen" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "size"),
    [("4GiB", 2**32), ("500MB", 500_000_000), ("1.5 kib", 1536), ("1000", 1000), ("7b", 7)],
)
def test_sizes(text: str, size: int) -> None:
    assert size_in_bytes(text, "--kv-memory") == size


def test_adapter_folders() -> None:
    assert adapter_folders(["a=x/y", "b=c=d"]) == {"a": Path("x/y"), "b": Path("c=d")}
    with pytest.raises(OptionError):
        adapter_folders(["=x"])


def environment() -> dict[str, str]:
    source = str(Path(gesso.__file__).parents[1])
    paths = os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}


def test_without_its_packages_it_names_the_extra() -> None:
    code = "import sys; sys.modules['fastapi'] = None; from gesso.cli.app import run; sys.exit(run(['serve']))"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 2
    assert done.stderr == f"gesso: fastapi is missing; the server needs {pip_install('server')}\n"


@contextmanager
def serving(
    *arguments: str, program: Sequence[str] = ("-m", "gesso"), **variables: str
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process and its address."""
    process = subprocess.Popen(
        [sys.executable, *program, "serve", "--port", "0", "--device", "cpu", "--offline", *arguments],
        env={**environment(), **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        found = re.search(r"http://\S+", process.stdout.readline())
        assert found is not None, process.communicate(timeout=30)[1]
        yield process, found[0]
    finally:
        process.kill()
        process.communicate(timeout=30)


def ask(url: str, **fields: Any) -> httpx.Response:
    body = {"model": "mini", "messages": [{"role": "user", "content": "What is 481 + 296?"}], "seed": 1, **fields}
    return httpx.post(f"{url}/v1/chat/completions", json=body, timeout=60)


ENDS = {
    "step": "def step(self):\n    raise KeyError('x')\nengine_core.EngineCore.step = step",
    "hang": "def step(self):\n    threading.Event().wait()\nengine_core.EngineCore.step = step",
    "rank": "ModelRunner.lost = property(lambda self: 'a rank has ended' if time.monotonic() - started > 5 else None)",
}


@pytest.mark.parametrize("end", ENDS)
def test_the_engine_s_end_is_the_process_s_where_it_is_told_so(end: str) -> None:
    """What restarts processes sees those that have ended, and not what they say of themselves."""
    broken = f"""
import sys, threading, time
from gesso.cli import main
from gesso.engine import engine_core
from gesso.runner.model_runner import ModelRunner
started = time.monotonic()
{ENDS[end]}
sys.exit(main())
"""
    options = ["--exit-on-failure", "--hang-seconds", "1"]
    with serving(*options, program=["-c", broken]) as (process, url):
        if end != "rank":
            with contextlib.suppress(httpx.HTTPError):
                assert ask(url).status_code == 500
        _, said = process.communicate(timeout=60)
        assert process.returncode == 1
        assert {"step": "has failed", "hang": "hangs", "rank": "a rank has ended"}[end] in said


def test_the_published_recipe_runs_and_ends_cleanly() -> None:
    recipe = ["--max-model-len", "2048", "--max-num-seqs", "4", "--enable-chunked-prefill"]
    recipe += ["--diffusion-config", '{"canvas_length": 16}']
    recipe += ["--hf-overrides", '{"diffusion_sampler": "entropy_bound", "diffusion_entropy_bound": 0.1}']
    with serving(*recipe, "--served-model-name", "small", GESSO_API_KEY="one two") as (process, url):
        card = httpx.get(f"{url}/v1/models", headers={"Authorization": "Bearer two"}).json()["data"][0]
        assert (card["id"], card["max_model_len"]) == ("small", 2048)
        assert ask(url, model="small").status_code == 401
        stranger = httpx.get(f"{url}/v1/models", headers={"Host": "stranger.example"})
        assert (stranger.status_code, stranger.json()["error"]["code"]) == (403, "host_not_allowed")
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=30)
        assert process.returncode == 0
        note, *lines = err.splitlines()
        assert note == "chunked prefill is always on"
        assert [json.loads(line)["status"] for line in lines] == [200, 401, 403]


def test_running_requests_finish_and_new_ones_are_sent_away() -> None:
    with serving("--drain-seconds", "300") as (process, url):
        answers: list[httpx.Response] = []
        body = {"max_tokens": 160, "diffusion": LONG["diffusion"]}
        thread = threading.Thread(target=lambda: answers.append(ask(url, **body)))
        thread.start()
        wait_until_running(url)
        process.send_signal(signal.SIGINT)
        deadline = time.monotonic() + 20
        while httpx.get(f"{url}/ready").status_code == 200:
            assert time.monotonic() < deadline
        late = ask(url)
        assert (late.status_code, late.json()["error"]["code"]) == (503, "shutting_down")
        thread.join()
        assert answers[0].status_code == 200
        assert answers[0].json()["usage"]["completion_tokens"] == 160
        process.communicate(timeout=30)
        assert process.returncode == 0


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_what_does_not_finish_in_time_is_told_so(name: str) -> None:
    number = getattr(signal, name, signal.SIGTERM)
    heeding = f"import signal; signal.signal({number:d}, signal.SIG_DFL); from gesso.cli import main; main()"
    with serving("--drain-seconds", "0.5", program=["-c", heeding]) as (process, url):
        with httpx.stream("POST", f"{url}/v1/chat/completions", json={**LONG, "stream": True}, timeout=60) as response:
            wait_until_running(url)
            process.send_signal(number)
            text = response.read().decode()
        assert '"code": "shutting_down"' in text
        assert text.endswith("data: [DONE]\n\n")
        process.communicate(timeout=30)
        assert process.returncode == 0


def test_a_second_ctrl_c_ends_it_at_once() -> None:
    with serving("--drain-seconds", "60") as (process, url):
        with httpx.stream("POST", f"{url}/v1/chat/completions", json={**LONG, "stream": True}, timeout=60):
            wait_until_running(url)
            process.send_signal(signal.SIGINT)
            time.sleep(0.1)
            process.send_signal(signal.SIGINT)  # by who signals the group as well: still the first
            time.sleep(0.6)
            assert process.poll() is None
            process.send_signal(signal.SIGINT)
            began = time.monotonic()
            _, err = process.communicate(timeout=30)
        assert time.monotonic() - began < 5
        assert process.returncode == 130
        assert "Traceback" not in err


def wait_until_running(url: str) -> None:
    deadline = time.monotonic() + 20
    while "gesso_requests_running 1.0" not in httpx.get(f"{url}/metrics").text:
        assert time.monotonic() < deadline
        time.sleep(0.02)
