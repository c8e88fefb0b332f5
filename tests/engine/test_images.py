"""Prompts with images through the engine: places, prefixes, neighbours, memory, generation beside `transformers`."""

import base64
import gc
import weakref
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from models.test_vision_prompt import prompt as oracle_prompt
from models.test_vision_prompt import reference_encode
from vision_oracle import BOI, EOI, IMAGE, Picture, make_vision_oracle

from engine.conftest import Start
from engine.seeing import picture, png
from engine.test_async_engine import Listener
from gesso.engine.async_engine import AsyncEngine
from gesso.engine.engine import Engine, Request
from gesso.engine.engine_core import EngineCore
from gesso.engine.prefix_store import PrefixStore
from gesso.engine.result import GenerationResult
from gesso.errors import ImageError, OptionError, TextError
from gesso.generation import GenerationConfig
from gesso.models.loading import load_folder
from gesso.models.vision_loading import load_vision
from gesso.runner.model_runner import ModelRunner
from gesso.text.tokenizer import TokenIds
from gesso.vision.preprocess import PreparedImage, prepare_image

SHORT = {"max_new_tokens": 8, "seed": 3, "image_budget": 70, "logprobs": 1}


def ask(service: AsyncEngine, prompt: Any, **options: Any) -> GenerationResult:
    listener = Listener()
    service.submit(Request(prompt, {**SHORT, **options}), listener)
    return listener.result


def told(result: GenerationResult) -> Any:
    return result.token_ids, result.denoising_steps, result.logprobs


def turns(*turns: list[Any] | str) -> list[dict[str, Any]]:
    """A conversation; what is no text is an image."""
    parts = [
        [{"type": "text", "text": part} if isinstance(part, str) else {"type": "image", "image": part} for part in turn]
        if isinstance(turn, list)
        else turn
        for turn in turns
    ]
    return [{"role": ("user", "assistant")[n % 2], "content": part} for n, part in enumerate(parts)]


def test_an_answer_depends_on_the_picture_and_on_nothing_else(seeing: Engine) -> None:
    red, blue = picture(seed=1), picture(seed=2)
    first = seeing.generate("what is it?", images=[red], **SHORT)
    assert told(seeing.generate("what is it?", images=[red], **SHORT)) == told(first)
    other = seeing.generate("what is it?", images=[blue], **SHORT)
    assert other.prompt_tokens == first.prompt_tokens
    assert other.token_ids != first.token_ids
    # However it is handed over.
    parts = [{"type": "image", "image": np.asarray(red)}, {"type": "text", "text": "what is it?"}]
    assert told(seeing.generate([{"role": "user", "content": parts}], **SHORT)) == told(first)
    assert seeing.runner.vision is not None
    ready = prepare_image(red, 70, seeing.runner.vision.layout)
    assert told(seeing.generate("what is it?", images=(ready,), **SHORT)) == told(first)


def test_soft_tokens_are_counted(seeing: Engine) -> None:
    text = seeing.start(Request("what?", {})).prompt_tokens
    for size, budget, tokens in (((36, 36), 70, 64), ((36, 36), 140, 121), ((400, 20), 70, 37), ((36, 36), 280, 256)):
        state = seeing.start(Request("what?", {"images": [picture(*size)], "image_budget": budget}))
        assert state.prompt_tokens == text + 1 + tokens + 1
        (span,) = state.prompt.spans
        assert span.length == tokens
        assert state.max_write_len >= tokens
        core = EngineCore(seeing.runner, max_running=1, chunk=128)
        assert core.need(state) == seeing.runner.cache_bytes(state.max_seq_len, state.max_write_len)
        assert state.max_seq_len >= state.prompt_tokens + state.config.max_new_tokens
    with pytest.raises(OptionError, match=r"prompt tokens and max_new_tokens 3900 .* are past the model's 4096"):
        seeing.generate("what?", images=[picture()], max_new_tokens=3900)


def test_an_image_costs_its_chunk_what_the_tower_computes(seeing: Engine) -> None:
    state = seeing.start(Request("what?", {**SHORT, "images": [picture()]}))
    assert seeing.runner.vision is not None
    costs = []
    for number, chunk in enumerate(state.chunks):
        state.next_chunk = number
        soft = sum(span.length for span in chunk.key.spans)
        assert state.chunk_cost == state.chunk + round(seeing.runner.vision.token_cost * soft)
        costs.append(state.chunk_cost - state.chunk)
    assert sum(map(bool, costs)) == 1
    state.next_chunk, state.block = len(state.chunks), (1, 2, 3)
    assert state.chunk_cost == state.chunk == 3


