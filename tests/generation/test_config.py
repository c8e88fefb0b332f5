"""`GenerationConfig` as a value: hashable, frozen to the bottom, and its strategies' options by their plain names."""

import copy
import dataclasses
import pickle
from typing import Any

import pytest

from gesso.diffusion.samplers import SAMPLERS
from gesso.errors import OptionError
from gesso.generation import (
    LARGEST_BIAS,
    PENALTIES,
    GenerationConfig,
    RequestOptions,
    engine_options,
    generation_options,
    mode_of,
    split_options,
)
from gesso.generation.bounds import MOST_STEPS

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"a": {"enum": [1, "b", [2]]}}}


def test_equal_configs_have_equal_hashes() -> None:
    one = GenerationConfig(logit_bias={5: 1.0, 3: -2.0}, json_schema=SCHEMA, entropy_bound=0.3)
    other = GenerationConfig(logit_bias={3: -2, 5: 1}, json_schema=copy.deepcopy(SCHEMA), entropy_bound=0.3)
    assert one == other
    assert hash(one) == hash(other)
    assert len({one, other, GenerationConfig()}) == 2
    tools = [{"type": "function", "function": {"name": "f", "parameters": SCHEMA}}]
    assert hash(RequestOptions(tools=tools)) == hash(RequestOptions(tools=tuple(tools)))  # type: ignore[arg-type]


def test_what_a_config_holds_cannot_be_changed() -> None:
    given = copy.deepcopy(SCHEMA)
    config = GenerationConfig(logit_bias={5: 1.0}, json_schema=given)
    before = hash(config)
    given["properties"]["a"]["enum"].append(3)
    assert config.json_schema == SCHEMA
    with pytest.raises(TypeError, match="frozen"):
        config.json_schema["properties"]["a"]["enum"].append(3)  # type: ignore[index]
    with pytest.raises(TypeError, match="frozen"):
        config.json_schema["properties"]["b"] = {}  # type: ignore[index]
    with pytest.raises(TypeError, match="frozen"):
        config.logit_bias[5] = 2.0  # type: ignore[index]
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.seed = 3  # type: ignore[misc]
    assert hash(config) == before


def test_it_survives_pickle_copy_and_replace() -> None:
    config = GenerationConfig(logit_bias={5: 1.0}, json_schema=SCHEMA, t_min=0.2, verify="auto")
    for same in (pickle.loads(pickle.dumps(config)), copy.deepcopy(config), dataclasses.replace(config)):
        assert same == config
    assert dataclasses.replace(config, t_min=0.3).t_min == 0.3


def test_options_of_strategies_are_read_and_set_by_their_plain_names() -> None:
    config = GenerationConfig(entropy_bound=0.2, t_max=0.9, stability_threshold=3)
    assert (config.entropy_bound, config.t_max, config.stability_threshold) == (0.2, 0.9, 3)
    assert (config.sampler, config.sampler_options.entropy_bound) == (SAMPLERS.default, 0.2)  # type: ignore[attr-defined]
    changed = config.override(t_min=0.1)
    assert (changed.t_min, changed.t_max, changed.entropy_bound) == (0.1, 0.9, 0.2)
    assert config.override(sampler="entropy_bound") == config
    assert GenerationConfig(sampler_options={"entropy_bound": 0.2}) == GenerationConfig(entropy_bound=0.2)
    with pytest.raises(AttributeError, match="no option 'quota'"):
        config.quota  # noqa: B018
    with pytest.raises(OptionError, match="sampler_options must be options of the sampler entropy_bound"):
        GenerationConfig(sampler_options=5)


@pytest.mark.parametrize("make", [GenerationConfig, GenerationConfig().override])
def test_an_unknown_option_is_refused_by_name(make: Any) -> None:
    with pytest.raises(OptionError, match="unknown option 'quota'; known: canvas, ") as refusal:
        make(quota=1)
    assert refusal.value.option == "quota"


@pytest.mark.parametrize("bias", [LARGEST_BIAS, -LARGEST_BIAS])
def test_a_logit_bias_has_one_bound(bias: float) -> None:
    assert GenerationConfig(logit_bias={5: bias}).logit_bias == {5: bias}
    with pytest.raises(OptionError, match=r"logit_bias of token 5 must be at most 1e\+06 in size") as refusal:
        GenerationConfig(logit_bias={5: 10 * bias})
    assert refusal.value.option == "logit_bias"


def test_a_schema_nested_too_deeply_is_refused() -> None:
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"not": deep}
    with pytest.raises(OptionError, match="json_schema is nested too deeply"):
        GenerationConfig(json_schema=deep)


def test_none_leaves_every_option_at_its_default() -> None:
    request, changes = split_options(dict.fromkeys(engine_options()))
    assert request == RequestOptions()
    assert changes == {}
    assert (
        GenerationConfig().override(
            **dict.fromkeys(engine_options().keys() - {f.name for f in dataclasses.fields(RequestOptions)})
        )
        == GenerationConfig()
    )


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"raw": 1}, "raw"),
        ({"thinking": "yes"}, "thinking"),
        ({"begin": 5}, "begin"),
        ({"prediction": b"x"}, "prediction"),
        ({"tools": "x"}, "tools"),
        ({"tools": [5]}, "tools"),
        ({"tool_choice": "some"}, "tool_choice"),
        ({"parallel_tool_calls": 1}, "parallel_tool_calls"),
        ({"quota": 1}, "quota"),
    ],
)
def test_request_options_are_refused_by_name(options: dict[str, Any], name: str) -> None:
    with pytest.raises(OptionError, match=name) as refusal:
        split_options(options)
    assert refusal.value.option == name


