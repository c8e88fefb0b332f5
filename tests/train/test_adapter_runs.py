"""Runs that train deltas, over plain and over 4-bit weights."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from thorough import THOROUGH

from gesso.config import LoraConfig
from gesso.engine.engine import Engine
from gesso.errors import CheckpointError, OptionError
from gesso.generation import GenerationConfig
from gesso.models.adapter_files import adapter_config_of, load_adapter, save_adapter
from gesso.models.adapters import adapter_parameters, attach
from gesso.models.diffusion_gemma import DiffusionGemma, initialise
from gesso.models.loading import load_folder
from gesso.models.run_folders import ADAPTER_CONFIG, ADAPTER_WEIGHTS
from gesso.models.saving import save_folder
from gesso.text.tokenizer import TokenIds
from gesso.train.batch import Conversation
from gesso.train.checkpoint import OPTIMIZER, STATE
from gesso.train.identity import STARTING_ADAPTER, WEIGHTS
from gesso.train.recipe import Recipe
from train.runs import SHAPE, Fixed, Told, adapter_recipe, losses_of, metrics, recipe, train


@pytest.mark.parametrize("quantize", [None, "nf4"])
def test_an_adapter_run_trains_and_keeps_the_deltas_alone(tmp_path: Path, quantize: Any) -> None:
    tiny = adapter_recipe(tmp_path / "start", quantize)
    whole = train(tiny, tmp_path / "whole", device="cpu")
    assert sorted(path.name for path in whole.iterdir()) == sorted([ADAPTER_CONFIG, ADAPTER_WEIGHTS, OPTIMIZER, STATE])
    train(tiny, tmp_path / "parts", device="cpu", stop_at=5)
    last = train(tiny, tmp_path / "parts", device="cpu")
    for name in (ADAPTER_WEIGHTS, OPTIMIZER):
        left, right = load_file(whole / name), load_file(last / name)
        assert left.keys() == right.keys()
        assert all(torch.equal(left[key], right[key]) for key in left), name
    assert losses_of(tmp_path / "parts") == losses_of(tmp_path / "whole")
    moved = load_file(whole / ADAPTER_WEIGHTS)
    assert all(tensor.any() for tensor in moved.values()), "every delta has been trained"


def test_an_adapter_of_another_rank_is_refused(tmp_path: Path) -> None:
    tiny = adapter_recipe(tmp_path / "start", steps=1)
    train(tiny, tmp_path / "run", device="cpu")
    with pytest.raises(CheckpointError, match="holds an adapter of rank 4"):
        train(replace(tiny, adapter=LoraConfig(rank=2, targets=("*",))), tmp_path / "run", device="cpu")


@pytest.mark.parametrize(("before", "now"), [("*", "layers.*.attention.*"), ("layers.*.attention.*", "*")])
def test_an_adapter_of_other_layers_is_refused_by_name(tmp_path: Path, before: str, now: str) -> None:
    tiny = adapter_recipe(tmp_path / "start", steps=1)
    other, mine = (replace(tiny, adapter=replace(tiny.adapter, targets=(targets,))) for targets in (before, now))
    train(other, tmp_path / "run", device="cpu")
    with pytest.raises(CheckpointError, match=r"was trained with other settings \(target: .*: go on with the same"):
        train(mine, tmp_path / "run", device="cpu")
    same = replace(tiny, adapter=replace(tiny.adapter, targets=(before, before)))
    train(same, tmp_path / "run", device="cpu")


class ByHeart(Fixed):
    """Eight answers of one canvas that nothing but the prompt tells."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(1)
        rows = torch.randint(12, 36, (8, 7), generator=generator).tolist()
        self.conversations = [Conversation([2, 3 + i], [*row, 1]) for i, row in enumerate(rows)]


