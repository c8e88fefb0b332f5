"""How many answers of each skill are right: in words of training, in unseen words, and in unseen phrasings as well.

    python benchmarks/skills.py --model FOLDER             60 prompts of each skill and column
    python benchmarks/skills.py --model FOLDER -n 200 --skill sorting --skill sums

`seen` are held-out prompts of words and phrasings that training draws from, `unseen` those of held-out words,
`reworded` those whose phrasing is held out too. Below them stands how often the model abstains: where it should
(`abstention`), and where it should not (all other skills together). The ceiling is 100%: every prompt has an answer.
The last line is JSON.
"""

import argparse
import json
import random
from collections.abc import Sequence

import gesso
from gesso.engine.engine import Engine
from gesso.tasks.base import Example, Task
from gesso.tasks.skills.catalogue import SKILLS
from gesso.tasks.skills.skill import Skill
from gesso.tasks.skills.slots import Slots
from gesso.train.evaluate import TaskScore, evaluate
from gesso.train.intervals import wilson_interval

COLUMNS = ("seen", "unseen", "reworded")
GOAL_INSIDE, GOAL_OUTSIDE = 0.03, 0.90


class Column(Task):
    """A skill whose evaluation examples are all of one column."""

    def __init__(self, skill: Skill, column: str) -> None:
        self.skill, self.column, self.name = skill, column, skill.name

    def sample(self, rng: random.Random) -> Example:
        slots = Slots(rng, unseen=self.column != "seen")
        slots.reworded = self.column == "reworded"
        return self.skill.draw(slots)

    def grade(self, example: Example, text: str) -> bool:
        return self.skill.grade(example, text)

    def split_key(self, example: Example) -> str:
        return self.skill.split_key(example)

    def counts(self, example: Example, text: str) -> dict[str, tuple[int, int]]:
        return dict(self.skill.counts(example, text))


def measure(engine: Engine, skill: Skill, number: int, seed: int, steps: int) -> dict[str, TaskScore]:
    """The score of each column."""
    return {
        column: evaluate(engine, Column(skill, column), examples=number, seed=seed, max_denoising_steps=steps)
        for column in COLUMNS
    }


def abstained(scores: Sequence[TaskScore]) -> tuple[float, tuple[float, float]]:
    """Share of all answers, and its 95% interval."""
    total = sum(score.examples for score in scores)
    count = sum(round(score.shares["abstained"].value * score.examples) for score in scores)
    return count / total, wilson_interval(count, total)


def main(arguments: Sequence[str] | None = None) -> None:
    names = [skill.name for skill in SKILLS if skill.name != "filling"]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="mini")
    parser.add_argument("-n", type=int, default=60, help="prompts of each skill and column")
    parser.add_argument("--skill", action="append", choices=names, help="this skill only; may be repeated")
    parser.add_argument("--steps", type=int, default=48, help="denoising steps of a canvas at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="auto")
    given = parser.parse_args(arguments)
    engine = gesso.load(given.model, given.device)
    print(f"{'skill':<12}" + "".join(f"{column:>24}" for column in COLUMNS) + f"{'steps/canvas':>14}")
    rows, inside, outside = {}, list[TaskScore](), list[TaskScore]()
    for skill in SKILLS:
        if skill.name not in (given.skill or names):
            continue
        scores = measure(engine, skill, given.n, given.seed, given.steps)
        (outside if skill.name == "abstention" else inside).extend(scores.values())
        shown = (
            f"{score.right / score.examples:.1%} ({score.interval[0]:.0%} to {score.interval[1]:.0%})"
            for score in scores.values()
        )
        steps = scores["unseen"].mean_steps
        print(f"{skill.name:<12}" + "".join(f"{text:>24}" for text in shown) + f"{steps:>14.1f}", flush=True)
        rows[skill.name] = {column: score.right for column, score in scores.items()} | {"steps": round(steps, 2)}
    shares = {}
    for title, scores_of, goal in (
        ("abstains outside", outside, f"at least {GOAL_OUTSIDE:.0%}"),
        ("abstains wrongly inside", inside, f"at most {GOAL_INSIDE:.0%}"),
    ):
        if scores_of:
            share, (low, high) = abstained(scores_of)
            shares[title] = share
            print(f"{title}: {share:.1%} ({low:.1%} to {high:.1%}); the goal is {goal}")
    print(json.dumps({"model": given.model, "prompts": given.n, "seed": given.seed, "right": rows, **shares}))


if __name__ == "__main__":
    main()
