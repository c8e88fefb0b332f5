"""Pictures that say what is where, and a tower that learns it before anything else."""

import dataclasses
import random
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from engine.seeing import TOWER, make_seeing_folder
from torch.nn import functional as F

from gesso.errors import OptionError
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.models.loading import load_folder
from gesso.models.vision_loading import load_vision
from gesso.tasks.sight.drawing import SIDE, Mark
from gesso.tasks.sight.scenes import Scene, draw_scene
from gesso.tasks.sight.words import build_sight_tokenizer
from gesso.text.tokenizer import Tokenizer
from gesso.train.config import TrainConfig
from gesso.train.picture_labels import EMPTY_WEIGHT, SHARES, LabelBatch, PictureLabels, label_loss, words_of_places
from gesso.train.recipes import load_recipe
from gesso.vision.size import PatchLayout
from train.runs import Cut, CutAt, train
from train.test_vision import recipe, tensors_of

GRID = 8
"""Soft tokens along a side of a picture, in the recipe as here."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_seeing_folder(tmp_path_factory.mktemp("seeing"), 6)


def some_tokens(word: str) -> tuple[int, ...]:
    """Any tokens of the tiny vocabulary for a word: two for one of several letters."""
    first = 20 + sum(word.encode()) % 100
    return (first, first + 100) if len(word) > 1 else (first,)


def labels(steps: int = 2, size: int = 3, seed: int = 0, rest: int = 0) -> PictureLabels:
    layout = PatchLayout(TOWER.patch_size, TOWER.pooling_kernel_size)
    return PictureLabels(
        steps=steps,
        draw=draw_scene,
        tokens_of=some_tokens,
        empty=0,
        layout=layout,
        budget=70,
        size=size,
        seed=seed,
        rest=rest,
    )


def test_words_stand_in_the_soft_token_of_their_mark() -> None:
    side = SIDE / GRID
    marks = (Mark(1.9 * side, 0.5 * side, ("b",)), Mark(1.1 * side, 0.1 * side, ("a",)), Mark(SIDE, SIDE, ("c", "d")))
    found = words_of_places(Scene(b"", marks), GRID, GRID)
    assert found[1] == ["a", "b"], "two letters in one place are told from the left"
    assert found[GRID * GRID - 1] == ["c", "d"]
    assert sum(map(bool, found)) == 2


def test_a_batch_follows_from_its_step_and_weighs_every_place() -> None:
    made = labels()
    one, same, other = made.batch(1), made.batch(1), made.batch(2)
    assert all(torch.equal(getattr(one, name), getattr(same, name)) for name in ("pixels_BPV", "places_M", "tokens_M"))
    assert not torch.equal(one.pixels_BPV, other.pixels_BPV)
    assert one.soft_tokens == 3 * GRID**2
    weights = torch.zeros(one.soft_tokens).index_add(0, one.places_M, one.weights_M)
    stands = torch.zeros(one.soft_tokens)
    stands[one.places_M[one.first_M]] = 1
    assert torch.allclose(weights, torch.where(stands > 0, 1.0, EMPTY_WEIGHT))
    assert (one.tokens_M[~one.first_M.bool()] == 0).sum() == (stands == 0).sum()
    rng = random.Random("labels/0/1")
    scenes = [draw_scene(rng) for _ in range(3)]
    assert stands.sum() == sum(bool(words) for scene in scenes for words in words_of_places(scene, GRID, GRID))


def test_the_loss_is_the_cross_entropy_against_the_table(folder: Path) -> None:
    model, vision = load_folder(folder, "cpu", "float32"), load_vision(folder, "cpu", "float32")
    places, tokens = torch.tensor([0, 1, 1, 2]), torch.tensor([5, 6, 7, 0])
    shares = torch.tensor([1.0, SHARES[0], SHARES[1]]) / torch.tensor([1.0, SHARES[0] + SHARES[1]] * 2)[[0, 1, 1]]
    weights = torch.cat((shares, torch.tensor([EMPTY_WEIGHT])))
    pixels = torch.rand(1, 9, 3 * TOWER.patch_size**2)
    first = torch.tensor([True, True, False, False])
    batch = LabelBatch(pixels.expand(3, -1, -1), 3, 3, places, tokens, weights, first)
    loss, right = label_loss(model, vision, batch)
    embeddings = vision(batch.pixels_BPV, 3, 3).flatten(0, 1)
    cap, logits = model.vocabulary.softcap, embeddings @ model.vocabulary.weight.T
    each = F.cross_entropy(cap * torch.tanh(logits / cap)[places], tokens, reduction="none")
    assert torch.allclose(loss, (each * weights).sum() / weights.sum(), rtol=1e-5)
    likeliest = logits.argmax(dim=-1)[places]
    assert right == (likeliest == tokens)[:2].float().mean()


@pytest.mark.parametrize(("steps", "rest"), [(3, 1), (0, 4)])
def test_a_run_of_labels_and_questions_goes_on_where_it_was_cut_off(
    folder: Path, tmp_path: Path, steps: int, rest: int
) -> None:
    muon = TrainConfig(steps=6, batch_size=3, warmup_steps=1, checkpoint_every=2, log_every=1, optimizer="muon")
    plan = dataclasses.replace(recipe(folder, None, train=muon), labels=labels(steps=steps, rest=rest))
    whole = train(plan, tmp_path / "whole")
    for at in (3, 5):  # the checkpoint before is among the labels, and among the questions
        with pytest.raises(Cut):
            train(plan, tmp_path / "cut", callback=CutAt(at))
    one, other = tensors_of(whole), tensors_of(train(plan, tmp_path / "cut"))
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
    lines = (tmp_path / "whole" / "metrics.jsonl").read_text("utf-8").splitlines()
    assert ["label_loss" in line for line in lines] == [True] * steps + [False] * (6 - steps)


def test_labels_teach_the_tower_and_the_table_alone(folder: Path, tmp_path: Path) -> None:
    few = TrainConfig(steps=12, batch_size=3, learning_rate=5e-3, warmup_steps=1, log_every=1, checkpoint_every=12)
    plan = dataclasses.replace(recipe(folder, folder, train=few), labels=labels(steps=12, size=1))
    plan = dataclasses.replace(plan, labels=dataclasses.replace(plan.labels, draw=the_same))
    found = []

    class Told(CutAt):
        def stepped(self, step: int, record: object) -> None:
            found.append(record)

    last = train(plan, tmp_path / "run", callback=Told(0))
    assert found[-1].label_loss < 0.7 * found[0].label_loss
    assert all(0 <= record.right <= 1 for record in found)
    before, after = (load_folder(where, "cpu", "float32") for where in (folder, last))
    assert changed(before, after) == {"vocabulary.weight"}


def the_same(_: random.Random) -> Scene:
    return draw_scene(random.Random(1))


def changed(one: DiffusionGemma, other: DiffusionGemma) -> set[str]:
    theirs = other.state_dict()
    return {name for name, tensor in one.state_dict().items() if not torch.equal(tensor, theirs[name])}


def test_the_tower_rests_while_what_reads_it_learns(folder: Path, tmp_path: Path) -> None:
    few = TrainConfig(steps=4, batch_size=3, warmup_steps=1, checkpoint_every=1, keep_checkpoints=4, log_every=1)
    plan = dataclasses.replace(recipe(folder, None, train=few), labels=labels(steps=1, rest=2))
    train(plan, tmp_path / "run")
    folders = [tmp_path / "run" / f"step-{step:06d}" for step in range(1, 5)]
    towers = [load_vision(each, "cpu", "float32").state_dict() for each in folders]
    texts = [load_folder(each, "cpu", "float32") for each in folders]
    same = [all(torch.equal(one[name], other[name]) for name in one) for one, other in pairwise(towers)]
    assert same == [True, True, False]
    assert all("layers.0.mlp.up_proj.weight" in changed(one, other) for one, other in pairwise(texts))


def test_labels_that_would_be_mixed_or_teach_nobody_are_refused(folder: Path) -> None:
    with pytest.raises(OptionError, match="vision must be trained"):
        dataclasses.replace(recipe(folder, folder, vision="frozen"), labels=labels())
    for settings in ({"log_every": 3}, {"log_every": 1, "micro_batch_size": 1}):
        train = TrainConfig(steps=4, **settings)
        with pytest.raises(OptionError, match="at once, and log_every must divide their steps"):
            dataclasses.replace(recipe(folder, None, train=train), labels=labels(steps=2))


def test_every_word_of_a_scene_is_a_token_of_the_recipe() -> None:
    made, rng = load_recipe("sight").labels, random.Random(4)
    assert made is not None
    words = {word for _ in range(300) for mark in draw_scene(rng).marks for word in mark.words}
    assert {"red", "star", "largest", ", ", "7", "e", "E"} <= words
    tokens = [token for word in words for token in made.tokens_of(word)]
    assert len({*tokens, made.empty}) == len(tokens) + 1
    piece = Tokenizer(build_sight_tokenizer()).piece
    assert [piece(token) for token in made.tokens_of("star")] == ["star", " star"]
    assert [piece(token) for token in made.tokens_of("largest")] == [" largest"]
    assert [piece(token) for token in made.tokens_of("7")] == ["7"]
    with pytest.raises(ValueError, match="no piece"):
        made.tokens_of("unheard of")
