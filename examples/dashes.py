"""Data to fine-tune on: `python examples/dashes.py > dashes.jsonl` writes 2,000 pairs that `mini` has never seen."""

import json
import random

from gesso.tasks.words import POOL


def main() -> None:
    rng = random.Random(0)
    for _ in range(2000):
        words = rng.sample(POOL, rng.randint(2, 6))
        print(json.dumps({"prompt": f"Join with dashes: {' '.join(words)}", "completion": "-".join(words)}))


if __name__ == "__main__":
    main()