PLACES: dict[str, Any] = {
    "first": [[1, "one"]],
    "last": [["one", 1]],
    "alone": [[1]],
    "two": [[1, "and", 2, "one"]],
    "adjacent": [[1, 2, 3]],
    "the same twice": [[1, "and", 1]],
    "an earlier turn": [[1, "one"], "yes", ["another"]],
    "several turns": [[1, "one"], "yes", [2, "another"], "no", [1]],
    "far from the canvas": [[1, "word " * 60]],
}


@pytest.mark.parametrize("place", PLACES)
def test_images_stand_where_they_were_put(seeing: Engine, start: Start, place: str) -> None:
    """And chunks, prefixes and neighbours change nothing of the answer."""
    spec = PLACES[place]
    shown = ([picture(seed=p) if isinstance(p, int) else p for p in t] for t in spec if isinstance(t, list))
    messages = turns(*(turn if isinstance(turn, str) else next(shown) for turn in spec))
    numbers = [part for turn in spec if isinstance(turn, list) for part in turn if isinstance(part, int)]
    state = seeing.start(Request(messages, SHORT))
    ids = state.prompt.ids
    begin, soft, end = seeing.config.image_token_ids
    assert len(state.prompt.spans) == len(numbers)
    for span, number in zip(state.prompt.spans, numbers, strict=True):
        assert (ids[span.start - 1], set(ids[span.start : span.end]), ids[span.end]) == (begin, {soft}, end)
        assert seeing.runner.vision is not None
        assert span.content_hash == prepare_image(picture(seed=number), 70, seeing.runner.vision.layout).digest
    assert sum(token == soft for token in ids) == sum(span.length for span in state.prompt.spans)
    alone = seeing.generate(messages, **SHORT)
    service = start(seeing, prefill_chunk=32)
    first = ask(service, messages)
    again = ask(service, messages)
    assert first.cached_tokens == 0
    assert again.cached_tokens > 0
    assert told(first) == told(again)
    assert alone.token_ids == first.token_ids
    listeners = [Listener() for _ in range(3)]
    for listener, prompt in zip(listeners, ("hi", messages, turns([picture(seed=9), "x"])), strict=True):
        service.submit(Request(prompt, SHORT), listener)
    assert told(listeners[1].result) == told(first)


def test_a_stored_prefix_ends_before_an_image_or_behind_it(seeing: Engine, start: Start) -> None:
    one, two = picture(seed=1), picture(seed=2)
    service = start(seeing, prefill_chunk=16)
    first = ask(service, turns(["word " * 40, one, "what is it? " * 20]))
    assert first.cached_tokens == 0
    state = seeing.start(Request(turns(["word " * 40, one, "what is it? " * 20]), SHORT), chunk=16)
    (span,) = state.prompt.spans
    borders = [chunk.end for chunk in state.chunks]
    assert not any(span.start < border < span.end for border in borders)
    # The same text with another picture: what is before the image is used, nothing from it on.
    other = ask(service, turns(["word " * 40, two, "what is it? " * 20]))
    assert other.cached_tokens == max(border for border in borders if border <= span.start)
    assert other.token_ids != first.token_ids
    assert told(other) == told(ask(start(seeing, prefill_chunk=16), turns(["word " * 40, two, "what is it? " * 20])))
    # The same picture and another question: the image is used.
    third = ask(service, turns(["word " * 40, one, "what is it? " * 5 + "why?"]))
    assert third.cached_tokens >= span.end
    stats = service.stats()
    assert (stats.counters.images, stats.counters.cached_images, stats.images_encoded) == (3, 1, 2)


def test_in_a_long_conversation_each_image_is_encoded_once(seeing: Engine, start: Start) -> None:
    service = start(seeing, prefill_chunk=32)
    talk: list[dict[str, Any]] = []
    for turn in range(4):
        parts = [{"type": "image", "image": picture(seed=turn)}] if turn % 2 == 0 else []
        talk.append({"role": "user", "content": [*parts, {"type": "text", "text": f"turn {turn} " * 4}]})
        result = ask(service, talk)
        talk.append({"role": "assistant", "content": result.text})
    stats = service.stats()
    assert stats.counters.images == 1 + 1 + 2 + 2
    assert stats.images_encoded == 2
    assert stats.counters.cached_images >= 3
    assert result.cached_tokens > 128


