"""The command as a process of its own: how quickly it answers, and how it ends."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import gesso
from gesso.api import load

HEAVY = ("torch", "transformers", "rich", "tokenizers", "huggingface_hub", "safetensors", "jinja2", "numpy")
ORDINARY = "import argparse, dataclasses, importlib.metadata, inspect, json, pathlib, typing"
"""What a small command of the standard library alone begins with."""
LIMIT = 4
"""Processor time of `gesso --help` over that of such a command, which takes some 0.08 seconds; 2.5 as measured."""


@pytest.fixture
def environment() -> dict[str, str]:
    source = str(Path(gesso.__file__).parents[1])
    return {**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "default"}


def test_help_imports_nothing_heavy(environment: dict[str, str]) -> None:
    code = """
import contextlib, io, json, sys
from gesso.cli.app import run
with contextlib.redirect_stdout(io.StringIO()):
    for command in ([], ["generate"], ["chat"], ["models"], ["models", "show"], ["train"], ["eval"], ["replay"]):
        assert run([*command, "--help"]) == 0
    assert run(["--version"]) == 0
print(json.dumps(sorted(sys.modules)))
"""
    out = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert set(json.loads(out.stdout)) & set(HEAVY) == set()


def test_nothing_heavy_is_imported_before_a_person_is_told_to_wait(environment: dict[str, str], tmp_path: Path) -> None:
    """`load_engine` says that a model is loaded; torch alone takes seconds."""
    (tmp_path / "hole").write_text("fig {{ }}", encoding="utf-8")
    (tmp_path / "text").write_text("def add_seven(x):\n    return x + 7\n", encoding="utf-8")
    code = """
import sys
from gesso.cli import options
from gesso.cli.app import run

def load_engine(load):
    assert "torch" not in sys.modules, command
    raise SystemExit(77)

options.load_engine = load_engine
for command in (["generate", "What is 9 + 4?"], ["chat"], ["choose", "What is 9 + 4?", "--options", "12,13"],
                ["fill", "hole"], ["edit", "text", "Change 7 to 12."]):
    assert run(command) == 77, command
"""
    subprocess.run([sys.executable, "-c", code], env=environment, cwd=tmp_path, stdin=subprocess.DEVNULL, check=True)


def test_settings_of_training_are_refused_without_pytorch(environment: dict[str, str], tmp_path: Path) -> None:
    code = """
import sys
from gesso.cli.app import run
for command in (["finetune", "x.jsonl", "--own-drafts", "2"], ["finetune", "x.jsonl", "--steps", "1", "--epochs", "1"],
                ["finetune", "x.jsonl", "--on-policy", "--time-exponent", "0.5"], ["reinforce", "--kl", "-1"],
                ["reinforce", "--method", "full", "--rank", "4"], ["train", "mini", "--within", "0"]):
    assert run(command) == 2, command
    assert "torch" not in sys.modules, command
"""
    subprocess.run([sys.executable, "-c", code], env=environment, cwd=tmp_path, check=True)


def test_what_is_imported_is_seldom_swept_over(environment: dict[str, str]) -> None:
    code = """
import gc, sys
from gesso.cli import main
sys.argv = ["gesso", "generate", "What is 4 + 5?", "--seed", "1", "--max-denoising-steps", "1"]
try:
    main()
finally:
    print(gc.get_stats()[2]["collections"])
