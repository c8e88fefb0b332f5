"""`config.json` and `generation_config.json`: both ways, and nothing in them is passed over in silence."""

import contextlib
import copy
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import SHAPES, Pair, Shape, random_model, variant

from gesso.config import LayerConfig, ModelConfig, RopeConfig
from gesso.errors import CheckpointError, ConfigError, OptionError, UserError
from gesso.generation import GenerationConfig
from gesso.models.hf_config import read_config, write_config
from gesso.models.hf_generation_config import read_generation_config, write_generation_config
from gesso.models.loading import read_generation_defaults
from gesso.models.saving import save_folder

Make = Callable[[str], Pair]
PLAIN = SHAPES["plain"].config()
RAW = write_config(PLAIN, "float32")


@st.composite
def configs(draw: st.DrawFn) -> ModelConfig:
    def kv(heads: int) -> int:
        return draw(st.sampled_from([n for n in range(1, heads + 1) if heads % n == 0]))

    heads = draw(st.integers(1, 12))
    experts = draw(st.integers(1, 20))
    size = st.integers(1, 300)
    sliding = LayerConfig("sliding_attention", 2 * draw(st.integers(1, 20)), kv(heads))
    full = LayerConfig("full_attention", 2 * draw(st.integers(1, 20)), kv(heads))
    kinds = draw(st.lists(st.booleans(), max_size=7))
    return ModelConfig(
        vocab_size=draw(size),
        hidden_size=draw(size),
        intermediate_size=draw(size),
        num_attention_heads=heads,
        layers=(*(sliding if kind else full for kind in kinds), full),
        num_experts=experts,
        top_k_experts=draw(st.integers(1, experts)),
        moe_intermediate_size=draw(size),
        sliding_window=draw(size),
        sliding_rope=RopeConfig("default", draw(st.floats(1.0, 1e7))),
        full_rope=draw(
            st.builds(
                RopeConfig,
                st.just("proportional"),
                st.floats(1.0, 1e7),
                st.sampled_from([0.25, 0.5, 1.0]),
                st.sampled_from([1.0, 8.0]),
            )
            | st.builds(RopeConfig, st.just("default"), st.floats(1.0, 1e7))
        ),
        canvas_length=draw(size),
        max_position_embeddings=draw(size),
        final_logit_softcapping=draw(st.floats(0.5, 100.0)),
        rms_norm_eps=draw(st.sampled_from([1e-6, 1e-5])),
        attention_bias=draw(st.booleans()),
        pad_token_id=draw(st.integers(0, 9)),
        eos_token_id=draw(st.integers(0, 9)),
        bos_token_id=draw(st.integers(0, 9)),
        image_token_ids=draw(st.sampled_from([(), (7, 8, 9)])),
    )


@given(configs())
def test_what_is_written_is_read_back(config: ModelConfig) -> None:
    raw = json.loads(json.dumps(write_config(config, "bfloat16")))
    sliding = replace(config, sliding_rope=RopeConfig("default", config.sliding_rope.rope_theta))
    assert read_config(raw) == sliding == config


@pytest.mark.parametrize("name", SHAPES)
def test_what_transformers_writes_is_read(pair: Make, name: str) -> None:
    shape, folder, _, _ = pair(name)
    raw = json.loads((folder / "config.json").read_text("utf-8"))
    config = read_config(raw)
    assert config.vision_config == raw["vision_config"]
    expected = replace(shape.config(), vision_config=raw["vision_config"], max_position_embeddings=131_072)
    assert config == expected


@pytest.mark.parametrize("name", SHAPES)
def test_what_is_written_transformers_reads(name: str) -> None:
    from transformers import DiffusionGemmaConfig

    config = SHAPES[name].config()
    theirs = DiffusionGemmaConfig.from_dict(write_config(config, "bfloat16"))
    text = theirs.text_config
    for layer, view in zip(config.layers, text.per_layer_config, strict=True):
        assert (view.head_dim, view.num_key_value_heads) == (layer.head_dim, layer.num_key_value_heads)
    assert text.layer_types == [layer.kind for layer in config.layers]
    assert theirs.canvas_length == config.canvas_length
    assert (theirs.boi_token_id, theirs.image_token_id, theirs.eoi_token_id) == config.image_token_ids
    for key in ("vocab_size", "hidden_size", "sliding_window", "num_experts", "top_k_experts", "attention_bias"):
        assert getattr(text, key) == getattr(config, key), key
    full = text.rope_parameters["full_attention"]
    assert full["rope_type"] == "proportional"
    assert full["partial_rotary_factor"] == config.full_rope.partial_rotary_factor


