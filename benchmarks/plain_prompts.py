"""Prompts as somebody types them who has not read how the skills are worded: answers right, by skill.

    python benchmarks/plain_prompts.py [--models mini,skills] [--prompts FILE] [--wrong]

`plain_prompts.jsonl` has them, one a line, with the answers that count: written by hand in ordinary words, none of
them drawn by a task. What the tasks draw is measured by `gesso eval`; here is seen what is lost between the two. They
must never be trained on. `blind_prompts.jsonl` and `more_blind_prompts.jsonl` have others, by a language model that
was given the table of skills of docs/skills.md alone: nobody is to look at their wrong answers, so that no data are
made for them. `stranger_prompts.jsonl` and `blind_stranger_prompts.jsonl` have such prompts by one that was told to
think of very many different people, and to try whatever the table lets a person hope for, `more_stranger_prompts.jsonl`
more of the first: wrong answers to these have been read, and the tasks made wider after them; nobody is to look at
those to the second. With --wrong every wrong answer is shown. The last line is one line of JSON.
"""

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gesso.api import load
from gesso.engine.engine import Request
from gesso.tasks.to_json import same_json
from gesso.train.intervals import wilson_interval

PROMPTS = Path(__file__).with_suffix(".jsonl")
MOST_TOKENS = 96


def is_right(answers: list[str], text: str) -> bool:
    """Accepts an answer to the letter, white space around it and at ends of lines aside; JSON by its value."""
    if answers[0].startswith("{"):
        return same_json(answers[0], text)
    return "\n".join(line.rstrip() for line in text.strip().split("\n")) in answers


def measure(model: str, cases: list[dict[str, Any]]) -> list[tuple[dict[str, Any], str]]:
    """Every case with the model's answer."""
    engine = load(model)
    asked = [Request([{"role": "user", "content": case["prompt"]}], {"max_new_tokens": MOST_TOKENS}) for case in cases]
    return [(case, result.text) for case, result in zip(cases, engine.generate_batch(asked), strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="mini,skills")
    parser.add_argument("--prompts", type=Path, default=PROMPTS)
    parser.add_argument("--wrong", action="store_true")
    options = parser.parse_args()
    cases = [json.loads(line) for line in options.prompts.read_text("utf-8").splitlines()]
    total = Counter(case["skill"] for case in cases)
    found: dict[str, Counter[str]] = {}
    console = Console()
    for model in options.models.split(","):
        answered = measure(model, cases)
        found[model] = Counter(case["skill"] for case, text in answered if is_right(case["answers"], text))
        for case, text in answered if options.wrong else ():
            if not is_right(case["answers"], text):
                console.print(f"{model}: {escape(case['prompt'])!r} -> {escape(text)!r}", highlight=False)
    table = Table("skill", "prompts", *found)
    for skill, count in total.items():
        table.add_row(skill, str(count), *(str(right[skill]) for right in found.values()))
    console.print(table)
    sums = {model: right.total() for model, right in found.items()}
    intervals = {model: wilson_interval(right, len(cases)) for model, right in sums.items()}
    print(json.dumps({"benchmark": options.prompts.stem, "prompts": len(cases), "right": sums, "interval": intervals}))


if __name__ == "__main__":
    main()
