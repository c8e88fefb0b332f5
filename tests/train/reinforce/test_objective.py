"""Runs of reinforcement: rewards rise, runs resume bit by bit, and the start holds them back."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
from oracle import Shape
from safetensors.torch import load_file
from tokenizers import models, pre_tokenizers

from gesso.config import LoraConfig
from gesso.errors import CheckpointError, OptionError
from gesso.generation import GenerationConfig
from gesso.models.diffusion_gemma import DiffusionGemma, initialise
from gesso.models.saving import save_folder
from gesso.train import trainer
from gesso.train.checkpoint import OPTIMIZER
from gesso.train.config import TrainConfig
from gesso.train.plot import plot_losses
from gesso.train.recipe import Recipe
from gesso.train.records import PolicyEvaluation, TrainingCallback
from gesso.train.reinforce.config import Case, PolicyConfig
from gesso.train.reinforce.objective import advantages, answer_seeds
from gesso.train.reinforce.recipe import reinforce_recipe
from gesso.train.text_files import NewText
from train.runs import metrics, same_files

WORDS = ("<pad>", "<eos>", "<bos>", *"abcdefghijklm")


def tokenizer() -> tokenizers.Tokenizer:
    made = tokenizers.Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="a"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.add_special_tokens(list(WORDS[:3]))
    return made


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model of thirteen words."""
    folder = tmp_path_factory.mktemp("reinforce") / "start"
    model = DiffusionGemma(Shape(layers="sf", vocab=len(WORDS), hidden=24, mlp=24, window=6, canvas=8).config())
    initialise(model, 0)
    special = {"bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>"}
    NewText(tokenizer, "{{ messages[0]['content'] }}", special).write(folder)
    save_folder(model, folder, generation=GenerationConfig(eos_token_ids=(1,)))
    return folder


class Toy:
    """Two prompts, rewarded by a function of the answer."""

    def __init__(self, reward: Callable[[str], float]) -> None:
        self.reward = reward

    fingerprint = "toy"

    def cases(self, step: int, size: int) -> list[Case]:
        return [Case(("a b", "c d e")[i % 2], self.reward) for i in range(size)]

    def evaluation(self, limit: int) -> list[Case]:
        return self.cases(0, limit)


def early(text: str) -> float:
    """The share of an answer's words that are a, b or c."""
    words = text.split()
    return sum(word in "abc" for word in words) / max(1, len(words))


def recipe(
    start: Path,
    reward: Callable[[str], float] = early,
    method: Any = "full",
    policy: Any = None,
    adapter_start: Path | None = None,
    **train: Any,
) -> Recipe:
    settings = {"steps": 4, "batch_size": 2, "precision": "float32", "checkpoint_every": 2, "log_every": 1}
    usual = {"group_size": 4, "kl_weight": 0.1, "max_new_tokens": 8, "max_denoising_steps": 2}
    return reinforce_recipe(
        start,
        base="tiny",
        method=method,
        cases=Toy(reward),
        policy=PolicyConfig(**(usual | (policy or {}))),
        train=TrainConfig(**(settings | train)),
        learning_rate=train.get("learning_rate", 3e-3),
        adapter=LoraConfig(rank=4),
        adapter_start=adapter_start,
    )


def test_advantages_are_relative_to_the_group() -> None:
    found = advantages(torch.tensor([[1.0, 0.0, 0.0, 1.0], [0.1, 0.1, 0.1, 0.1], [3.0, 1.0, 1.0, 1.0]]))
    torch.testing.assert_close(found[0], torch.tensor([1.0, -1.0, -1.0, 1.0]))
    assert found[1].tolist() == [0.0] * 4, "exactly: 0.1 has no mean that equals it"
    torch.testing.assert_close(found[2], torch.tensor([3.0, -1.0, -1.0, -1.0]) / 3**0.5)


def test_a_reward_rises(start: Path, tmp_path: Path) -> None:
    policy = {"group_size": 8, "kl_weight": 0.0}
    rising = recipe(start, steps=12, learning_rate=3e-2, policy=policy, checkpoint_every=100)
    trainer.train(rising, tmp_path, device="cpu")
    rewards = [record["reward"] for record in metrics(tmp_path).values()]
    assert sum(rewards[:2]) / 2 < 0.4
    assert sum(rewards[-3:]) / 3 > 0.7


@pytest.mark.parametrize("method", ["full", "lora"])
def test_a_resumed_run_is_the_same_run(start: Path, tmp_path: Path, method: str) -> None:
    tiny = recipe(start, method=method)
    whole = trainer.train(tiny, tmp_path / "whole", device="cpu").last
    assert trainer.train(tiny, tmp_path / "parts", device="cpu", stop_at=1).reason == "stop_at"
    last = trainer.train(tiny, tmp_path / "parts", device="cpu").last
    if method == "full":
        assert same_files(whole, last)
    else:
        for name in ("adapter_model.safetensors", OPTIMIZER):
            left, right = load_file(whole / name), load_file(last / name)
            assert left.keys() == right.keys()
            assert all(torch.equal(left[key], right[key]) for key in left)
    told = [
        [{**record, "seconds": 0, "tokens_per_second": 0} for record in metrics(tmp_path / run).values()]
        for run in ("whole", "parts")
    ]
    assert told[0] == told[1]
    assert told[0][0]["kl"] == pytest.approx(0.0, abs=1e-6), "the first step is the start"
    assert told[0][3]["kl"] > 1e-6


