"""Reads the learning rate of a run that goes on, so that it goes on with the same where none is given."""

from contextlib import suppress
from pathlib import Path

from gesso.errors import CheckpointError
from gesso.json_files import read_json
from gesso.train.checkpoint import RATE, STATE, checkpoints


def rate_of_checkpoints(out: Path) -> float | None:
    """Returns the highest learning rate of the run in `out`, as its newest checkpoint that can be read has it; None
    where none says it."""
    for folder in reversed(checkpoints(out)):
        with suppress(CheckpointError):  # a damaged one is passed over
            rate = read_json(folder / STATE).get(RATE)
            return rate if isinstance(rate, float) and rate > 0 else None
    return None
