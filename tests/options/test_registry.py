"""Registries of strategies, with one of the test's own."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from gesso.diffusion.prediction import Prediction
from gesso.diffusion.samplers import SAMPLERS, Sampler, draw_noise
from gesso.diffusion.step import CanvasInfo, StepInfo
from gesso.errors import OptionError
from gesso.generation import GenerationConfig, generation_options
from gesso.options import option


@pytest.fixture
def quota() -> Iterator[None]:
    @SAMPLERS.register("quota")
    @dataclass(frozen=True)
    class Quota(Sampler):
        quota: int = option(4, "Positions that a step accepts.", minimum=1, unit="positions")
        entropy_bound: float = option(0.7, "Joint uncertainty that a step may accept.", minimum=0, unit="nats")

        def start(self, canvas: CanvasInfo, rng: torch.Generator) -> tuple[Tensor, None]:
            return draw_noise(canvas, rng), None

        def step(
            self, info: StepInfo, canvas_C: Tensor, prediction: Prediction, state: Any, rng: torch.Generator
        ) -> tuple[Tensor, Tensor, None]:
            return prediction.sample_C, torch.arange(info.width) < self.quota, None

    yield
    SAMPLERS.unregister("quota")


def test_the_default_comes_first_and_is_the_published_one() -> None:
    assert SAMPLERS.names[0] == SAMPLERS.default == "entropy_bound"
    assert GenerationConfig().sampler == "entropy_bound"


@pytest.mark.usefixtures("quota")
def test_a_strategys_options_go_with_it_alone() -> None:
    config = GenerationConfig(sampler="quota", quota=9)
    assert (config.quota, config.entropy_bound) == (9, 0.7)
    assert GenerationConfig(entropy_bound=0.3).override(sampler="quota").entropy_bound == 0.7, "its own default"
    with pytest.raises(
        OptionError, match="quota is no option of the sampler entropy_bound; it belongs to sampler quota"
    ):
        GenerationConfig(quota=9)
    with pytest.raises(OptionError, match="quota must be an integer of at least 1, got 0") as refusal:
        GenerationConfig(sampler="quota", quota=0)
    assert refusal.value.option == "quota"
    assert generation_options()["quota"].owner == "sampler quota"
    shared = generation_options()["entropy_bound"]
    assert shared.owner == "sampler entropy_bound, planner, quota"
    assert shared.shown_default == "0.1; quota: 0.7"


def test_a_strategy_is_forgotten_again() -> None:
    assert "quota" not in generation_options()
    with pytest.raises(OptionError, match=r"sampler must be one of entropy_bound, .*, got 'quota'"):
        GenerationConfig(sampler="quota")


@pytest.mark.usefixtures("quota")
def test_declarations_that_contradict_are_a_fault() -> None:
    @dataclass(frozen=True)
    class Other(Sampler):
        quota: int = option(4, "Another thing.", minimum=0)

    with pytest.raises(TypeError, match="there is another of this name"):
        SAMPLERS.register("quota")(Other)
    with pytest.raises(TypeError, match="another default"):
        SAMPLERS.register("third", default=True)(Other)
    with pytest.raises(TypeError, match="quota declares quota with another kind"):
        SAMPLERS.register("other")(Other)


def test_a_strategy_takes_the_place_of_itself_and_of_no_other() -> None:
    def define(first: int) -> type:
        @SAMPLERS.register("again")
        @dataclass(frozen=True)
        class Again(Sampler):
            first: int = option(1, "Positions that the first step accepts.", minimum=1)

        return Again

    try:
        define(1)
        last = define(2)
        assert SAMPLERS.get("again") is last, "a cell of a notebook is run again"
        with pytest.raises(TypeError, match="sampler again: there is another of this name"):
            SAMPLERS.register("again")(dataclass(frozen=True)(type("Other", (Sampler,), {})))
    finally:
        SAMPLERS.unregister("again")
    with pytest.raises(TypeError, match="sampler maskgit: there is another of this name"):
        SAMPLERS.register("maskgit")(dataclass(frozen=True)(type("Other", (Sampler,), {})))


@pytest.mark.parametrize("strategy", [type("Plain", (Sampler,), {}), dataclass(frozen=True)(type("Own", (), {}))])
def test_what_is_no_strategy_is_refused(strategy: type) -> None:
    with pytest.raises(TypeError, match="must subclass a strategy and be a frozen dataclass"):
        SAMPLERS.register("no_strategy")(strategy)
    assert "no_strategy" not in SAMPLERS.names


def test_a_strategy_has_no_option_of_another_role_or_of_a_request() -> None:
    for taken in ("seed", "t_min"):
        fields = {"__annotations__": {taken: int}, taken: option(1, "Positions.")}
        with pytest.raises(TypeError, match=f"sampler own: another option is called {taken}, which is no sampler's"):
            SAMPLERS.register("own")(dataclass(frozen=True)(type("Own", (Sampler,), fields)))
    assert "own" not in SAMPLERS.names
    assert GenerationConfig(seed=3).seed == 3


def test_an_option_that_is_renamed_is_known_by_its_new_name_alone() -> None:
    def define(name: str) -> None:
        fields = {"__annotations__": {name: int}, name: option(1, "Positions.", minimum=0)}
        SAMPLERS.register("renamed")(dataclass(frozen=True)(type("Renamed", (Sampler,), fields)))

    try:
        define("opening")
        assert GenerationConfig(sampler="renamed", opening=2).opening == 2
        define("beginning")
        assert GenerationConfig(sampler="renamed", beginning=2).beginning == 2
        with pytest.raises(OptionError, match="unknown option 'opening'"):
            GenerationConfig(sampler="renamed", opening=2)
    finally:
        SAMPLERS.unregister("renamed")


def test_an_option_may_be_shared_in_other_words() -> None:
    fields = {"__annotations__": {"threshold": float}, "threshold": option(0.3, "Share.", minimum=0, maximum=1)}
    try:
        SAMPLERS.register("sharing")(dataclass(frozen=True)(type("Sharing", (Sampler,), fields)))
        assert GenerationConfig(sampler="sharing").threshold == 0.3
    finally:
        SAMPLERS.unregister("sharing")
