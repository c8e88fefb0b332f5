"""Counts the seeds of requests that are made together."""

from gesso.generation import engine_options

SEEDS = 2**63
"""Number of seeds that there are."""


def numbered_seed(first: int, number: int) -> int:
    """Returns the seed of request `number` (from 0) of several: the first one's plus the number, and 0 behind the
    largest.

    Raises:
        OptionError: the first one is no seed.
    """
    checked: int = engine_options()["seed"].check(first)
    return (checked + number) % SEEDS
