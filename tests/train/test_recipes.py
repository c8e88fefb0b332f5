"""The recipes of the skills: their size, and two steps of each way to train them."""

import dataclasses
import itertools
from pathlib import Path

import pytest
import torch

from gesso.config import ModelConfig
from gesso.errors import OptionError
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.models.hub import resolve
from gesso.models.loading import read_model_config
from gesso.train.deepen import deepens
from gesso.train.recipe import Recipe
from gesso.train.recipes import RECIPES, about, load_recipe
from gesso.train.recipes.skill_runs import MADE, PREPARED, RUNS, TRIED, later_run
from gesso.train.step import step_batch
from train.runs import recipe as tiny_recipe
from train.runs import train


def shrunken(recipe: Recipe, **changes: object) -> Recipe:
    """The recipe with a model and batches that two steps of take a second."""
    model: ModelConfig = dataclasses.replace(
        recipe.model, hidden_size=32, intermediate_size=32, moe_intermediate_size=16, layers=recipe.model.layers[1:3]
    )
    narrow = tuple(dataclasses.replace(width, batch_size=3) for width in recipe.train.narrow)
    sizes = {"batch_size": 3, "causal_batch_size": 3}
    settings = dataclasses.replace(recipe.train, **sizes, narrow=narrow, checkpoint_every=1, **changes)
    return dataclasses.replace(recipe, model=model, train=settings, start=None)


def test_the_model_has_thirty_megabytes_at_most() -> None:
    for name in ("skills", "skills-gpu"):
        with torch.device("meta"):
            model = DiffusionGemma(load_recipe(name).model)
        assert 2 * sum(parameter.numel() for parameter in model.parameters()) < 30e6


@pytest.mark.parametrize("name", ["skills", "skills-14", "skills-gpu"])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_two_steps(name: str, precision: str, tmp_path: Path) -> None:
    recipe = shrunken(load_recipe(name), precision=precision)
    first = train(recipe, tmp_path, stop_at=1)
    assert train(recipe, tmp_path, stop_at=2) != first


def test_the_causal_pass_alone_learns_from_whole_answers() -> None:
    recipe = load_recipe("skills-4")
    batch = step_batch(recipe, 3)
    rows = recipe.examples.batch(3, recipe.train.causal_batch_size, None)
    assert batch.causal
    assert sorted(batch.lengths) == sorted(len(row.prompt) + len(row.answer) for row in rows)
    assert batch.target_tokens == sum(len(row.answer) for row in rows)


def test_a_share_of_the_later_steps_is_of_the_causal_pass_alone() -> None:
    mixed = tiny_recipe(steps=60, causal_steps=5, causal_share=0.5)
    causal = [step_batch(mixed, step).causal for step in range(60)]
    assert all(causal[:5])
    assert 15 < sum(causal[5:]) < 40
    assert causal == [step_batch(mixed, step).causal for step in range(60)]
    with pytest.raises(OptionError, match="causal_share needs encoder_loss_weight"):
        tiny_recipe(causal_share=0.5, encoder_loss_weight=0.0)


def test_each_run_of_the_line_goes_on_from_the_one_before() -> None:
    runs = [load_recipe("skills"), *map(later_run, MADE)]
    for before, run in itertools.pairwise(runs):
        assert run.start in (
            Path("runs", before.name, f"step-{before.train.steps:06}"),
            Path("runs", before.name, "mean"),
        )
        assert run.model == before.model
        assert run.train.causal_steps == run.train.steps
    assert len({run.data.fingerprint for run in runs}) == len({run.train.seed for run in runs}) == len(runs)


def test_runs_that_were_tried_go_on_from_runs_of_the_line_or_from_each_other() -> None:
    tried = [later_run(run) for run in TRIED]
    ends = {Path("runs", run.name, "mean") for run in (MADE[-1], *TRIED)}
    line = {later_run(run).start for run in MADE} | ends | {Path("runs", MADE[-1].name, f"step-{MADE[-1].steps:06d}")}
    assert {run.start for run in tried} <= line


def test_the_runs_take_the_bundled_weights_whatever_their_layers() -> None:
    bundled = read_model_config(resolve("skills"))
    for name in ("skills", *RUNS):
        assert load_recipe(name).model == bundled or deepens(bundled, load_recipe(name).model)


def test_the_runs_of_canvases_go_on_with_both_passes() -> None:
    for name in ("skills-6", "skills-14"):
        run = load_recipe(name)
        assert run.train.causal_steps == 0
        assert run.train.denoiser_loss_weight
        assert run.train.encoder_loss_weight
        assert sum(width.share for width in run.train.narrow) < 1, "some steps have the model's own width"
    assert {later_run(run).start for run in PREPARED} == {resolve("skills")}


def test_every_recipe_has_a_sentence_in_the_list() -> None:
    told = {name: about(name) for name in RECIPES}
    assert all(sentence.endswith(".") for sentence in told.values())
    assert "canvases and the causal pass" in told["skills-14"]
    assert told["skills-14"].endswith("Not run yet.")
    assert "runs/skills-21/step-001008" in told["skills-22"]


def test_the_large_batches_differ_from_the_small_in_shape_size_and_seed() -> None:
    small, large = load_recipe("skills"), load_recipe("skills-gpu")
    assert small.start is large.start is None
    assert small.model.hidden_size < large.model.hidden_size
    assert large.train.batch_size > 10 * small.train.batch_size
    assert small.data.fingerprint != large.data.fingerprint