@pytest.mark.parametrize("mode", ["full", "qlora", *["lora"] * THOROUGH])
def test_eight_examples_are_learned_by_heart_and_written_back(tmp_path: Path, mode: str) -> None:
    """In every mode the loss falls to a tenth, and the model then writes each answer from its prompt.

    `qlora` is `lora` over packed weights, so that one of them is enough.
    """
    start = DiffusionGemma(SHAPE.config())
    initialise(start, 0)
    with torch.no_grad():
        start.norm.weight.fill_(4.0)  # adapters cannot sharpen what a random model says otherwise
    save_folder(start, tmp_path / "start")
    deltas = None if mode == "full" else LoraConfig(rank=16, alpha=32.0, targets=("*",))
    steps, rate = (150, 1.5e-2) if mode == "full" else (200, 3e-2)
    settings = {"batch_size": 8, "canvases_per_example": 6, "learning_rate": rate, "warmup_steps": 20, "beta2": 0.99}
    tiny = replace(
        recipe(steps=steps, log_every=50, checkpoint_every=1000, encoder_loss_weight=0.0, **settings),
        start=tmp_path / "start",
        data=ByHeart(),
        adapter=deltas,
        quantize="nf4" if mode == "qlora" else None,
    )
    last = train(tiny, tmp_path / "run", device="cpu")
    # 2.7 and more after 25 steps; CPUs differ in the end: 0.297 on Zen 5.
    assert metrics(tmp_path / "run")[steps]["denoiser_loss"] < 0.36
    model = load_folder(tmp_path / "start" if deltas else last, "cpu", quantize="nf4" if mode == "qlora" else None)
    if deltas:
        load_adapter(model, last)
    engine = Engine(model, TokenIds(), None, GenerationConfig(eos_token_ids=(1,), max_denoising_steps=24))
    for conversation in ByHeart().conversations:
        result = engine.generate(list(conversation.prompt), max_new_tokens=8, seed=0)
        assert list(result.token_ids) == list(conversation.answer)


def test_dropout_is_off_where_the_held_out_loss_is_looked_at(tmp_path: Path) -> None:
    looks = []
    for dropout in (0.0, 0.5):
        told = Told()
        settings = {"steps": 2, "evaluate_every": 1, "learning_rate": 0.0, "dropout": dropout}
        train(adapter_recipe(tmp_path / "start", **settings), tmp_path / str(dropout), device="cpu", callback=told)
        looks.append([look.held_out_denoiser_loss for look in told.looks])
    assert looks[0] == looks[1]


def test_a_resumed_run_with_dropout_is_the_same_run(tmp_path: Path) -> None:
    tiny = adapter_recipe(tmp_path / "start", dropout=0.3, evaluate_every=4)
    train(tiny, tmp_path / "whole", device="cpu")
    train(tiny, tmp_path / "parts", device="cpu", stop_at=6)
    train(tiny, tmp_path / "parts", device="cpu")
    assert losses_of(tmp_path / "parts") == losses_of(tmp_path / "whole")


def test_a_loaded_adapter_is_frozen_and_drops_nothing(tmp_path: Path) -> None:
    last = train(adapter_recipe(tmp_path / "start", steps=1, dropout=0.5), tmp_path / "run", device="cpu")
    model = load_folder(tmp_path / "start", "cpu", quantize="nf4")
    load_adapter(model, last)
    assert not any(module.training for module in model.modules())
    assert not any(parameter.requires_grad for parameter in model.parameters())


def test_another_dropout_is_refused(tmp_path: Path) -> None:
    tiny = adapter_recipe(tmp_path / "start", steps=1, dropout=0.5)
    train(tiny, tmp_path / "run", device="cpu")
    with pytest.raises(CheckpointError, match=r"other settings \(dropout 0.5, now 0.0\)"):
        train(adapter_recipe(tmp_path / "start", steps=1), tmp_path / "run", device="cpu")


def test_another_base_is_refused(tmp_path: Path) -> None:
    """Where a checkpoint has a digest of the base's weights, it matters, and its name does not."""
    tiny = adapter_recipe(tmp_path / "start", steps=1)
    last = train(tiny, tmp_path / "run", device="cpu")
    other = replace(tiny, base="other")
    assert train(other, tmp_path / "run", device="cpu") == last
    state = json.loads((last / STATE).read_text("utf-8"))
    del state[WEIGHTS]
    (last / STATE).write_text(json.dumps(state), "utf-8")
    with pytest.raises(CheckpointError, match=r"other settings \(base 'tiny', now 'other'\)"):
        train(other, tmp_path / "run", device="cpu")


