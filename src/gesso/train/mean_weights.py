"""Takes the mean of two checkpoints' weights, of a run's end and of where it began.

A run that goes on from trained weights for a short while, on another mixture, wins where the mixture has more and loses
a little elsewhere; the mean of both ends keeps most of what was won (WiSE-FT, Wortsman et al. 2022, arXiv 2109.01903).

    python -m gesso.train.mean_weights START END --share 0.8 --out FOLDER
"""

import argparse
import sys
from pathlib import Path

from torch import Tensor

from gesso.errors import CheckpointError, OptionError
from gesso.train.whole_weights import read_weights, run_tool, write_copy


def mean_weights(start: dict[str, Tensor], end: dict[str, Tensor], share: float) -> dict[str, Tensor]:
    """Returns `share` of `end` and the rest of `start`, in the types of `end`; computed in fp32.

    Raises:
        CheckpointError: the two have other tensors, or other shapes.
        OptionError: `share` is not between 0 and 1.
    """
    if not 0 <= share <= 1:
        raise OptionError(f"share must be between 0 and 1, got {share}", option="share")
    if apart := sorted(start.keys() ^ end.keys()):
        raise CheckpointError(f"only one of the checkpoints has {', '.join(apart[:3])}")
    if other := [name for name in sorted(end) if start[name].shape != end[name].shape]:
        raise CheckpointError(f"the checkpoints' shapes differ: {', '.join(other[:3])}")
    return {
        name: ((1 - share) * start[name].float() + share * tensor.float()).to(tensor.dtype)
        for name, tensor in end.items()
    }


def main(arguments: list[str] | None = None) -> None:
    """Writes a copy of END with the mean weights.

    Raises:
        CheckpointError: a folder has no checkpoint of one file, or the two are not alike.
        OptionError: the share is impossible.
    """
    parser = argparse.ArgumentParser(prog="python -m gesso.train.mean_weights", description=__doc__.split("\n")[0])
    parser.add_argument("start", type=Path)
    parser.add_argument("end", type=Path)
    parser.add_argument("--share", type=float, required=True, help="of END; the rest is START's")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args(arguments)
    (start, _), (end, metadata) = read_weights(given.start), read_weights(given.end)
    write_copy(given.end, given.out, mean_weights(start, end, given.share), metadata)
    sys.stdout.write(f"{given.out}: {given.share:g} of {given.end}, the rest of {given.start}\n")


if __name__ == "__main__":
    run_tool(main)
