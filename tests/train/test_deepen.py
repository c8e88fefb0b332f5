"""A model made deeper says nearly the same, and all of it learns."""

import dataclasses
from pathlib import Path

import pytest
import torch
from oracle import SHAPES, random_model

from gesso.errors import CheckpointError
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.models.loading import load_folder
from gesso.models.saving import save_folder
from gesso.train.deepen import SHARE, deepen, deepens, deeper_layers
from gesso.train.step import start_model
from train.runs import SHAPE, recipe, train


def logits(model: DiffusionGemma) -> torch.Tensor:
    """Of a canvas behind a prompt, so that both passes count."""
    generator = torch.Generator().manual_seed(0)
    prompt, canvas = (
        torch.randint(0, 30, (2, 9), generator=generator),
        torch.randint(0, 30, (2, 5), generator=generator),
    )
    cache = model.new_cache(2)
    with torch.no_grad():
        model.encode(prompt, cache)
        return model.denoise(canvas, cache, None)


@pytest.mark.parametrize("name", ["plain", "two_full_kv_heads", "all_full"])
def test_with_copies_that_add_nothing_it_computes_the_same(name: str) -> None:
    model = random_model(SHAPES[name])
    before, layers = logits(model), model.config.layers
    deepen(model, len(layers) + 1, share=0.0)
    assert model.config.layers == (layers[0], *layers)
    assert len(model.layers) == len(layers) + 1
    torch.testing.assert_close(logits(model), before, rtol=1e-5, atol=1e-5)


def test_only_layers_that_repeat_the_first_are_added() -> None:
    config = random_model(SHAPES["plain"]).config
    assert len(set(config.layers)) > 1
    for more in range(1, len(config.layers) + 1):
        assert deepens(config, dataclasses.replace(config, layers=deeper_layers(config.layers, more)))
    for layers in (config.layers, config.layers[:-1], config.layers[::-1] + config.layers, config.layers * 3):
        assert not deepens(config, dataclasses.replace(config, layers=layers))


def test_a_run_of_a_deeper_recipe_begins_as_its_start_and_trains_all_layers(tmp_path: Path) -> None:
    shallow = recipe()
    save_folder(random_model(SHAPE), tmp_path / "start")
    model = dataclasses.replace(shallow.model, layers=deeper_layers(shallow.model.layers, 2))
    deeper = dataclasses.replace(shallow, model=model, start=tmp_path / "start")
    begun = start_model(deeper, torch.device("cpu")).eval()
    for original, added in zip(begun.layers[:2], begun.layers[2:4], strict=True):
        for name, value in added.state_dict().items():
            share = SHARE if name in ("post_attention_norm.weight", "post_norm.weight") else 1.0
            assert "_scalar" in name or torch.equal(value, share * original.state_dict()[name])
    trained = load_folder(train(deeper, tmp_path / "run"), "cpu", "float32")
    after = trained.layers[2:4].state_dict()
    same = [name for name, value in begun.layers[2:4].state_dict().items() if torch.equal(value, after[name])]
    # The weight of a mixture's only expert is 1 whatever the router says.
    assert all("_scalar" in name or ".router." in name for name in same), same


def test_other_shapes_are_refused(tmp_path: Path) -> None:
    shallow = recipe()
    save_folder(random_model(SHAPE), tmp_path / "start")
    model = dataclasses.replace(shallow.model, layers=shallow.model.layers[::-1] + shallow.model.layers)
    with pytest.raises(CheckpointError, match="layers"):
        start_model(dataclasses.replace(shallow, model=model, start=tmp_path / "start"), torch.device("cpu"))
