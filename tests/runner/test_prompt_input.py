"""Prompts with spans of embeddings: where they are cut, and what tells them apart."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gesso.runner.prompt_input import EmbeddingSpan, PromptInput

CHUNK = 16


@st.composite
def prompts(draw: st.DrawFn) -> PromptInput:
    length = draw(st.integers(1, 120))
    spans, place = [], 0
    while place < length and draw(st.booleans()):
        start = draw(st.integers(place, length - 1))
        span = EmbeddingSpan(start, draw(st.integers(1, min(60, length - start))), draw(st.sampled_from("abc")))
        spans.append(span)
        place = span.end
    return PromptInput(tuple(draw(st.lists(st.integers(0, 3), min_size=length, max_size=length))), tuple(spans))


@given(prompts())
def test_chunks_are_the_prompt_and_cut_no_span(prompt: PromptInput) -> None:
    chunks = prompt.chunks(CHUNK)
    assert [chunk.start for chunk in chunks] == [0, *(chunk.end for chunk in chunks[:-1])]
    assert chunks[-1].end == len(prompt)
    assert tuple(token for chunk in chunks for token in chunk.key.ids) == prompt.ids
    assert tuple(span.shifted(chunk.start) for chunk in chunks for span in chunk.key.spans) == prompt.spans
    for chunk in chunks:
        assert not any(span.start < chunk.end < span.end for span in prompt.spans)
        longest = max((span.length for span in chunk.key.spans), default=0)
        assert 0 < chunk.end - chunk.start <= max(CHUNK, longest)


@given(prompts())
def test_without_spans_borders_are_multiples(prompt: PromptInput) -> None:
    plain = PromptInput(prompt.ids)
    assert [chunk.start for chunk in plain.chunks(CHUNK)] == list(range(0, len(plain), CHUNK))
    assert all(chunk.whole == (chunk.end % CHUNK == 0) for chunk in plain.chunks(CHUNK))


@given(prompts(), st.lists(st.integers(0, 3), max_size=40))
def test_prompts_that_begin_alike_are_cut_alike(prompt: PromptInput, more: list[int]) -> None:
    longer = prompt.followed_by(tuple(more)).chunks(CHUNK)
    for chunk, other in zip(prompt.chunks(CHUNK), longer, strict=False):
        if chunk.whole:
            assert chunk == other


@given(prompts())
def test_another_content_is_another_key(prompt: PromptInput) -> None:
    """The ids are the same, and so is what the runner makes embeddings from: only the hash differs."""
    if not prompt.spans:
        return
    changed = (*prompt.spans[:-1], dataclasses.replace(prompt.spans[-1], content_hash="other"))
    pairs = list(zip(prompt.chunks(CHUNK), PromptInput(prompt.ids, changed).chunks(CHUNK), strict=True))
    assert sum(one.key != other.key for one, other in pairs) == 1
    same = (*prompt.spans[:-1], dataclasses.replace(prompt.spans[-1], source=object()))
    assert PromptInput(prompt.ids, same).chunks(CHUNK) == prompt.chunks(CHUNK)
    assert len({hash(chunk.key) for chunk in PromptInput(prompt.ids, same).chunks(CHUNK)}) > 0


@pytest.mark.parametrize("spans", [[(0, 0)], [(3, 3)], [(-1, 2)], [(0, 3), (2, 2)], [(3, 1), (0, 1)]])
def test_impossible_spans_are_refused(spans: list[tuple[int, int]]) -> None:
    with pytest.raises(ValueError, match="span"):
        PromptInput(
            (1, 2, 3, 4, 5),
            tuple(EmbeddingSpan(start, length, "a") for start, length in spans)
            + ((EmbeddingSpan(4, 2, "b"),) if spans == [(3, 3)] else ()),
        )
