"""Puts the options of strategies into the table of options, each behind the one that chooses its strategy."""

import dataclasses
from collections.abc import Mapping
from functools import lru_cache

from gesso.generation.strategies import STRATEGIES
from gesso.options import Option, options_of

ANSWER, SAMPLING, DENOISING, GUIDANCE = "Answer", "Sampling", "Denoising", "Guidance"
CONSTRAINT, TOKENS = "Constraints (one at most)", "Canvases and tokens"
"""Groups of options, as `--help` and the pages head them."""


def with_strategies(config: type) -> Mapping[str, Option]:
    """Returns the options of a config and of all strategies that it may choose.

    Raises:
        TypeError: two options have one name.
    """
    return _table(config, tuple(registry.classes for registry in STRATEGIES.values()))


@lru_cache(maxsize=4)
def _table(config: type, _registered: tuple[tuple[type, ...], ...]) -> Mapping[str, Option]:
    """Makes it; `_registered` are the strategies, for the cache: another may come at any time."""
    table: dict[str, Option] = {}
    own_rows = options_of(config)
    for name, row in own_rows.items():
        table[name] = row
        for own, theirs in STRATEGIES[name].options().items() if name in STRATEGIES else ():
            if own in table or own in own_rows:
                raise TypeError(f"two options are called {own}; one belongs to {theirs.owner}")
            table[own] = dataclasses.replace(theirs, file="generation_config.json", group=DENOISING)
    return table
