"""A model of masked blocks through the same engine: decoded as diffusers decodes it, with every sampler that fits."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from sdar_oracle import SdarReference, make_sdar_folder

from gesso import load
from gesso.control.job import run_job
from gesso.control.search import search
from gesso.diffusion.samplers import SAMPLERS
from gesso.diffusion.stopping import STOPPING_RULES
from gesso.engine.engine import Engine, Request
from gesso.errors import GessoError, OptionError
from gesso.models.cache import KVCache

FIT = [name for name in SAMPLERS.names if SAMPLERS.get(name).fits_masks]
WHOLE: dict[str, Any] = {"ignore_eos": True, "seed": 0}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_sdar_folder(tmp_path_factory.mktemp("sdar"), block=8, seed=1)


@pytest.fixture(scope="module")
def engine(folder: Path) -> Engine:
    return load(folder, "cpu")


def prompt(engine: Engine, count: int) -> list[int]:
    drawn = torch.randint(8, engine.config.vocab_size - 3, (count,), generator=torch.Generator().manual_seed(count))
    return drawn.tolist()


@pytest.mark.parametrize(("length", "steps", "threshold"), [(16, 8, 1.0), (13, 8, 0.5), (13, 3, 0.3), (3, 4, 0.9)])
def test_greedy_decoding_equals_diffusers(
    folder: Path, engine: Engine, length: int, steps: int, threshold: float
) -> None:
    ids, count = prompt(engine, length), 32 - length
    theirs = SdarReference(folder).generate(ids, count, steps=steps, threshold=threshold)
    ours = engine.generate(
        ids, max_new_tokens=count, max_denoising_steps=steps, threshold=threshold, temperature=0, **WHOLE
    )
    assert list(ours.token_ids) == theirs
    assert max(ours.denoising_steps) <= steps


def test_a_long_prompt_is_read_in_pieces_and_its_prefix_serves_another(folder: Path, engine: Engine) -> None:
    ids, settings = prompt(engine, 301), {"max_new_tokens": 19, "temperature": 0, "threshold": 0.5, **WHOLE}
    theirs = SdarReference(folder).generate(ids, 19, steps=8, threshold=0.5)
    assert list(engine.generate(ids, **settings).token_ids) == theirs


@pytest.mark.parametrize("sampler", FIT)
def test_every_sampler_that_fits_fills_every_mask(engine: Engine, sampler: str) -> None:
    mask = engine.config.mask_token_id
    settings: dict[str, Any] = {"sampler": sampler, "max_new_tokens": 13, "max_denoising_steps": 5, **WHOLE}
    prompts = [prompt(engine, 5), prompt(engine, 8)]
    alone = [engine.generate(ids, **settings) for ids in prompts]
    for result in alone:
        assert len(result.token_ids) == 13
        assert mask not in result.token_ids
        assert max(result.denoising_steps) <= 5
    together = engine.generate_batch([Request(ids, settings) for ids in prompts])
    assert [result.token_ids for result in together] == [result.token_ids for result in alone]
    hot = [engine.generate(prompts[0], **{**settings, "seed": seed, "temperature": 2.0}) for seed in (1, 2)]
    if sampler != "margin":  # which commits first choices
        assert hot[0].token_ids != hot[1].token_ids


@pytest.mark.parametrize("sampler", [name for name in FIT if not SAMPLERS.get(name).remasks])
def test_what_is_decoded_stays(engine: Engine, sampler: str) -> None:
    mask, before = engine.config.mask_token_id, ()
    settings: dict[str, Any] = {"sampler": sampler, "max_denoising_steps": 6, **WHOLE}
    for event in engine.stream(prompt(engine, 8), max_new_tokens=8, frames=True, **settings):
        if not hasattr(event, "canvas_tokens"):
            continue
        if event.step > 1:
            assert all(now == was for now, was in zip(event.canvas_tokens, before, strict=True) if was != mask)
        before = event.canvas_tokens
        assert [now for now in event.canvas_tokens if now != mask] == [
            said for now, said in zip(event.canvas_tokens, event.tokens, strict=True) if now != mask
        ]
        assert mask not in event.tokens


def test_remdm_takes_back_and_pins_stay(engine: Engine) -> None:
    mask, taken_back = engine.config.mask_token_id, 0
    settings = {"sampler": "remdm", "remasking_schedule": "rescaled", "remasking": 0.9, "max_denoising_steps": 8}
    pins = [None, 9, None, 11, None, None, None, None, None, None, 12]
    for seed in range(3):
        before: tuple[int, ...] = ()
        for event in engine.stream(
            prompt(engine, 6), max_new_tokens=12, canvas=pins, frames=True, **settings, **{**WHOLE, "seed": seed}
        ):
            if not hasattr(event, "canvas_tokens"):
                continue
            if event.step > 1:
                taken_back += sum(now == mask != was for now, was in zip(event.canvas_tokens, before, strict=True))
            before = event.canvas_tokens
        result = engine.generate(prompt(engine, 6), max_new_tokens=12, canvas=pins, **settings, **WHOLE)
        assert [result.token_ids[place] for place in (1, 3, 10)] == [9, 11, 12]
    assert taken_back


def test_a_probe_longer_than_what_is_left_of_the_block_is_refused(engine: Engine) -> None:
    ids, options = prompt(engine, 5), {"max_new_tokens": 8, "max_denoising_steps": 1, **WHOLE}
    (told,) = engine.generate(ids, probe=[[9, 11, 12]], **options).probe_logprobs
    assert told < 0
    with pytest.raises(OptionError, match="probe has a sequence of 4 tokens, the first canvas 3") as caught:
        engine.generate(ids, probe=[[9], [9, 11, 12, 13]], **options)
    assert caught.value.option == "probe"


def test_pins_stand_behind_the_response_prefix(engine: Engine) -> None:
    pins = [None, 9, None, 11, None, None, None, None, None, None, 12]
    begin = len(engine.tokenizer.encode("abc"))
    assert begin
    for count in (5, 6, 8):
        result = engine.generate(prompt(engine, count), max_new_tokens=24, canvas=pins, begin="abc", **WHOLE)
        assert [result.token_ids[begin + place] for place in (1, 3, 10)] == [9, 11, 12]


def test_no_canvas_reaches_past_the_cache(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    # The first canvas ends with the prompt's block, so that the last one may reach farther than whole canvases would.
    reached: list[tuple[int, int]] = []
    denoise_flat = engine.model.denoise_flat

    def spy(canvas_N: torch.Tensor, widths: Sequence[int], cache: KVCache, conditioning: torch.Tensor | None) -> Any:
        reached.extend((row.length + width, row.max_seq_len) for row, width in zip(cache.rows, widths, strict=True))
        return denoise_flat(canvas_N, widths, cache, conditioning)

    monkeypatch.setattr(engine.model, "denoise_flat", spy)
    for count in range(1, 10):
        for most in range(1, 18):
            engine.generate(prompt(engine, count), max_new_tokens=most, max_denoising_steps=1, **WHOLE)
    assert all(end <= room for end, room in reached)


@pytest.mark.parametrize("stopping", STOPPING_RULES.names)
def test_stopping_rules_leave_no_mask(engine: Engine, stopping: str) -> None:
    result = engine.generate(prompt(engine, 8), stopping=stopping, max_new_tokens=16, **WHOLE)
    assert engine.config.mask_token_id not in result.token_ids


def test_strategies_commit_their_shares(engine: Engine) -> None:
    ids, settings = prompt(engine, 8), {"max_new_tokens": 8, **WHOLE}
    static = engine.generate(ids, remasking_strategy="static", max_denoising_steps=4, **settings)
    assert static.denoising_steps == (4,)
    assert engine.generate(ids, threshold=0.0, **settings).denoising_steps == (1,)
    orders = [
        event.accepted
        for event in engine.stream(ids, remasking_strategy="sequential", max_denoising_steps=4, frames=True, **settings)
        if hasattr(event, "accepted")
    ]
    assert [sum(accepted) for accepted in orders] == [2, 4, 6, 8]
    assert all(list(accepted) == sorted(accepted, reverse=True) for accepted in orders)


def test_guidance_is_the_difference_behind_two_prompts(engine: Engine) -> None:
    plain = engine.generate("hi", max_new_tokens=16, seed=4)
    same = engine.generate("hi", max_new_tokens=16, seed=4, guidance_scale=1)
    assert plain.token_ids == same.token_ids
    guided = engine.generate("hi", max_new_tokens=16, seed=4, guidance_scale=3, negative_prompt="no, no")
    assert guided.guidance_passes == sum(guided.denoising_steps)
    assert guided.token_ids != plain.token_ids


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("sampler", "discrete_ddim"),
        ("sampler", "leave_one_out"),
        ("mode", "ar"),
        ("mode", "auto"),
        ("verify", 1),
        ("logprobs", 1),
        ("prompt_logprobs", 1),
        ("start_canvas", tuple(range(8, 16))),
        ("regex", "a+"),
        ("json_schema", {"type": "integer"}),
    ],
)
def test_what_needs_uniform_noise_or_a_causal_pass_is_refused_by_name(engine: Engine, option: str, value: Any) -> None:
    with pytest.raises(OptionError, match=str(value) if option == "sampler" else option) as caught:
        engine.generate("hi", **{option: value})
    assert caught.value.option == option


def test_edits_of_what_is_decoded_are_refused(engine: Engine) -> None:
    with pytest.raises(OptionError, match="editing_threshold"):
        engine.generate("hi", sampler="block_refinement", editing_threshold=0.5)


@pytest.mark.parametrize(
    "option", [{"adapter": "x"}, {"cuda_graphs": True}, {"tensor_parallel": 2}, {"pipeline_parallel": 2}]
)
def test_what_only_the_other_family_has_is_refused(folder: Path, option: dict[str, Any]) -> None:
    with pytest.raises(GessoError, match=next(iter(option))):
        load(folder, "cpu", **option)


def test_search_without_a_causal_pass_takes_what_most_agree_on(engine: Engine) -> None:
    ids = prompt(engine, 5)
    with pytest.raises(OptionError, match="the likeliest answer is found by a causal pass") as refusal:
        run_job(engine, search(engine, ids, best_of=2, max_new_tokens=8))
    assert refusal.value.option == "select"
    found = run_job(engine, search(engine, ids, best_of=2, select="consistency", max_new_tokens=8, **WHOLE))
    assert len(found.candidates) == 2
