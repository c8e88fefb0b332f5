"""Prompts with images through the runner, in the chunks that the engine cuts, beside `transformers` under the rule."""

from pathlib import Path
from typing import Any

import pytest
import torch
from models.test_vision_prompt import CASES, prompt, reference_encode
from oracle import Shape, random_model
from torch import Tensor
from vision_oracle import BOI, Picture, make_vision_oracle, picture

from gesso.errors import OptionError
from gesso.models.cache import KVCache
from gesso.models.loading import load_folder
from gesso.models.vision_loading import load_vision
from gesso.runner.image_embeddings import ImageEmbeddings
from gesso.runner.model_runner import ModelRunner
from gesso.runner.prompt_input import EmbeddingSpan, PromptInput
from gesso.runner.protocol import CacheHandle, PrefillBatch, PrefillItem


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, ModelRunner]:
    folder: Path = tmp_path_factory.mktemp("images") / "model"
    reference = make_vision_oracle(folder)
    vision = load_vision(folder, "cpu", "float32")
    return reference, ModelRunner(load_folder(folder, "cpu", "float32"), vision=vision)


def content(image: Picture) -> str:
    return f"{image.rows} {image.columns} {image.pixels.sum()}"


def prompt_input(parts: list[int | Picture]) -> tuple[PromptInput, Tensor, list[Picture]]:
    ids, places, pictures = prompt(parts)
    pairs = zip(places, pictures, strict=True)
    spans = (EmbeddingSpan(start, end - start, content(image), image) for (start, end), image in pairs)
    return PromptInput(tuple(ids.tolist()), tuple(spans)), ids, pictures


def read(runner: ModelRunner, prompts: list[PromptInput], size: int) -> tuple[list[CacheHandle], list[Tensor]]:
    """Prefill prompts side by side, a chunk of each at a time; their caches and normed hidden states."""
    cut = [each.chunks(size) for each in prompts]
    longest = [max(chunk.end - chunk.start for chunk in chunks) for chunks in cut]
    caches = [runner.new_cache(len(each) + 8, write) for each, write in zip(prompts, longest, strict=True)]
    found: list[list[Tensor]] = [[] for _ in prompts]
    for number in range(max(map(len, cut))):
        running = [row for row, chunks in enumerate(cut) if number < len(chunks)]
        items = []
        for row in running:
            key = cut[row][number].key
            items.append(PrefillItem(row, caches[row], key.ids, key.spans, keep=len(key.ids)))
        runner.prefill(PrefillBatch(None, tuple(items)))
        for row in running:
            hidden = runner._row(caches[row]).hidden_TD
            assert hidden is not None
            found[row].append(hidden)
    return caches, [torch.cat(parts) for parts in found]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("size", [4, 16, 512])
def test_a_prompt_is_encoded_as_the_rule_says_however_it_is_chunked(
    both: tuple[Any, ModelRunner], case: str, size: int
) -> None:
    reference, runner = both
    given, ids, pictures = prompt_input(CASES[case])
    expected, run = reference_encode(reference, ids, pictures)
    (cache,), (hidden,) = read(runner, [given], size)
    torch.testing.assert_close(hidden, expected, rtol=2e-5, atol=2e-5)
    canvas = torch.randint(3, BOI, (1, 8), generator=torch.Generator().manual_seed(7))
    with torch.inference_mode():
        logits = runner.model.denoise(canvas, KVCache([runner.cache(cache)]))
    torch.testing.assert_close(logits, run.denoise(canvas), rtol=1e-4, atol=1e-4)
    for layer in runner.cache(cache).layers:  # nothing had to grow beyond what was accounted for
        most = max(chunk.end - chunk.start for chunk in given.chunks(size))
        room = len(given) + 8 if layer.window is None else layer.window - 1 + max(most, 8)
        assert layer.kv.shape[2] <= room
    runner.release(cache)


def test_neighbours_change_nothing(both: tuple[Any, ModelRunner]) -> None:
    _, runner = both
    prompts = [prompt_input(CASES[case])[0] for case in ("two_sizes", "text", "longer_than_the_window", "image_last")]
    together, beside = read(runner, prompts, 16)
    for given, handle, hidden in zip(prompts, together, beside, strict=True):
        (alone,), (own,) = read(runner, [given], 16)
        assert torch.equal(own, hidden)
        for one, other in zip(runner.cache(alone).layers, runner.cache(handle).layers, strict=True):
            assert torch.equal(one.kv[:, :, one.start : one.end], other.kv[:, :, other.start : other.end])
        runner.release(alone)
        runner.release(handle)


def test_an_image_goes_through_the_tower_once(both: tuple[Any, ModelRunner]) -> None:
    _, runner = both
    given, _, _ = prompt_input([1, picture(6, 6, 11), 2, picture(6, 6, 11), picture(6, 6, 12), 1])
    before = runner.images_encoded
    caches, first = read(runner, [given], 16)
    assert runner.images_encoded == before + 2
    others, second = read(runner, [given], 16)
    assert runner.images_encoded == before + 2
    assert torch.equal(first[0], second[0])
    for cache in (*caches, *others):
        runner.release(cache)


def test_what_is_kept_of_images_is_bounded(both: tuple[Any, ModelRunner]) -> None:
    _, runner = both
    assert runner._images is not None
    spans = [EmbeddingSpan(0, 4, f"{seed}", picture(6, 6, seed)) for seed in range(4)]
    kept = ImageEmbeddings(runner._images.vision, kept_bytes=2 * 4 * 32 * 4)
    made = [kept.of(span) for span in spans]
    assert kept.encoded == 4
    assert kept.bytes == 2 * made[0].nbytes
    assert torch.equal(kept.of(spans[3]), made[3])
    assert torch.equal(kept.of(spans[2]), made[2])
    assert kept.encoded == 4
    assert torch.equal(kept.of(spans[0]), made[0])  # which let go of the one that was used longest ago
    assert torch.equal(kept.of(spans[2]), made[2])
    assert kept.encoded == 5
    assert torch.equal(kept.of(spans[3]), made[3])
    assert kept.encoded == 6
    with pytest.raises(AssertionError, match="4 embeddings for a span of 5"):
        kept.of(EmbeddingSpan(0, 5, "wrong", picture(6, 6)))


def test_how_images_are_taken_is_told(both: tuple[Any, ModelRunner]) -> None:
    _, runner = both
    assert runner.vision is not None
    assert (runner.vision.layout.patch_size, runner.vision.layout.pooling, runner.vision.longest_side) == (4, 3, 64)
    assert 1 < runner.vision.token_cost < 100
    text_only = ModelRunner(random_model(Shape()))
    assert text_only.vision is None
    assert text_only.images_encoded == 0
    cache = text_only.new_cache(16, 16)
    with pytest.raises(OptionError, match="this model reads text only: its checkpoint has no vision tower"):
        text_only.prefill(PrefillBatch(None, (PrefillItem(0, cache, (1, 2, 3), (EmbeddingSpan(0, 3, "a"),)),)))
    assert text_only.cache(cache).length == 0


def test_caches_get_what_the_kept_embeddings_leave(both: tuple[Any, ModelRunner], monkeypatch: Any) -> None:
    _, runner = both
    asked: list[int] = []
    monkeypatch.setattr("gesso.runner.model_runner.cache_memory", lambda device, reserved: asked.append(reserved) or 1)
    runner.kv_memory(1000)
    ModelRunner(runner.model).kv_memory(1000)
    assert asked[0] > asked[1] == 1000
