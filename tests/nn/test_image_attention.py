"""The rule of who sees whom around images: written out place by place, in chunks, and past the window."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from gesso.nn.attention import attend_causal
from gesso.nn.image_attention import Span, attend_with_images, image_mask


def written_out(length: int, window: int | None, spans: list[Span]) -> Tensor:
    """Who sees whom among so many tokens, one by one."""
    image = {place: number for number, (start, end) in enumerate(spans) for place in range(start, end)}
    rows = []
    for q in range(length):
        row = []
        for k in range(length):
            if window is None:
                row.append(k <= q)
            else:
                same = q in image and image.get(k) == image[q]
                row.append((k <= q or same) and q - window < k < q + window)
        rows.append(row)
    return torch.tensor(rows)


@st.composite
def layouts(draw: st.DrawFn) -> tuple[int, int, list[Span]]:
    """A prompt's length, a window, and images in it, which may touch and be longer than the window."""
    spans, place = [], 0
    for _ in range(draw(st.integers(0, 4))):
        start = place + draw(st.integers(0, 5))
        place = start + draw(st.integers(1, 14))
        spans.append((start, place))
    return max(1, place + draw(st.integers(0, 6))), draw(st.integers(1, 12)), spans


@given(layouts())
def test_the_mask_is_the_rule_written_out(layout: tuple[int, int, list[Span]]) -> None:
    length, window, spans = layout
    mask = image_mask(length, length, window, spans, torch.device("cpu"))
    assert torch.equal(mask, written_out(length, window, spans))
    assert mask.diagonal().all()  # a row that saw nothing would be not-a-number


def by_hand(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    repeat = q.shape[1] // k.shape[0]
    keys, values = (x.repeat_interleave(repeat, dim=0) for x in (k, v))
    scores = torch.einsum("qhk,hsk->hqs", q, keys).masked_fill(~mask, -torch.inf)
    return torch.einsum("hqs,hsk->qhk", scores.softmax(-1), values)


def qkv(length: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shapes = ((length, 4, 8), (2, length, 8), (2, length, 8))
    q, k, v = (torch.randn(shape, generator=generator) for shape in shapes)
    return q, k, v


@given(layouts(), st.integers(1, 9), st.booleans())
def test_chunks_that_cut_no_image_give_what_the_whole_gives(
    layout: tuple[int, int, list[Span]], size: int, full: bool
) -> None:
    length, reach, spans = layout
    window = None if full else reach
    q, k, v = qkv(length)
    whole = by_hand(q, k, v, written_out(length, window, spans))
    inside = {place for start, end in spans for place in range(start + 1, end)}
    borders = [0, *(place for place in range(size, length, size) if place not in inside), length]
    for start, end in pairwise(borders):
        seen = 0 if window is None else max(0, start - (window - 1))  # what a sliding layer keeps
        own = [(a - start, b - start) for a, b in spans if start <= a < end]
        found = attend_with_images(q[start:end], k[:, seen:end], v[:, seen:end], window, own)
        torch.testing.assert_close(found, whole[start:end], rtol=1e-5, atol=1e-5)


def test_an_image_of_1120_tokens_is_bounded_by_the_window_of_1024_on_both_sides() -> None:
    start, length, window = 40, 1120, 1024
    mask = image_mask(1200, 1200, window, [(start, start + length)], torch.device("cpu"))
    assert mask[start].nonzero().flatten().tolist() == [*range(start + window)]
    last = start + length - 1
    assert mask[last].nonzero().flatten().tolist() == [*range(last - window + 1, last + 1)]
    # Behind the image, and before it, a token sees no future.
    assert mask[start - 1].nonzero().max() == start - 1
    assert mask[last + 1].nonzero().max() == last + 1


def test_a_prompt_of_text_is_attended_bit_for_bit_as_before() -> None:
    q, k, v = qkv(20)
    for window in (None, 7, 50):
        assert torch.equal(attend_with_images(q, k, v, window), attend_causal(q, k, v, window))
    # A full layer is causal within images, too.
    assert torch.equal(attend_with_images(q, k, v, None, [(2, 9)]), attend_causal(q, k, v, None))


def test_an_image_changes_its_own_rows_and_no_other() -> None:
    q, k, v = qkv(20)
    plain, seen = attend_causal(q, k, v, 7), attend_with_images(q, k, v, 7, [(3, 9)])
    differs = (plain - seen).abs().amax((1, 2)) > 1e-4
    assert differs.nonzero().flatten().tolist() == [3, 4, 5, 6, 7]  # the last of it has no future in it


@pytest.mark.parametrize("spans", [[(-1, 3)], [(3, 3)], [(2, 12)], [(0, 4), (3, 6)], [(5, 7), (1, 2)]])
def test_spans_that_cannot_be_are_refused(spans: list[Span]) -> None:
    with pytest.raises(ValueError, match="do not lie within 10 tokens"):
        image_mask(10, 15, 8, spans, torch.device("cpu"))
