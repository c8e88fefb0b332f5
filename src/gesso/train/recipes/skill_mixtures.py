"""Reads how the runs of `skills` weigh their tasks: a row of `skill_mixtures.csv` for each run, by what was worst after
the run before, and two for the first, of which the second holds from a later step on."""

import csv
from importlib import resources

from gesso.train.skill_data import Mixture


def mixtures(run: str) -> tuple[Mixture, ...]:
    """Returns the mixtures of the run of that name, by the step from which on."""
    table = resources.files(__package__).joinpath("skill_mixtures.csv").read_text(encoding="utf-8")
    return tuple(
        Mixture(int(row.pop("from_step")), {task: float(weight) for task, weight in row.items() if weight})
        for row in csv.DictReader(table.splitlines())
        if row.pop("run") == run
    )