@pytest.mark.parametrize(
    "given", [{"canvas": (None, 5)}, {"guidance_scale": 2.0}, {"verify": 1}, {"probe": ((5,), (6,))}]
)
def test_a_checkpoints_mode_ar_gives_way_to_what_asks_for_a_canvas(given: dict[str, Any]) -> None:
    defaults = GenerationConfig(mode="ar")
    assert defaults.override(**given).mode == "canvas"
    assert defaults.override(seed=3).mode == "ar"
    with pytest.raises(OptionError):
        defaults.override(mode="ar", **given)


@pytest.mark.parametrize(
    ("chosen", "option", "value"),
    [
        ({"sampler": "maskgit"}, "noise_degree", 3.0),
        ({"sampler": "maskgit", "order": "random"}, "order_temperature", 1.0),
        ({"sampler": "planner"}, "entropy_bound", 5.0),
        ({"sampler": "low_confidence", "remasking_strategy": "sequential"}, "threshold", 0.1),
        ({"sampler": "low_confidence", "remasking_strategy": "static"}, "threshold", 0.1),
        ({"sampler": "remdm", "remasking_schedule": "none"}, "remasking", 0.5),
        ({"sampler": "leave_one_out", "corrector_order": "random"}, "corrector_temperature", 0.5),
    ],
)
def test_an_option_that_means_nothing_beside_another_is_refused(chosen: Any, option: str, value: float) -> None:
    with pytest.raises(OptionError, match=f"{option} means nothing with") as caught:
        GenerationConfig().override(**chosen, **{option: value})
    assert caught.value.option == option
    usual = getattr(GenerationConfig(**chosen), option)
    assert GenerationConfig(**chosen, **{option: usual}) == GenerationConfig(**chosen), "its default changes nothing"
    # A checkpoint may hold it, and requests may choose what it means nothing to.
    sampler = chosen["sampler"]
    written = GenerationConfig(sampler=sampler, sampler_options={**dict(list(chosen.items())[1:]), option: value})
    assert getattr(written.override(seed=3), option) == value
    assert written.override(**{option: value}) == written


def test_what_a_checkpoint_sets_gives_no_error_where_a_request_chooses_otherwise() -> None:
    degree = GenerationConfig(sampler="maskgit", noise_schedule="polynomial", noise_degree=3.0)
    assert degree.override(noise_schedule="cosine").noise_degree == 3.0
    assert degree.override(noise_schedule="cosine", noise_degree=3.0).noise_schedule == "cosine"
    with pytest.raises(OptionError, match="noise_degree means nothing with noise_schedule cosine"):
        degree.override(noise_schedule="cosine", noise_degree=4.0)


@pytest.mark.parametrize("verify", [2, "exact"])
@pytest.mark.parametrize("given", [{"mode": "ar"}, {"guidance_scale": 2.0}])
def test_a_checkpoints_verify_gives_way_to_what_has_none(verify: int | str, given: dict[str, Any]) -> None:
    defaults = GenerationConfig(verify=verify)
    assert defaults.override(**given).verify == 0
    assert defaults.override(seed=3).verify == verify
    if verify != "exact" or "mode" not in given:
        with pytest.raises(OptionError):
            defaults.override(verify=verify, **given)


def test_a_number_beside_a_bias_stays() -> None:
    assert GenerationConfig(verify=2).override(logit_bias={5: 1.0}).verify == 2
    assert GenerationConfig(verify="exact").override(logit_bias={5: 1.0}).verify == 0


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"max_denoising_steps": MOST_STEPS + 1}, "max_denoising_steps"),
        ({"max_denoising_steps": 10**400}, "max_denoising_steps"),
        ({"entropy_bound": 10**400}, "entropy_bound"),
        ({"t_max": 10**400}, "t_max"),
        ({"stopping": "deadline", "canvas_seconds": 10**400}, "canvas_seconds"),
    ],
)
def test_numbers_that_nothing_can_hold_are_refused(options: dict[str, Any], name: str) -> None:
    with pytest.raises(OptionError, match=name) as refusal:
        GenerationConfig(**options)
    assert refusal.value.option == name


def test_a_mode_gives_way_to_what_needs_a_canvas_alone() -> None:
    own = GenerationConfig(mode="ar")
    assert mode_of(own, {}) == mode_of(own, {"seed": 3, "guidance_scale": None, "canvas": None}) == "ar"
    assert mode_of(own, {"guidance_scale": 2.0}) == mode_of(own, {"verify": 1}) == "canvas"
    assert mode_of(own, {"mode": "ar", "verify": 1}) == "ar"
    assert mode_of(GenerationConfig(), {"mode": None}) == mode_of(GenerationConfig(), {"verify": 1}) == "canvas"
    assert own.override(canvas=(None, 5), sampler="margin", restart_steps=4).mode == "canvas"


def test_neutral_penalties_are_the_defaults() -> None:
    rows = generation_options()
    assert {name: rows[name].default for name in PENALTIES} == PENALTIES
    assert GenerationConfig().penalties.neutral
    assert not GenerationConfig(repetition_penalty=1.1).penalties.neutral
