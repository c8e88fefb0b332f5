"""Compares settings by the answers that they have in common: intervals, paired tests, and which are worth having."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from gesso.train.intervals import Interval, mean_interval, wilson_interval

AUP_ALPHA, AUP_SLACK = 3.0, 0.05
"""Rate at which accuracy below the best one loses weight, and how far below the slowest setting's it may fall, as in
the paper that `accuracy_under_parallelism` names."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Holds what a setting made of one example."""

    number: int
    """The example's place in its set, by which settings are paired."""
    right: bool
    passes: int
    """All passes of the model behind the prompt, commits not."""
    tokens: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Row:
    """Compares one setting with the first one of the same model and task."""

    model: str
    task: str
    options: Mapping[str, Any]
    examples: int
    right: int
    interval: Interval
    """Wilson's 95% interval of the share that is right."""
    passes: float
    """Passes of an answer, the mean."""
    passes_interval: Interval
    tokens_per_forward: float
    seconds: float
    """Seconds of an answer among others of its batch, the mean."""
    paired: int
    """Examples that the first setting answered too."""
    fixed: int
    """Examples among these that are right here alone."""
    broken: int
    """Examples among these that are right there alone."""
    p: float
    """McNemar's exact test of the two, two-sided."""
    p_holm: float
    """The same, adjusted for all settings of this model and task (Holm 1979)."""
    passes_change: float
    """Mean difference of passes to the first setting, on the examples of both."""
    passes_change_interval: Interval
    best: bool
    """Whether no other setting is right as often in fewer passes, or more often in as many (Pareto front)."""


def mcnemar(fixed: int, broken: int) -> float:
    """Returns the probability of a split as uneven as this, or more, if both were as likely (McNemar 1947, exact)."""
    total = fixed + broken
    tail = sum(math.comb(total, i) for i in range(min(fixed, broken) + 1))
    # A quotient of whole numbers: from 1,024 unlike pairs on neither of them fits a float.
    return min(1.0, 2 * tail / (1 << total))


def holm(ps: Sequence[float]) -> list[float]:
    """Returns p-values adjusted for there being several (Holm 1979), in their order."""
    order = sorted(range(len(ps)), key=lambda place: ps[place])
    adjusted, worst = [1.0] * len(ps), 0.0
    for rank, place in enumerate(order):
        worst = max(worst, min(1.0, (len(ps) - rank) * ps[place]))
        adjusted[place] = worst
    return adjusted


def compare(model: str, task: str, settings: Sequence[tuple[Mapping[str, Any], Mapping[int, Answer]]]) -> list[Row]:
    """Compares the settings of one model and task; those without an answer are left out.

    Args:
        settings: options and answers by number; the first one is what the others are compared with.
    """
    made = [(options, answers) for options, answers in settings if answers]
    if not made or not settings[0][1]:
        return []
    first = made[0][1]
    pairs = [sorted(first.keys() & answers.keys()) for _, answers in made]
    fixed = [sum(a[n].right and not first[n].right for n in both) for (_, a), both in zip(made, pairs, strict=True)]
    broken = [sum(first[n].right and not a[n].right for n in both) for (_, a), both in zip(made, pairs, strict=True)]
    ps = [mcnemar(*pair) for pair in zip(fixed, broken, strict=True)]
    adjusted = [1.0, *holm(ps[1:])]
    points = [
        (sum(a.passes for a in answers.values()) / len(answers), sum(a.right for a in answers.values()) / len(answers))
        for _, answers in made
    ]
    front = set(pareto(points))
    rows = []
    for place, (options, answers) in enumerate(made):
        told, both = list(answers.values()), pairs[place]
        right, passes = sum(answer.right for answer in told), [answer.passes for answer in told]
        change = [answers[n].passes - first[n].passes for n in both]
        rows.append(
            Row(
                model=model,
                task=task,
                options=options,
                examples=len(told),
                right=right,
                interval=wilson_interval(right, len(told)),
                passes=sum(passes) / len(told),
                passes_interval=mean_interval(passes),
                tokens_per_forward=sum(answer.tokens for answer in told) / max(1, sum(passes)),
                seconds=sum(answer.seconds for answer in told) / len(told),
                paired=len(both),
                fixed=fixed[place],
                broken=broken[place],
                p=ps[place],
                p_holm=adjusted[place],
                passes_change=sum(change) / len(change) if change else 0.0,
                passes_change_interval=mean_interval(change) if change else (0.0, 0.0),
                best=place in front,
            )
        )
    return rows


def pareto(points: Sequence[tuple[float, float]]) -> list[int]:
    """Returns the places of the points (cost, gain) that no other beats, by cost."""

    def beaten(place: int) -> bool:
        cost, gain = points[place]
        return any(c <= cost and g >= gain and (c < cost or g > gain) for c, g in points)

    return sorted((place for place in range(len(points)) if not beaten(place)), key=lambda place: points[place])


def accuracy_under_parallelism(points: Sequence[tuple[float, float]]) -> float:
    """Returns the area below accuracy over tokens a forward, where accuracy that falls behind counts less (AUP, d3LLM,
    arXiv 2601.07568), in percentage points times tokens a forward. Settings more than `AUP_SLACK` below the slowest
    one's accuracy are left out.

    Args:
        points: tokens a forward and share that is right, of every setting.
    """
    if not points:
        return 0.0
    ordered = sorted(points)
    kept = [point for point in ordered if point[1] >= ordered[0][1] - AUP_SLACK]
    best = max(right for _, right in kept)

    def weighed(right: float) -> float:
        return 100 * right * (min(1.0, math.exp(-AUP_ALPHA * (1 - right / best))) if best else 0.0)

    area = kept[0][0] * 100 * kept[0][1]
    for (before, low), (after, high) in pairwise(kept):
        area += (after - before) * (weighed(low) + weighed(high)) / 2
    return area