"""
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert int(done.stdout.split()[-1]) <= 1


def test_help_is_quick(environment: dict[str, str], tmp_path: Path) -> None:
    """Compares two commands in turn, both of them compiled before as an installed package is: seconds differ from
    machine to machine."""
    environment = {**environment, "PYTHONPYCACHEPREFIX": str(tmp_path)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def used(*arguments: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    rounds = [(used("-m", "gesso", "--help"), used("-c", ORDINARY)) for _ in range(6)]
    assert min(help_ for help_, _ in rounds) < LIMIT * min(ordinary for _, ordinary in rounds)


INTERRUPTED = b"gesso: interrupted\n"
MOMENTS = (0.0, 0.05, 0.1, 0.3, 0.7, 1.2, 2.0, 3.2)
"""Seconds after the command took hold of the signals; the last of them find the model at work."""


def start(environment: dict[str, str], *arguments: object) -> subprocess.Popen[bytes]:
    def heed() -> None:
        # Whoever runs the tests may have told its children to be deaf.
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    return subprocess.Popen(
        [sys.executable, "-m", "gesso", *map(str, arguments)],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        preexec_fn=heed,  # noqa: PLW1509 - the child is a single thread
    )


def wait_for_handlers(process: subprocess.Popen[bytes]) -> None:
    """Until the process handles SIGTERM, which Python by itself does not."""
    bit = 1 << (signal.SIGTERM - 1)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
        if int(next(line for line in lines if line.startswith("SigCgt")).split()[1], 16) & bit:
            return
        time.sleep(0.001)
    raise TimeoutError


def long_answer(bundled: Path) -> list[object]:
    options = ["--seed", 1, "--device", "cpu", "--ignore-eos", "--max-new-tokens", 4000]
    return ["generate", "hi", "--model", bundled / "mini", *options]


needs_proc = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="asks Linux which signals are handled")


@needs_proc
@pytest.mark.parametrize("moment", MOMENTS)
def test_ctrl_c_is_one_line_and_130_at_any_moment(environment: dict[str, str], bundled: Path, moment: float) -> None:
    with start(environment, *long_answer(bundled)) as process:
        wait_for_handlers(process)
        time.sleep(moment)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, INTERRUPTED)


@needs_proc
@pytest.mark.parametrize("command", [["models"], ["--version"], ["eval", "--help"], ["generate", "x", "--json"]])
def test_ctrl_c_is_one_line_and_130_in_every_command(environment: dict[str, str], command: list[str]) -> None:
    with start(environment, *command) as process:
        wait_for_handlers(process)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, b"", INTERRUPTED)


@needs_proc
@pytest.mark.parametrize("moment", [0.0, 0.5, 3.0])
def test_sigterm_is_one_line_and_143(environment: dict[str, str], bundled: Path, moment: float) -> None:
    with start(environment, *long_answer(bundled)) as process:
        wait_for_handlers(process)
        time.sleep(moment)
        process.terminate()
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (143, b"gesso: terminated\n")


def test_ctrl_c_ends_a_long_answer_with_what_is_committed(environment: dict[str, str], bundled: Path) -> None:
    process = start(environment, *long_answer(bundled))
    assert process.stdout is not None
    first = process.stdout.read(1)  # something is committed
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, INTERRUPTED)
    text = (first + out).decode("utf-8")
    assert text.endswith("\n")
    block = load(bundled / "mini", "cpu").generate("hi", seed=1, max_new_tokens=8, ignore_eos=True)
    assert text.startswith(block.text.rstrip("\ufffd"))


@pytest.mark.parametrize("place", ["start", "import", "run", "end"])
def test_what_a_signal_does_depends_on_where_it_comes(environment: dict[str, str], tmp_path: Path, place: str) -> None:
    """An import that swallows every exception is no way out of Ctrl-C; work under way is put in order."""
    (tmp_path / "greedy.py").write_text(
        "import signal\ntry:\n    signal.raise_signal(signal.SIGINT)\nexcept BaseException:\n    pass\n"
    )
    code = f"""
import atexit, os, signal, sys
sys.path.insert(0, {str(tmp_path)!r})
from gesso.cli import app, main
from gesso.cli.signals import SIGNALS
def run(arguments):
    try:
        if {place!r} == "import":
            import greedy
        if {place!r} == "run":
            signal.raise_signal(signal.SIGINT)
        if {place!r} == "end":
            atexit.register(signal.raise_signal, signal.SIGINT)
    finally:
        os.write(1, b"in order")
    return 0
app.run = run
install = SIGNALS.install
def started():
    install()
    if {place!r} == "start":
        signal.raise_signal(signal.SIGINT)
SIGNALS.install = started
main()
"""
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=False)
    out = b"in order" if place in ("run", "end") else b""
    assert (done.returncode, done.stdout, done.stderr) == (130, out, INTERRUPTED)


def test_signals_that_the_parent_ignores_stay_ignored(environment: dict[str, str]) -> None:
    code = """
import signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
from gesso.cli import main
from gesso.cli.signals import SIGNALS
SIGNALS.install()
signal.raise_signal(signal.SIGINT)
sys.argv = ["gesso", "--version"]
main()
"""
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such terminals")
def test_a_terminal_that_is_closed_lets_work_be_put_in_order(environment: dict[str, str], tmp_path: Path) -> None:
    """The signal comes once more meanwhile, and nothing that is written to the terminal fails."""
    code = """