def test_a_run_goes_on_from_an_adapter_and_diverges_from_it(start: Path, tmp_path: Path) -> None:
    rising = recipe(start, method="lora", learning_rate=3e-2)
    first = trainer.train(rising, tmp_path / "first", device="cpu").last
    assert metrics(tmp_path / "first")[4]["kl"] > 1e-4, "from the model that the adapter is for"
    going_on = recipe(start, method="lora", steps=1, adapter_start=first)
    trainer.train(going_on, tmp_path / "second", device="cpu")
    assert metrics(tmp_path / "second")[1]["kl"] == pytest.approx(0.0, abs=1e-6)


def test_micro_batches_change_nothing(start: Path, tmp_path: Path) -> None:
    for name, size in (("whole", None), ("parts", 3)):
        trainer.train(recipe(start, steps=1, micro_batch_size=size), tmp_path / name, device="cpu")
    one, other = (metrics(tmp_path / name)[1] for name in ("whole", "parts"))
    assert one["gradient_norm"] == pytest.approx(other["gradient_norm"], rel=1e-3)
    assert one["reward"] == other["reward"]


def test_the_start_holds_a_run_back(start: Path, tmp_path: Path) -> None:
    for name, weight in (("loose", 1e-6), ("tight", 30.0)):
        held = recipe(start, steps=6, learning_rate=1e-2, policy={"kl_weight": weight})
        trainer.train(held, tmp_path / name, device="cpu")
    assert metrics(tmp_path / "tight")[6]["kl"] < 0.5 * metrics(tmp_path / "loose")[6]["kl"]


def test_groups_of_one_reward_change_nothing(start: Path, tmp_path: Path) -> None:
    last = trainer.train(recipe(start, reward=lambda _: 1.0, steps=2), tmp_path, device="cpu").last
    after, before = load_file(last / "model.safetensors"), load_file(start / "model.safetensors")
    assert all(torch.equal(after[name].float(), before[name].float()) for name in before)
    record = metrics(tmp_path)[2]
    assert (record["reward"], record["right"], record["mixed"], record["gradient_norm"]) == (1.0, 1.0, 0.0, 0.0)


def test_held_out_prompts_choose_the_best_checkpoint(start: Path, tmp_path: Path) -> None:
    class Looks(TrainingCallback):
        def __init__(self) -> None:
            self.found: list[PolicyEvaluation] = []

        def evaluated(self, record: Any) -> None:
            self.found.append(record)

    looks = Looks()
    looked = recipe(start, steps=3, evaluate_every=1, evaluation_examples=4)
    outcome = trainer.train(looked, tmp_path, device="cpu", callback=looks)
    assert [look.step for look in looks.found] == [1, 2, 3]
    best = max(looks.found, key=lambda look: (look.held_out_reward, -look.step))
    assert outcome.best is not None
    assert outcome.best.name == f"step-{best.step:06d}"
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text("utf-8").splitlines()]
    assert dataclasses.asdict(best) in lines
    plot_losses(tmp_path / "metrics.jsonl", tmp_path / "loss.png")
    assert (tmp_path / "loss.png").stat().st_size > 1000


def test_what_contradicts_is_refused(start: Path, tmp_path: Path) -> None:
    trainer.train(recipe(start, steps=1), tmp_path / "run", device="cpu")
    with pytest.raises(CheckpointError, match="with other settings \\(policy"):
        trainer.train(recipe(start, steps=2, policy={"group_size": 3}), tmp_path / "run", device="cpu")
    with pytest.raises(OptionError, match="group_size must be an integer of at least 2"):
        PolicyConfig(group_size=1)
    with pytest.raises(OptionError, match="kl_weight must be a finite number"):
        PolicyConfig(kl_weight=float("inf"))


def test_every_step_has_seeds_of_its_own() -> None:
    steps = [answer_seeds(3, step, 5000) for step in range(4)]
    assert len({seed for seeds in steps for seed in seeds}) == 4 * 5000
    assert answer_seeds(4, 0, 5000)[0] > steps[3][-1]


@pytest.mark.parametrize("reward", [float("inf"), float("nan"), 1e300])
def test_a_reward_that_is_no_number_of_32_bits_is_refused(start: Path, tmp_path: Path, reward: float) -> None:
    with pytest.raises(OptionError, match="a reward must be a finite number of 32 bits"):
        trainer.train(recipe(start, reward=lambda _: reward, steps=1), tmp_path, device="cpu")


def test_a_checkpoint_of_token_by_token_answers_is_reinforced_on_canvases(start: Path, tmp_path: Path) -> None:
    policy = {"max_denoising_steps": 3}
    usual = recipe(start, steps=2, evaluate_every=1, evaluation_examples=2, policy=policy)
    by_token = dataclasses.replace(usual, generation=usual.generation.override(mode="ar"))
    for name, run in (("canvas", usual), ("ar", by_token)):
        trainer.train(run, tmp_path / name, device="cpu")
    one, other = (
        [
            {**json.loads(line), "seconds": 0, "tokens_per_second": 0}
            for line in (tmp_path / name / "metrics.jsonl").read_text("utf-8").splitlines()
        ]
        for name in ("canvas", "ar")
    )
    assert one == other
