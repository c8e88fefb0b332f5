"""Data to fine-tune on: `python examples/dashes.py > dashes.jsonl` writes 2,000 pairs that `mini` has never seen."""

import argparse
import json
import random

from gesso.tasks.words import POOL


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="of other pairs, such as those of a test")
    parser.add_argument("--count", type=int, default=2000)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    for _ in range(options.count):
        words = rng.sample(POOL, rng.randint(2, 6))
        print(json.dumps({"prompt": f"Join with dashes: {' '.join(words)}", "completion": "-".join(words)}))


if __name__ == "__main__":
    main()