import os, pathlib, signal, sys, time
from gesso.cli import app, main
def run(arguments):
    try:
        print("ready", flush=True)
        time.sleep(60)
    finally:
        signal.raise_signal(signal.SIGHUP)
        print("said to nobody", flush=True)
        print("said to nobody", file=sys.stderr)
        pathlib.Path("done").write_text(repr(sys.stdin.read()))
app.run = run
main()
"""
    ours, theirs = os.openpty()

    def take_terminal() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        os.login_tty(theirs)

    process = subprocess.Popen(
        [sys.executable, "-c", code],
        env=environment,
        cwd=tmp_path,
        pass_fds=[theirs],
        preexec_fn=take_terminal,  # noqa: PLW1509 - the child is a single thread
    )
    os.close(theirs)
    assert b"ready" in os.read(ours, 100)
    os.close(ours)
    assert process.wait(timeout=60) == 129
    assert (tmp_path / "done").read_text() == "''"


def test_a_reader_that_goes_away_is_no_error(environment: dict[str, str]) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "gesso", "train", "--help"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    err = process.stderr.read()
    process.stderr.close()
    assert (process.wait(timeout=60), err) == (0, b"")


def test_a_mistake_shows_no_traceback(environment: dict[str, str]) -> None:
    outcome = subprocess.run(
        [sys.executable, "-m", "gesso", "generate", "x", "--seed", "abc"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (outcome.returncode, outcome.stdout, outcome.stderr.count("\n")) == (2, "", 1)


@pytest.mark.parametrize("arguments", [["--version"], ["generate", "  ", "--json"], ["models", "--help"]])
@pytest.mark.parametrize("closed", ["stdout", "stderr", "both", "full"])
def test_output_that_nobody_takes_is_no_traceback(
    environment: dict[str, str], arguments: list[str], closed: str
) -> None:
    where = {"stdout": ">&-", "stderr": "2>&-", "both": ">&- 2>&-", "full": ">/dev/full"}[closed]
    if closed == "full" and not Path("/dev/full").exists():
        where = ">&-"
    done = subprocess.run(
        ["sh", "-c", f'exec "$0" -m gesso "$@" {where}', sys.executable, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 2)
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    assert done.stderr.count("\n") <= 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is full")
@pytest.mark.parametrize(("command", "code"), [("replay nowhere", 2), ('generate "What is 4 + 5 apples?" --seed 1', 0)])
def test_what_nobody_is_told_changes_no_exit_code(environment: dict[str, str], command: str, code: int) -> None:
    """Both tell something on standard error: a mistake, and which model answers."""
    done = subprocess.run(
        ["sh", "-c", f'exec "$0" -m gesso {command} 2>/dev/full', sys.executable],
        env=environment,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, bool(done.stdout)) == (code, not code)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ('generate "What is 4 + 5?" >&-', 0),
        ('generate "What is 4 + 5?" 2>&-', 0),
        ("generate <&-", 2),
        ("edit - x <&-", 2),
        ("edit text x --match fig --seed 1 >&- 2>&-", 0),
        ("fill text --max-denoising-steps 1 --max-new-tokens 3 >&-", 0),
        ("chat <&-", 0),
        ("chat <&- >&- 2>&-", 0),
    ],
)
def test_streams_that_are_closed_are_empty(
    environment: dict[str, str], tmp_path: Path, command: str, code: int
) -> None:
    """As a service or a scheduled job may be started."""
    (tmp_path / "text").write_text("fig {{ }} plum")
    done = subprocess.run(
        ["sh", "-c", f'exec "$0" -m gesso {command}', sys.executable],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "Traceback" in done.stderr) == (code, False), done.stderr


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8", "cp437"])
def test_every_encoding_can_be_printed_in(environment: dict[str, str], tmp_path: Path, encoding: str) -> None:
    """A file name that is told in JSON, and the help's and legend's characters."""
    folder = tmp_path / "\u4e2d\xe9\U0001f600"
    folder.mkdir()
    here = {**environment, "PYTHONIOENCODING": encoding}
    for arguments in (["fill", str(folder), "--json"], ["--help"], ["fill", str(folder)]):
        done = subprocess.run([sys.executable, "-m", "gesso", *arguments], env=here, capture_output=True, check=False)
        assert b"Traceback" not in done.stderr
        assert done.returncode == (0 if arguments == ["--help"] else 2)
        if "--json" in arguments:
            assert folder.name in json.loads(done.stdout.decode(encoding))["error"]["message"]
