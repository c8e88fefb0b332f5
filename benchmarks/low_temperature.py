"""Times the pass over the vocabulary at a low temperature, where most tokens weigh as little as a denormal number.

    python benchmarks/low_temperature.py [--vocab 32768] [--width 1024] [--rows 64] [--rounds 3]

One thread, random weights whose logits lie as a trained model's do: some 28 for the likeliest token of a position, -10
in the mean of all others. At 0.8 nothing is small; at 0.4 most tokens are 87 to 103 nats below the best, and their
probabilities denormal in fp32. Beside gesso's pass (sample, argmax, entropy, normaliser, mixed embedding) stands what
a plain loop does for the mixed embedding alone, `softmax(logits / temperature) @ table`. The least processor time of
each counts. The ceiling is the pass's two products at the rate of one alone. The last line is JSON.
"""

import argparse
import json
import time
from collections.abc import Callable
from functools import partial

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from gesso.nn.vocabulary import Vocabulary

SOFTCAP = 30.0
COMMON, SPREAD = 0.3, 0.03
"""What all rows of the table share, in one direction, and how far their other numbers lie apart."""
LOW, NOISE, TOP = -10.0, 3.0, 70.0
"""Mean of the logits, how far they lie apart, and how far the likeliest stands above them, before the soft-cap."""


def confident(vocab: int, width: int, rows: int) -> tuple[Vocabulary, Tensor]:
    """A table, and hidden states [rows, width] of positions that are sure of a token."""
    generator = torch.Generator().manual_seed(0)
    shared = torch.nn.functional.normalize(torch.randn(width, generator=generator), dim=0) * COMMON
    own = torch.randn(vocab, width, generator=generator) * SPREAD
    table = Vocabulary(vocab, width, SOFTCAP).requires_grad_(False)
    table.weight.copy_(own + shared)
    best = own[torch.randint(0, vocab, (rows,), generator=generator)] / (SPREAD**2 * width) * TOP
    around = torch.randn(rows, width, generator=generator) * NOISE / (SPREAD * width**0.5)
    return table, best + around + shared * LOW / COMMON**2


def plainly(table: Vocabulary, hidden_ND: Tensor, temperature: float) -> Tensor:
    """The mixed embedding as array operations make it."""
    return (table.logits(hidden_ND) / temperature).softmax(dim=-1) @ table.weight


def seconds(work: Callable[[], object], rounds: int) -> float:
    """The least processor time of a call; the first is not counted."""
    taken = []
    for _ in range(rounds + 1):
        before = time.process_time()
        work()
        taken.append(time.process_time() - before)
    return min(taken[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name, value in (("vocab", 32768), ("width", 1024), ("rows", 64), ("rounds", 3)):
        parser.add_argument(f"--{name}", type=int, default=value)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    table, hidden = confident(asked.vocab, asked.width, asked.rows)
    uniform = torch.full((asked.rows,), 0.5)
    ceiling = 2 * seconds(lambda: hidden @ table.weight.T, asked.rounds)
    rows = []
    for degrees in (0.8, 0.4):
        temperature = torch.full((asked.rows,), degrees)
        tempered = table.logits(hidden).double() / degrees
        below = tempered - tempered.amax(dim=-1, keepdim=True)
        rows.append(
            {
                "temperature": degrees,
                "denormal": ((below < -87.34) & (below > -103.2)).double().mean().item(),
                "gesso": seconds(partial(table.predict, hidden, temperature, uniform), asked.rounds),
                "plain": seconds(partial(plainly, table, hidden, degrees), asked.rounds),
            }
        )
    shown = Table("temperature", "denormal", "gesso, s", "plain loop, s", box=None)
    for row in rows:
        shown.add_row(f"{row['temperature']}", f"{row['denormal']:.0%}", f"{row['gesso']:.3f}", f"{row['plain']:.3f}")
    shown.add_row("", "ceiling", f"{ceiling:.3f}", "")
    Console().print(shown)
    slower = rows[1]["gesso"] / rows[0]["gesso"]
    print(json.dumps({"benchmark": "low_temperature", "rows": rows, "ceiling": ceiling, "slower": slower, "goal": 1.25,
                      "met": slower <= 1.25}))  # fmt: skip


if __name__ == "__main__":
    main()
