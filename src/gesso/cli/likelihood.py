"""Implements `gesso eval --likelihood`."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gesso.cli import options as opt
from gesso.cli.output import print_json, print_table
from gesso.errors import OptionError
from gesso.load_options import LoadOptions
from gesso.options import Integer

SAMPLES = 32
"""Noisy copies of each canvas where the command line does not say."""


def measure_likelihood(
    load: LoadOptions,
    path: Path | None,
    samples: int | None,
    seed: int,
    limit: int | None,
    as_json: bool,
    others: Mapping[str, Any],
) -> int:
    """Measures the likelihood of a file's answers and prints it, as a table or one JSON line.

    Args:
        others: options of other measurements, None where they were not given.

    Raises:
        OptionError: no file, or an option that has no meaning for one.
    """
    if path is None:
        raise OptionError("--samples needs --likelihood", option="samples")
    for name, value in others.items():
        if value is not None:
            raise OptionError(f"--{name.replace('_', '-')} does not go with --likelihood", option=name)
    if limit is not None:
        Integer(minimum=1).check("examples", limit)
    from rich.console import Console
    from rich.table import Table

    from gesso.cli.progress import working
    from gesso.train.likelihood import score_file

    engine = opt.load_engine(load)
    with working(f"likelihood of {path}"):
        found = score_file(engine, path, samples=SAMPLES if samples is None else samples, seed=seed, limit=limit)
    if as_json:
        print_json({"model": load.model, "file": str(path), "seed": seed, **dataclasses.asdict(found)})
        return 0
    table = Table("", "nats", "nats/token", "95% interval", box=None, pad_edge=False)
    low, high = found.causal_interval
    table.add_row(
        "causal", f"{found.causal_nats:.1f}", f"{found.causal_nats_per_token:.4f}", f"{low:.4f} to {high:.4f}"
    )
    if found.bound_nats is not None and found.bound_interval is not None:
        low, high = found.bound_interval
        nats = f"at most {found.bound_nats:.1f} \N{PLUS-MINUS SIGN} {1.96 * (found.bound_error or 0):.1f}"
        table.add_row("denoiser", nats, f"{found.bound_nats_per_token:.4f}", f"{low:.4f} to {high:.4f}")
    console = Console(highlight=False)
    print_table(console, table)
    answers = f"{found.examples} answer{'s' * (found.examples != 1)}"
    facts = [answers, f"{found.tokens} tokens", f"perplexity {found.perplexity:.3f}"]
    console.print("; ".join([*facts, f"{found.greedy} greedy"]), style="dim")
    return 0
