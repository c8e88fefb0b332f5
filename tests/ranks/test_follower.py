"""A follower that fails says why: to its leader what its user can mend, on standard error anything else."""

import subprocess
import sys

import pytest

from gesso.errors import CheckpointError, ImageError, UserError
from gesso.ranks.refusal import Refusal


@pytest.mark.parametrize("error", [CheckpointError("x.weight: bad"), ImageError("no", option="images", hint="yes")])
def test_a_refusal_says_the_error_again(error: UserError) -> None:
    found = Refusal.of(error).error
    assert type(found) is type(error)
    assert (str(found), found.option, found.hint) == (str(error), error.option, error.hint)


def test_what_nobody_foresaw_is_printed_before_the_process_ends() -> None:
    program = "import sys; sys.argv[1:] = ['-1']; from gesso.ranks.follower import run; run(None)"
    ended = subprocess.run([sys.executable, "-c", program], timeout=60, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "Traceback" in ended.stderr
    assert "negative file descriptor" in ended.stderr