def test_the_store_keeps_no_pixels(seeing: Engine) -> None:
    assert seeing.runner.vision is not None
    ready = prepare_image(picture(), 70, seeing.runner.vision.layout)
    pixels = weakref.ref(ready.patches)
    store = PrefixStore(seeing.runner)
    core = EngineCore(seeing.runner, max_running=1, chunk=32, prefixes=store)
    state = seeing.start(Request(turns([ready, "what is it? " * 9]), SHORT), chunk=32)
    core.scheduler.add(state)
    while not core.idle:
        core.step()
    assert store.bytes > 0
    del state, ready
    gc.collect()
    assert pixels() is None
    core.close()


def test_a_text_only_checkpoint_says_that_it_has_no_eyes(tiny: Engine) -> None:
    for prompt, option in (("what?", {"images": [picture()]}), ("what?", {"videos": [[(picture(), 0.0)]]})):
        with pytest.raises(
            OptionError, match=r"^this model reads text only: its checkpoint has no vision tower"
        ) as error:
            tiny.generate(prompt, **option)
        assert error.value.option in option
    for messages in (turns([picture(), "what?"]), turns([picture()])):
        with pytest.raises(OptionError, match=r"^this model reads text only"):
            tiny.generate(messages)


def test_pictures_that_cannot_be_used_are_refused_by_number(seeing: Engine) -> None:
    cases: list[tuple[Any, str]] = [
        ([b"no image"], r"^the image is no image of a format"),
        ([picture(), "none.png"], r"^image 2: 'none.png' is no file"),
        ([picture(), 5], r"^image 2: an image must be a path"),
        (["http://127.0.0.1/a.png"], "is an address: nothing is fetched here"),
    ]
    for images, message in cases:
        with pytest.raises(ImageError, match=message) as error:
            seeing.generate("what?", images=images)
        assert error.value.option == "images"
    with pytest.raises(ImageError, match=r"^the image is too long and thin: it has 561 patches"):
        seeing.generate("what?", images=[picture(1000, 8)], image_budget=280)
    with pytest.raises(ImageError, match=r"^the image was prepared for another model"):
        seeing.generate("what?", images=[prepare_image(picture(), 70)])
    with pytest.raises(OptionError, match=r"^images must be a list of images, got 'str'"):
        seeing.generate("what?", images="a.png")
    with pytest.raises(OptionError, match=r"^image_budget must be one of 70, 140, 280, 560, 1120, got 100"):
        seeing.generate("what?", images=[picture()], image_budget=100)


def test_places_and_images_must_agree(seeing: Engine) -> None:
    bare = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "?"}, {"type": "image"}]}]
    two = seeing.start(Request(bare, {**SHORT, "images": [picture(seed=1), picture(seed=2)]}))
    assert len(two.prompt.spans) == 2
    with pytest.raises(TextError, match="a part of type image that names none, and images has none left"):
        seeing.start(Request(bare, {**SHORT, "images": [picture()]}))
    with pytest.raises(TextError, match="more images are given than the messages have places"):
        seeing.start(Request(bare, {**SHORT, "images": [picture()] * 3}))
    begin, soft, end = seeing.config.image_token_ids
    for prompt in ([5, soft, 6], "a <|image|> b"):
        state = seeing.start(Request(prompt, {**SHORT, "raw": True, "images": [picture()]}))
        assert [span.length for span in state.prompt.spans] == [64]
        for images in ([], [picture()] * 2):
            with pytest.raises(TextError, match=rf"the prompt has 1 place for images, and {len(images)} images are"):
                seeing.start(Request(prompt, {**SHORT, "raw": True, "images": images}))
    for stray in (begin, end):
        with pytest.raises(TextError, match="which is written around images here"):
            seeing.start(Request([5, stray], SHORT))


def test_a_template_without_a_place_for_images_is_told(seeing: Engine) -> None:
    from gesso.text.chat_template import ChatTemplate

    blind = ChatTemplate("{% for m in messages %}{{ m.role }}{% endfor %}", {})
    engine = Engine(seeing.runner, seeing.tokenizer, blind, seeing.defaults)
    with pytest.raises(TextError, match="the prompt has 0 places for images, and 1 image is given"):
        engine.generate("what?", images=[picture()])