def test_absent_keys_mean_what_they_mean_to_transformers() -> None:
    from transformers import DiffusionGemmaTextConfig

    sizes = ("vocab_size", "hidden_size", "intermediate_size", "num_attention_heads", "num_hidden_layers")
    experts = {"num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 8}
    theirs = DiffusionGemmaTextConfig(num_hidden_layers=7, **experts)
    text = {**{name: getattr(theirs, name) for name in sizes}, **experts}
    config = read_config({"model_type": "diffusion_gemma", "text_config": text})
    forced = list(theirs.layer_types)
    assert [layer.kind for layer in config.layers] == forced
    for layer, view in zip(config.layers, theirs.per_layer_config, strict=True):
        assert (layer.head_dim, layer.num_key_value_heads) == (view.head_dim, view.num_key_value_heads)
    assert config.sliding_window == theirs.sliding_window
    assert config.max_position_embeddings == theirs.max_position_embeddings
    assert config.sliding_rope == RopeConfig("default", 10_000.0)
    assert config.full_rope == RopeConfig("proportional", 1_000_000.0, 0.25)
    assert config.final_logit_softcapping == theirs.final_logit_softcapping
    assert (config.pad_token_id, config.eos_token_id, config.bos_token_id) == (0, 1, 2)
    assert config.canvas_length == 256


def test_the_published_shape_is_read() -> None:
    """The sizes of the released 26B checkpoint, in the older dialect."""
    text = {
        "model_type": "diffusion_gemma_text",
        "vocab_size": 262_144,
        "hidden_size": 2816,
        "intermediate_size": 2112,
        "num_hidden_layers": 30,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 256,
        "global_head_dim": 512,
        "num_global_key_value_heads": 2,
        "sliding_window": 1024,
        "num_experts": 128,
        "top_k_experts": 8,
        "moe_intermediate_size": 704,
        "layer_types": (["sliding_attention"] * 5 + ["full_attention"]) * 5,
        "eos_token_id": [1, 106, 50],
        "use_bidirectional_attention": "vision",
        "enable_moe_block": True,
        "attention_k_eq_v": True,
    }
    config = read_config({"model_type": "diffusion_gemma", "canvas_length": 256, "text_config": text})
    assert [i for i, layer in enumerate(config.layers) if not layer.is_sliding] == [5, 11, 17, 23, 29]
    assert config.layers[0] == LayerConfig("sliding_attention", 256, 8)
    assert config.layers[5] == LayerConfig("full_attention", 512, 2)
    assert config.eos_token_id == 1


# Junk -----------------------------------------------------------------------------------------------------------

GENERIC = {"architectures", "dtype", "tie_word_embeddings", "initializer_range", "vision_config"}


def leaves(raw: dict[str, Any], path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = []
    for key, value in raw.items():
        found.append((*path, key))
        if isinstance(value, dict) and key != "vision_config":
            found += leaves(value, (*path, key))
    return found


def put(raw: dict[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    changed = copy.deepcopy(raw)
    place = changed
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return changed


def _at(raw: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        raw = raw[key]
    return raw


JUNK = ("x", "12", [], ["x"], {}, {"x": 1}, True, -1, 0, 0.5, 1e300, float("nan"), float("inf"), None, 10**30)


@pytest.mark.parametrize("path", leaves(RAW), ids=".".join)
def test_a_value_that_makes_no_sense_is_the_users_error(path: tuple[str, ...]) -> None:
    for junk in JUNK:
        with contextlib.suppress(ConfigError, CheckpointError):
            read_config(put(RAW, path, junk))


@pytest.mark.parametrize("junk", ["x", [], {}])
@pytest.mark.parametrize("path", [p for p in leaves(RAW) if not GENERIC & set(p)], ids=".".join)
def test_a_value_of_another_kind_is_refused(path: tuple[str, ...], junk: Any) -> None:
    if path[-1] in ("attention_dropout", "model_type") and len(path) > 1:
        return  # changes nothing that is computed
    if junk == {} and isinstance(_at(RAW, path), dict) and len(path) > 1:
        return  # all defaults
    if junk == [] and path[-1] in ("pad_token_id", "bos_token_id", "eos_token_id"):
        return  # none
    with pytest.raises((ConfigError, CheckpointError)):
        read_config(put(RAW, path, junk))


@settings(max_examples=200)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-5, 300) | st.text(max_size=4),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(sorted(RAW)), inner, max_size=4),
        max_leaves=12,
    )
)
def test_any_json_object_is_read_or_refused(value: Any) -> None:
    raw = {"model_type": "diffusion_gemma"} | (value if isinstance(value, dict) else {"text_config": value})
    with pytest.raises((ConfigError, CheckpointError)):
        read_config(raw)


@pytest.mark.parametrize("raw", [{}, {"quantization_config": "fp8"}, {"quantization_config": ["fp8"]}])
def test_quantization_written_oddly_is_still_seen(raw: dict[str, Any]) -> None:
    if raw:
        with pytest.raises(CheckpointError, match="quantized"):
            read_config(RAW | raw)
    else:
        assert read_config(RAW) == PLAIN


# Generation -----------------------------------------------------------------------------------------------------


def test_the_published_generation_config_is_read() -> None:
    raw = {
        "_from_model_config": True,
        "bos_token_id": 2,
        "cache_implementation": "static",
        "confidence_threshold": 0.005,
        "eos_token_id": [1, 106, 50],
        "max_denoising_steps": 48,
        "max_new_tokens": 256,
        "pad_token_id": 0,
        "sampler_config": {"_cls_name": "EntropyBoundSamplerConfig", "entropy_bound": 0.1},
        "stability_threshold": 1,
        "t_max": 0.8,
        "t_min": 0.4,
        "transformers_version": "5.12.0",
    }
    assert read_generation_config(raw, PLAIN) == GenerationConfig(eos_token_ids=(1, 106, 50))


def test_nulls_are_the_defaults(pair: Make) -> None:
    _, folder, _, model = pair("plain")
    raw = json.loads((folder / "generation_config.json").read_text("utf-8"))
    assert None in raw.values(), "the reference writes nulls"
    assert read_generation_config(raw, model.config) == GenerationConfig()
    names = ("max_new_tokens", "max_denoising_steps", "t_min", "t_max", "sampler_config", "eos_token_id")
    assert read_generation_config(dict.fromkeys(names), PLAIN) == GenerationConfig()


def test_the_model_s_own_tokens_are_the_default() -> None:
    config = replace(PLAIN, eos_token_id=7, pad_token_id=3)
    generation = read_generation_config({}, config)
    assert (generation.eos_token_ids, generation.pad_token_id) == ((7,), 3)
    assert read_generation_config({"eos_token_id": 5}, config).eos_token_ids == (5,)


@given(
    st.builds(
        GenerationConfig,
        max_new_tokens=st.integers(1, 9999),
        max_denoising_steps=st.integers(1, 99),
        entropy_bound=st.floats(0, 10),
        t_min=st.floats(0.01, 0.5),
        t_max=st.floats(0.5, 2.0),
        stability_threshold=st.integers(0, 9),
        confidence_threshold=st.floats(0, 1),
        eos_token_ids=st.lists(st.integers(0, 99), min_size=1, max_size=4).map(tuple),
        pad_token_id=st.integers(0, 99),
    )
)
def test_generation_is_read_back(generation: GenerationConfig) -> None:
    raw = json.loads(json.dumps(write_generation_config(generation, PLAIN)))
    assert read_generation_config(raw, PLAIN) == generation


def test_what_left_to_right_sampling_has_is_left_aside_as_the_reference_does() -> None:
    raw = {"repetition_penalty": 1.2, "min_new_tokens": 3, "temperature": 0.5, "top_k": 5}
    assert read_generation_config(raw, PLAIN) == read_generation_config({}, PLAIN)


def test_transformers_reads_the_generation_config() -> None:
    from transformers.models.diffusion_gemma.generation_diffusion_gemma import DiffusionGemmaGenerationConfig

    generation = GenerationConfig(entropy_bound=0.25, max_denoising_steps=9)
    theirs = DiffusionGemmaGenerationConfig.from_dict(write_generation_config(generation, PLAIN))
    assert theirs.max_denoising_steps == 9
    assert theirs.sampler_config.entropy_bound == 0.25
    assert (theirs.t_min, theirs.t_max) == (generation.t_min, generation.t_max)


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        ({"num_beams": 4}, "'num_beams'"),
        ({"schedule": "cosine"}, "'schedule'"),
        ({"sampler_config": {"_cls_name": "GreedySamplerConfig"}}, "'GreedySamplerConfig'"),
        ({"sampler_config": {"_cls_name": "EntropyBoundSamplerConfig", "eta": 1}}, "'eta'"),
        ({"sampler_config": {"_cls_name": None}}, "None"),
        ({"sampler_config": {"_cls_name": []}}, "unknown sampler []"),
        ({"sampler_config": "EntropyBoundSamplerConfig"}, "sampler_config"),
        ({"sampler_config": {"entropy_bound": "low"}}, "entropy_bound"),
        ({"max_denoising_steps": 0}, "max_denoising_steps"),
        ({"max_denoising_steps": 4.5}, "max_denoising_steps"),
        ({"t_min": -1.0}, "t_min"),
        ({"t_min": 0.9, "t_max": 0.1}, "t_max"),
        ({"t_max": "hot"}, "t_max"),
        ({"eos_token_id": "<eos>"}, "eos_token_id"),
        ({"eos_token_id": [1, "x"]}, "eos_token_id"),
        ({"pad_token_id": "x"}, "pad_token_id"),
        ({"pad_token_id": [0]}, "pad_token_id"),
        ({"stability_threshold": True}, "stability_threshold"),
        ({"confidence_threshold": {}}, "confidence_threshold"),
    ],
)
def test_generation_settings_that_are_not_understood_are_refused(raw: dict[str, Any], name: str) -> None:
    with pytest.raises(UserError) as error:
        read_generation_config(raw, PLAIN)
    assert name in str(error.value)


