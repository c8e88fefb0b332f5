"""Text model and tower together: a prompt with images, encoded under the rule, beside `transformers`.

The reference is fed masks written out from the rule; see `vision_oracle`. What drives gesso's model here is what a
runner does: embeddings take the place of the soft tokens' rows, and attention is told where images stand.
"""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from oracle import ReferenceRun
from torch import Tensor
from vision_oracle import BOI, EOI, IMAGE, Picture, as_reference, make_vision_oracle, padded, picture, rule_masks

from gesso.models.cache import KVCache, SequenceCache
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.models.loading import load_folder
from gesso.models.vision_loading import load_vision
from gesso.models.vision_tower import VisionModel
from gesso.nn.attention import Attend
from gesso.nn.image_attention import Span, attend_with_images

Both = tuple[Any, DiffusionGemma, VisionModel]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Both:
    folder: Path = tmp_path_factory.mktemp("prompt") / "model"
    reference = make_vision_oracle(folder)
    return reference, load_folder(folder, "cpu", "float32"), load_vision(folder, "cpu", "float32")


def prompt(parts: list[int | Picture]) -> tuple[Tensor, list[Span], list[Picture]]:
    """Ids of text (a number of random tokens) and images between their markers, and where the soft tokens stand."""
    generator = torch.Generator().manual_seed(len(parts))
    ids: list[int] = []
    spans, pictures = [], []
    for part in parts:
        if isinstance(part, int):
            ids += torch.randint(3, BOI, (part,), generator=generator).tolist()
            continue
        count = part.rows * part.columns // 9
        spans.append((len(ids) + 1, len(ids) + 1 + count))
        pictures.append(part)
        ids += [BOI, *[IMAGE] * count, EOI]
    return torch.tensor(ids), spans, pictures


@torch.no_grad()
def encode(
    model: DiffusionGemma, cache: SequenceCache, ids: Tensor, spans: list[Span], embeddings: list[Tensor]
) -> Tensor:
    """Append a chunk to a cache; returns normed hidden states [T, D]."""
    x = model.vocabulary.embed(ids)
    for (start, end), embedding in zip(spans, embeddings, strict=True):
        x[start:end] = embedding
    positions = torch.arange(cache.length, cache.length + len(ids))
    rope = model.rope(positions, cache.length + len(ids))
    for number, kind, block in model.blocks():
        layer = cache.layers[number]

        def attend(q: Tensor, k: Tensor, v: Tensor, layer: Any = layer) -> Tensor:
            keys, values = layer.write(k, v, cache.max_seq_len, cache.max_write_len)
            return attend_with_images(q, keys, values, layer.window, spans)

        told: Attend = attend
        x = block(x, rope[kind], told, block.encoder_scalar)
    cache.commit(len(ids))
    out: Tensor = model.norm(x)
    return out


@torch.no_grad()
def reference_encode(reference: Any, ids: Tensor, pictures: list[Picture]) -> tuple[Tensor, ReferenceRun]:
    run = ReferenceRun(reference)
    pairs = [padded(*each, 12 * 15) for each in as_reference(pictures)]
    images: dict[str, Tensor] = {}
    if pairs:
        pixels, positions = (torch.stack(parts) for parts in zip(*pairs, strict=True))
        images = {"pixel_values": pixels, "image_position_ids": positions}
    out = reference.model.encoder(
        input_ids=ids[None],
        attention_mask=rule_masks(ids, 0, len(ids)),
        position_ids=torch.arange(len(ids))[None],
        **run.cached,
        **images,
    )
    return out.last_hidden_state[0], run


LONG = picture(12, 9)  # 12 soft tokens, more than the window of 8
CASES: dict[str, list[int | Picture]] = {
    "image_between": [5, picture(6, 6), 4],
    "image_first": [picture(3, 6), 7],
    "image_last": [9, picture(6, 3)],
    "image_alone": [picture(6, 6)],
    "two_sizes": [2, picture(3, 9), 3, picture(6, 6), 2],
    "adjacent": [1, picture(6, 3, 1), picture(6, 3, 2), 1],
    "the_same_twice": [1, picture(6, 6), 2, picture(6, 6), 1],
    "longer_than_the_window": [3, LONG, 4],
    "far_from_the_canvas": [picture(6, 6), 30],
    "text": [12],
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("chunked", [False, True])
def test_a_prompt_with_images_is_encoded_as_the_rule_says(both: Both, case: str, chunked: bool) -> None:
    reference, model, vision = both
    ids, spans, pictures = prompt(CASES[case])
    expected, run = reference_encode(reference, ids, pictures)
    embeddings = vision.embed(pictures)
    inside = {place for start, end in spans for place in range(start + 1, end)}
    borders = [place for place in range(0, len(ids), 4) if place not in inside] if chunked else [0]
    cache = model.new_cache()
    parts = []
    for start, end in pairwise([*borders, len(ids)]):
        here = [number for number, (first, _) in enumerate(spans) if start <= first < end]
        own = [(spans[number][0] - start, spans[number][1] - start) for number in here]
        parts.append(encode(model, cache.rows[0], ids[start:end], own, [embeddings[number] for number in here]))
    torch.testing.assert_close(torch.cat(parts), expected, rtol=2e-5, atol=2e-5)
    # And a canvas behind it sees the same.
    canvas = torch.randint(3, BOI, (1, 8), generator=torch.Generator().manual_seed(7))
    torch.testing.assert_close(model.denoise(canvas, KVCache(cache.rows)), run.denoise(canvas), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("case", ["image_between", "longer_than_the_window", "adjacent"])
def test_causal_images_are_something_else(both: Both, case: str) -> None:
    reference, model, vision = both
    ids, spans, pictures = prompt(CASES[case])
    expected, _ = reference_encode(reference, ids, pictures)
    x = model.vocabulary.embed(ids)
    for (start, end), embedding in zip(spans, vision.embed(pictures), strict=True):
        x[start:end] = embedding
    found = _causal(model, x, len(ids))
    start, end = spans[0]
    assert (found[start:end] - expected[start:end]).abs().max() > 0.1
    torch.testing.assert_close(found[:start], expected[:start], rtol=2e-5, atol=2e-5)


@torch.no_grad()
def _causal(model: DiffusionGemma, x: Tensor, tokens: int) -> Tensor:
    row = model.new_cache().rows[0]
    rope = model.rope(torch.arange(tokens), tokens)
    for number, kind, block in model.blocks():

        def attend(q: Tensor, k: Tensor, v: Tensor, number: int = number) -> Tensor:
            return row.attend_causal(number, q, k, v)

        x = block(x, rope[kind], attend, block.encoder_scalar)
    out: Tensor = model.norm(x)
    return out


def test_another_picture_gives_another_encoding(both: Both) -> None:
    _, model, vision = both
    ids, spans, _ = prompt([3, picture(6, 6), 2])
    found: list[Tensor] = []
    for seed in (0, 1):
        cache = model.new_cache()
        found.append(encode(model, cache.rows[0], ids, spans, vision.embed([picture(6, 6, seed)])))
    assert torch.equal(found[0][:4], found[1][:4])
    assert (found[0][4:] - found[1][4:]).abs().amax(-1).min() > 1e-3