def separate_recipe(folder: Path, **changes: Any) -> Recipe:
    """A tiny run that goes on from an adapter with a delta each for encoder and decoder, written to `theirs`."""
    tiny = adapter_recipe(folder / "start", steps=4, **changes)
    deltas = LoraConfig(rank=4, targets=("*",), separate=True)
    model = load_folder(folder / "start", "cpu", "float32")
    attach(model, deltas)
    with torch.no_grad():
        for parameter in adapter_parameters(model).values():
            parameter.add_(0.01)
    save_adapter(model, deltas, folder / "theirs", "start")
    found = adapter_config_of(model.config, folder / "theirs")
    assert found.separate
    return replace(tiny, adapter=found, adapter_start=folder / "theirs", quantize=None)


def test_a_run_goes_on_from_deltas_of_encoder_and_decoder_each(tmp_path: Path) -> None:
    tiny = separate_recipe(tmp_path)
    whole = train(tiny, tmp_path / "whole", device="cpu")
    train(tiny, tmp_path / "parts", device="cpu", stop_at=2)
    last = train(tiny, tmp_path / "parts", device="cpu")
    begun, ended, resumed = (load_file(folder / ADAPTER_WEIGHTS) for folder in (tmp_path / "theirs", whole, last))
    assert begun.keys() == ended.keys()
    assert all(torch.equal(ended[key], resumed[key]) for key in ended)
    moved = [key for key in ended if not torch.equal(begun[key], ended[key])]
    assert any(".encoder." in key for key in moved)
    assert any(".decoder." in key for key in moved)
    again = replace(tiny, train=replace(tiny.train, gradient_checkpointing=True))
    train(again, tmp_path / "checkpointed", device="cpu")
    first, second = losses_of(tmp_path / "checkpointed"), losses_of(tmp_path / "whole")
    for step, losses in second.items():
        assert first[step] == pytest.approx(losses, rel=1e-5)


def test_the_causal_pass_alone_trains_the_encoders_deltas_and_resumes(tmp_path: Path) -> None:
    tiny = separate_recipe(tmp_path, denoiser_loss_weight=0.0)
    whole = train(tiny, tmp_path / "whole", device="cpu")
    train(tiny, tmp_path / "parts", device="cpu", stop_at=2)
    last = train(tiny, tmp_path / "parts", device="cpu")
    for name in (ADAPTER_WEIGHTS, OPTIMIZER):
        left, right = load_file(whole / name), load_file(last / name)
        assert left.keys() == right.keys()
        assert all(torch.equal(left[key], right[key]) for key in left), name
    begun, ended = (load_file(folder / ADAPTER_WEIGHTS) for folder in (tmp_path / "theirs", whole))
    moved = [key for key in ended if not torch.equal(begun[key], ended[key])]
    assert moved
    assert all(".encoder." in key for key in moved)


def test_targets_that_the_causal_pass_does_not_go_through_are_refused(tmp_path: Path) -> None:
    tiny = adapter_recipe(tmp_path / "start", denoiser_loss_weight=0.0)
    alone = replace(tiny, adapter=LoraConfig(rank=4, targets=("self_conditioning.*",)))
    with pytest.raises(OptionError, match=r"goes through none of the targets: self_conditioning\.\*") as refused:
        train(alone, tmp_path / "run", device="cpu")
    assert refused.value.option == "target"


def test_a_run_from_an_adapter_goes_on_from_that_one_alone(tmp_path: Path) -> None:
    """Its teacher would be another one, and so would its steps, though its deltas are those of the checkpoint."""
    begun = separate_recipe(tmp_path)
    without = replace(begun, adapter_start=None)
    train(begun, tmp_path / "from", device="cpu", stop_at=2)
    last = train(without, tmp_path / "fresh", device="cpu", stop_at=2)
    for plan, run in ((without, "from"), (begun, "fresh")):
        with pytest.raises(CheckpointError, match=r"000002 went on from another adapter, or from none \(--adapter\):"):
            train(plan, tmp_path / run, device="cpu")
    state = json.loads((last / STATE).read_text("utf-8"))
    assert state.pop(STARTING_ADAPTER) is None
    (last / STATE).write_text(json.dumps(state), "utf-8")  # as it was written before it said so
    with pytest.raises(CheckpointError, match="went on from another adapter"):
        train(begun, tmp_path / "fresh", device="cpu")
    train(without, tmp_path / "fresh", device="cpu")