def test_layers_of_one_kind_may_differ_in_heads_only() -> None:
    odd = LayerConfig("sliding_attention", 8, 4)
    config = replace(PLAIN, layers=(PLAIN.layers[0], PLAIN.layers[1], odd, PLAIN.layers[3]))
    assert read_config(write_config(config, "float32")) == config
    wide = LayerConfig("sliding_attention", 16, 2)
    config = replace(PLAIN, layers=(PLAIN.layers[0], PLAIN.layers[1], wide, PLAIN.layers[3]))
    with pytest.raises(ConfigError, match="differ in head_dim"):
        read_config(write_config(config, "float32"))


def test_variant_changes_only_what_is_named() -> None:
    assert variant(SHAPES["plain"], window=3).config() == replace(PLAIN, sliding_window=3)


def test_our_own_defaults_stand_in_a_file_beside_the_published_one(tmp_path: Path) -> None:
    model = random_model(Shape())
    ours = GenerationConfig(verify="auto", t_max=0.7)
    save_folder(model, tmp_path, generation=ours)
    assert json.loads((tmp_path / "gesso.json").read_text("utf-8")) == {"verify": "auto"}
    assert "verify" not in (tmp_path / "generation_config.json").read_text("utf-8"), "transformers would refuse it"
    assert read_generation_defaults(tmp_path, model.config).verify == "auto"
    save_folder(model, tmp_path, generation=GenerationConfig())
    assert not (tmp_path / "gesso.json").exists()
    (tmp_path / "gesso.json").write_text('{"seed": 3}', encoding="utf-8")
    with pytest.raises(ConfigError, match=r"gesso\.json: unknown key 'seed'"):
        read_generation_defaults(tmp_path, model.config)
    (tmp_path / "gesso.json").write_text('{"verify": "never"}', encoding="utf-8")
    with pytest.raises(OptionError, match="verify must be auto, exact or a number"):
        read_generation_defaults(tmp_path, model.config)


def test_the_keys_that_the_published_config_has_beside_the_shape_are_taken() -> None:
    """Gemma 4's configs name tokens of audio and video too, and how many soft tokens an image takes at most."""
    vision = {"vision_config": {"model_type": "gemma4_vision"}}
    unread = {"video_token_id": 9, "audio_token_id": 8, "boa_token_id": 7, "eoa_token_id": 6, "eoa_token_index": 6}
    config = read_config({**RAW, **vision, **unread, "vision_soft_tokens_per_image": 70, "eos_token_id": [1, 106, 50]})
    assert config == replace(PLAIN, **vision, image_budget=70)
    assert read_config({**RAW, **vision}).image_budget == 280
    assert read_config(json.loads(json.dumps(write_config(config, "float32")))) == config
    with pytest.raises(ConfigError, match="image_budget"):
        read_config({**RAW, "vision_soft_tokens_per_image": "many"})
