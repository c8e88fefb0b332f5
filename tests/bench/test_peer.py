"""The script that measures `transformers`, as somebody meets it who starts it by hand."""

import subprocess
import sys

import pytest

from gesso.bench.peer import SCRIPT


@pytest.mark.parametrize(
    ("options", "given", "code", "told"),
    [
        (["--help"], "", 0, "gesso bench --peer transformers"),
        ([], "", 2, "error: standard input holds no job: run gesso bench MODEL --peer transformers"),
        ([], "[1]", 2, "error: standard input holds no job"),
    ],
)
def test_the_script_says_what_it_is_for(options: list[str], given: str, code: int, told: str) -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *options], input=given, capture_output=True, text=True, check=False
    )
    assert done.returncode == code
    assert told in (done.stdout or done.stderr)
    assert "Traceback" not in done.stderr
