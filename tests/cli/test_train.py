"""`gesso train`: the list of recipes, and a recipe that another run comes before."""

from pathlib import Path

import pytest

from cli.conftest import Gesso


def test_the_list_tells_what_starts_here_from_what_another_run_comes_before(gesso: Gesso) -> None:
    from gesso.train.recipes import LATER, RECIPES

    outcome = gesso("train")
    assert outcome.code == 0
    first, second = ([line.split()[0] for line in part.splitlines()[1:]] for part in outcome.out.split("\n\n"))
    assert {"mini", "skills", "skills-25"} <= set(first)
    assert (set(first), set(second)) == (RECIPES.keys() - LATER, LATER)
    assert second == sorted(second, key=lambda name: int(name.removeprefix("skills-")))


def test_what_a_run_goes_on_from_is_named_with_its_commands(
    gesso: Gesso, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    step, mean = gesso("train", "skills-3"), gesso("train", "skills-11")
    assert (step.code, mean.code) == (2, 2)
    assert "goes on from runs/skills-2/step-004000, which is not here\n  gesso train skills-2 would" in step.err
    assert "gesso train skills-9 and then python -m gesso.train.mean_weights would" in mean.err
    assert list(tmp_path.iterdir()) == []