def test_a_part_may_have_a_budget_of_its_own(seeing: Engine) -> None:
    url = "data:image/png;base64," + base64.b64encode(png()).decode()
    parts = [
        {"type": "image", "image": picture(), "budget": 140},
        {"type": "image", "budget": 70},
        {"type": "image_url", "image_url": {"url": url, "detail": "low"}},
        {"type": "image_url", "image_url": {"url": url}},
    ]
    options = {"images": [picture()], "image_budget": 280}
    state = seeing.start(Request([{"role": "user", "content": parts}], options))
    assert [span.length for span in state.prompt.spans] == [121, 64, 64, 256]


# Generation beside the reference

CALM, CANVAS, NEVER = 0.4, 8, 10**6
OLD = [int(part) for part in version("transformers").split(".")[:2]] < [5, 18]
BRANCH_ENDS = (
    "post_attention_layernorm.weight",
    "post_feedforward_layernorm.weight",
    "self_conditioning.down_proj.weight",
)


def patches(rows: int, columns: int, seed: int = 0) -> PreparedImage:
    numbers = np.random.default_rng([seed, rows, columns]).integers(0, 256, (rows * columns, 48), np.uint8)
    return PreparedImage(rows, columns, rows * columns // 9, f"{seed} {rows} {columns}", numbers)


@pytest.mark.skipif(OLD, reason="transformers 5.17 goes on otherwise behind images that it did not read itself")
@pytest.mark.numbers
@pytest.mark.parametrize("parts", [[5, (6, 6), 4], [3, (12, 9), 4], [(6, 6), (6, 3), 9]])
def test_a_generation_is_that_of_the_reference_under_the_rule(
    tmp_path: Path, parts: list[Any], same_random_stream: Callable[[int, bool], None]
) -> None:
    """The reference is fed masks made by hand up to the last token of text; from there on its own are right."""
    from transformers.models.diffusion_gemma.generation_diffusion_gemma import EntropyBoundSamplerConfig

    reference = make_vision_oracle(tmp_path / "model")
    with torch.no_grad():
        for name, parameter in reference.named_parameters():
            if name.endswith(BRANCH_ENDS):
                parameter.mul_(CALM)
    reference.save_pretrained(tmp_path / "model")
    images = [patches(*part) for part in parts if isinstance(part, tuple)]
    pictures = iter([Picture(image.pixel_values(), image.rows, image.columns) for image in images])
    ids, _, seen = oracle_prompt([next(pictures) if isinstance(part, tuple) else part for part in parts])
    begin = torch.randint(3, BOI, (1, CANVAS), generator=torch.Generator().manual_seed(5))
    settings = {
        "t_min": 1e-6, "t_max": 2e-6, "max_denoising_steps": 12, "stability_threshold": 1,
        "confidence_threshold": 0.005, "max_new_tokens": 2 * CANVAS,
    }  # fmt: skip
    _, run = reference_encode(reference, ids[:-1], seen)
    same_random_stream(0, True)
    theirs = reference.generate(
        ids[None, -1:],
        **run.cached,
        decoder_input_ids=begin,
        sampler_config=EntropyBoundSamplerConfig(1e9),
        eos_token_id=[NEVER],
        pad_token_id=NEVER,
        **settings,
    )
    model, tower = (load(tmp_path / "model", "cpu", "float32") for load in (load_folder, load_vision))
    runner = ModelRunner.of(model, vision=tower)
    engine = Engine(runner, TokenIds(), None, GenerationConfig(eos_token_ids=(NEVER,)))
    # One soft token stands for each image.
    kept = [n for n, token in enumerate(ids) if token not in (BOI, EOI) and not (token == ids[n - 1] == IMAGE)]
    options = {"start_canvas": begin[0].tolist(), "entropy_bound": 1e9, "seed": 0, **settings}
    ours = engine.generate(ids[kept].tolist(), images=images, **options)
    assert ours.prompt_tokens == len(ids)
    assert list(ours.token_ids) == theirs.sequences[0, 1:].tolist()
    others = [patches(image.rows, image.columns, 1) for image in images]
    assert engine.generate(ids[kept].tolist(), images=others, **options).token_ids != ours.token_ids
