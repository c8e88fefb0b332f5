"""Batches: which canvas, what it may see, what is supervised, and how it is corrupted."""

import dataclasses
from collections import Counter
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gesso.diffusion.corruption import corrupt, draw_times
from gesso.errors import DataError
from gesso.train.batch import IGNORED, Batch, Conversation, make_batch, make_causal_batch
from gesso.train.config import TrainConfig

VOCAB, EOS = 200, 1


def batch_of(
    conversations: list[Conversation], seed: int = 0, canvas: int = 8, probability: float = 0.5, vocab: int = VOCAB
) -> Batch:
    return make_batch(
        conversations,
        TrainConfig(steps=1, self_conditioning_probability=probability),
        canvas_length=canvas,
        vocab_size=vocab,
        eos_token_id=EOS,
        generator=torch.Generator().manual_seed(seed),
    )


@st.composite
def conversations(draw: st.DrawFn) -> list[Conversation]:
    """Each begins with a token of its own, 100 + its number, by which its row is recognised."""
    token = st.integers(2, 99)
    count = draw(st.integers(1, 6))
    return [
        Conversation(
            [100 + i, *draw(st.lists(token, max_size=20))],
            draw(st.lists(token, min_size=1, max_size=40)),
        )
        for i in range(count)
    ]


@given(conversations(), st.integers(0, 2**20), st.sampled_from([1, 4, 8, 64]))
def test_rows_are_what_they_should_be(given_: list[Conversation], seed: int, canvas: int) -> None:
    batch = batch_of(given_, seed, canvas)
    rows = batch.tokens_N.split(list(batch.lengths))
    targets = batch.targets_N.split(list(batch.lengths))
    assert sum(batch.lengths) == batch.tokens_N.numel() == batch.targets_N.numel()
    assert sorted(int(row[0]) - 100 for row in rows) == list(range(len(given_)))
    assert batch.noisy_BC.shape == batch.canvas_BC.shape == (len(given_), canvas)
    assert batch.starts_B.shape == batch.self_conditioned_B.shape == (len(given_),)
    for i, row in enumerate(rows):
        conversation = given_[int(row[0]) - 100]
        prompt, answer = list(conversation.prompt), list(conversation.answer)
        begin = int(batch.starts_B[i]) - len(prompt)
        assert begin % canvas == 0
        assert 0 <= begin < len(answer)
        clean = answer[begin : begin + canvas]
        assert row.tolist() == prompt + answer[: begin + canvas]
        assert batch.canvas_BC[i].tolist() == clean + [EOS] * (canvas - len(clean))
        # The last prompt token predicts the first of the answer, and the last token predicts nothing.
        seen = row.tolist()
        expected = [-100] * (len(prompt) - 1) + seen[len(prompt) :] + [-100]
        assert targets[i].tolist() == expected
        assert bool((batch.noisy_BC[i] < VOCAB).all())


def test_the_same_generator_gives_the_same_batch() -> None:
    given_ = [Conversation([100 + i, 5], [7] * (9 * i + 1)) for i in range(5)]
    first, second, other = batch_of(given_, 3), batch_of(given_, 3), batch_of(given_, 4)
    for name in ("tokens_N", "starts_B", "canvas_BC", "noisy_BC", "self_conditioned_B", "targets_N"):
        assert torch.equal(getattr(first, name), getattr(second, name)), name
    assert not torch.equal(first.noisy_BC, other.noisy_BC)


def test_canvases_are_drawn_uniformly() -> None:
    given_ = [Conversation([100], [5] * 20)] * 600
    found = Counter(int(start) for seed in range(5) for start in batch_of(given_, seed).starts_B)
    assert set(found) == {1, 9, 17}
    assert all(abs(count / 3000 - 1 / 3) < 0.03 for count in found.values())


def test_the_last_canvas_is_filled_with_eos_even_when_one_token_is_left() -> None:
    batches = [batch_of([Conversation([100], [5] * 9)], seed) for seed in range(20)]
    last = next(batch for batch in batches if int(batch.starts_B[0]) == 9)
    assert last.canvas_BC.tolist() == [[5] + [EOS] * 7]
    full = batch_of([Conversation([100], [5] * 8)])
    assert full.canvas_BC.tolist() == [[5] * 8], "an answer that fits exactly gets no canvas of EOS behind it"


@pytest.mark.parametrize(("probability", "low", "high"), [(0.0, 0, 0), (1.0, 2000, 2000), (0.5, 920, 1080)])
def test_self_conditioning_is_drawn_per_example(probability: float, low: int, high: int) -> None:
    batch = batch_of([Conversation([100], [5])] * 2000, 1, 1, probability)
    assert low <= int(batch.self_conditioned_B.sum()) <= high


def test_noise_is_drawn_per_example() -> None:
    batch = batch_of([Conversation([100], [5] * 64)] * 500, 2, 64)
    kept = (batch.noisy_BC == batch.canvas_BC).float().mean(dim=1)
    assert kept.mean() == pytest.approx(0.5, abs=0.05)
    assert kept.std() == pytest.approx(12**-0.5, abs=0.05), "one time for each example, uniform in (0, 1)"


def test_times_are_uniform_and_never_at_the_ends() -> None:
    times = draw_times(20_000, torch.Generator().manual_seed(0))
    assert times.min() >= 1e-4
    assert times.max() <= 1 - 1e-4
    assert times.mean() == pytest.approx(0.5, abs=0.01)
    assert times.var() == pytest.approx(1 / 12, abs=0.005)


@pytest.mark.parametrize(("exponent", "mean"), [(1.0, 1 / 2), (0.5, 2 / 3), (0.0, 1.0)])
def test_an_exponent_below_1_favours_noise(exponent: float, mean: float) -> None:
    times = draw_times(20_000, torch.Generator().manual_seed(0), exponent)
    assert times.max() < 1
    assert times.mean() == pytest.approx(mean, abs=0.01)


@pytest.mark.parametrize("time", [1e-4, 0.3, 0.7, 1 - 1e-4])
def test_corruption_keeps_or_replaces_uniformly(time: float) -> None:
    vocab, clean = 10, torch.full((100, 500), 4)
    noisy = corrupt(clean, torch.full((100,), time), vocab, torch.Generator().manual_seed(1))
    counts = noisy.flatten().bincount(minlength=vocab).double() / noisy.numel()
    assert counts.numel() == vocab
    # A replaced token is any of the vocabulary, the old one included.
    assert counts[4] == pytest.approx(1 - time + time / vocab, abs=0.01)
    others = torch.cat((counts[:4], counts[5:]))
    assert others.tolist() == pytest.approx([time / vocab] * 9, abs=0.005)


def test_corruption_follows_each_examples_own_time() -> None:
    clean = torch.zeros(3, 4000, dtype=torch.int64)
    noisy = corrupt(clean, torch.tensor([0.1, 0.5, 0.9]), 1000, torch.Generator().manual_seed(2))
    assert (noisy != 0).float().mean(dim=1).tolist() == pytest.approx([0.1, 0.5, 0.9], abs=0.03)


def test_moving_a_batch_moves_all_of_it() -> None:
    batch = batch_of([Conversation([100], [5] * 20)])
    moved = batch.to(torch.device("meta"))
    assert moved.lengths == batch.lengths
    for name in ("tokens_N", "starts_B", "canvas_BC", "noisy_BC", "self_conditioned_B", "targets_N"):
        assert getattr(moved, name).device.type == "meta", name


@pytest.mark.parametrize(("prompt", "answer"), [([], [5]), ([5], []), ([], [])])
def test_examples_without_prompt_or_answer_are_refused(prompt: list[int], answer: list[int]) -> None:
    with pytest.raises(DataError, match="one token at least"):
        Conversation(prompt, answer)


def many(conversations: list[Conversation], count: int, seed: int = 0, **settings: Any) -> Batch:
    return make_batch(
        conversations,
        TrainConfig(steps=1, **settings),
        canvas_length=8,
        vocab_size=VOCAB,
        eos_token_id=EOS,
        generator=torch.Generator().manual_seed(seed),
        canvases_per_example=count,
    )


@given(conversations(), st.integers(0, 2**20), st.integers(2, 7))
def test_several_canvases_of_an_example_are_spread_over_its_answer(
    given_: list[Conversation], seed: int, count: int
) -> None:
    batch = many(given_, count, seed)
    rows = batch.tokens_N.split(list(batch.lengths))
    assert batch.starts_B.shape == (len(given_) * count,)
    for i, row in enumerate(rows):
        conversation = given_[int(row[0]) - 100]
        begins = [int(start) - len(conversation.prompt) for start in batch.starts_B[i * count : (i + 1) * count]]
        drawn = Counter(begins)
        blocks = conversation.canvases(8)
        assert len(drawn) == min(blocks, count), "no canvas is drawn again before all were drawn"
        assert max(drawn.values()) <= -(-count // blocks)
        assert 8 * (blocks - 1) in drawn, "where the answer ends is always among them"
        # The encoder reads up to the end of the last canvas drawn, and no further.
        assert row.tolist() == [*conversation.prompt, *conversation.answer[: max(begins) + 8]]
        for k, begin in enumerate(begins):
            clean = list(conversation.answer[begin : begin + 8])
            assert batch.canvas_BC[i * count + k].tolist() == clean + [EOS] * (8 - len(clean))


@given(conversations(), st.integers(1, 8), st.integers(1, 3))
def test_a_split_batch_holds_the_same_examples(given_: list[Conversation], parts: int, count: int) -> None:
    batch = many(given_, count, own_draft_probability=0.5, own_draft_rounds=2)
    assert batch.self_generated is not None
    split = batch.split(parts)
    assert len(split) == min(parts, len(given_))
    assert sum(part.canvas_tokens for part in split) == batch.canvas_tokens
    assert sum(part.target_tokens for part in split) == batch.target_tokens
    rows = batch.tokens_N.split(batch.lengths)
    for i in range(len(given_)):
        part, place = split[i % parts], i // parts
        assert torch.equal(part.tokens_N.split(part.lengths)[place], rows[i])
        mine, theirs = slice(place * count, (place + 1) * count), slice(i * count, (i + 1) * count)
        for name in ("starts_B", "canvas_BC", "noisy_BC", "self_conditioned_B"):
            assert torch.equal(getattr(part, name)[mine], getattr(batch, name)[theirs]), name
        assert part.self_generated is not None
        assert torch.equal(part.self_generated.rounds_B[mine], batch.self_generated.rounds_B[theirs])
        assert torch.equal(part.self_generated.noise_RBC[:, mine], batch.self_generated.noise_RBC[:, theirs])


def test_an_edit_starts_from_the_text_that_it_changes() -> None:
    """Its noise is laid over that text, cut and filled up as the answer is; what is to be found is the answer."""
    changed = Conversation([100], [5] * 12, source=[6] * 3)
    batch = many([changed, Conversation([101], [5] * 12)], 200, source_probability=0.5)
    where = batch.starts_B // 9  # 0 for the first canvas, 1 for the second
    started = [(batch.noisy_BC[:200] == 6).any(dim=1), (batch.noisy_BC[200:] == 6).sum(dim=1) > 2]
    assert 0.3 < started[0][where[:200] == 0].double().mean() < 0.55
    assert not started[1].any(), "an answer that changes no text starts from itself"
    for row, block in zip(batch.noisy_BC[:200][started[0]], where[:200][started[0]], strict=True):
        if block == 0:
            assert (row == 5).sum() <= 1, "nothing of the answer is left, but for a token of noise"
    assert set(batch.canvas_BC.flatten().tolist()) == {5, EOS}
    plain = many([changed], 200)
    assert torch.equal(plain.noisy_BC, many([Conversation([100], [5] * 12)], 200).noisy_BC)


def test_the_prompt_is_trained_on_by_choice() -> None:
    batch = many([Conversation([100, 101, 102], [5, 6])], 1, prompt_loss=True)
    assert batch.targets_N.tolist() == [101, 102, 5, 6, IGNORED]


def test_answers_within_the_prompt_are_trained_on_as_well() -> None:
    talk = Conversation([100, 101, 102, 103, 104], [5, 6], earlier=[range(1, 2), range(3, 5)])
    assert many([talk], 1).targets_N.tolist() == [101, IGNORED, 103, 104, 5, 6, IGNORED]
    assert many([talk], 1, prompt_loss=True).targets_N.tolist() == [101, 102, 103, 104, 5, 6, IGNORED]
    assert set(many([talk], 1, encoder_loss_weight=0.0).targets_N.tolist()) == {IGNORED}


def test_text_that_goes_on_gives_full_canvases_only() -> None:
    batches = [many([Conversation([100], [5] * 21, ends=False)], 1, seed) for seed in range(40)]
    assert {int(batch.starts_B[0]) for batch in batches} == {1, 9}
    assert all(batch.canvas_BC.tolist() == [[5] * 8] for batch in batches)
    with pytest.raises(DataError, match="goes on has 7 tokens, a canvas 8"):
        many([Conversation([100], [5] * 7, ends=False)], 1)


@given(conversations(), st.integers(0, 2**20), st.integers(1, 4))
def test_without_encoder_loss_rows_end_where_the_last_canvas_begins(
    given_: list[Conversation], seed: int, count: int
) -> None:
    batch = many(given_, count, seed, encoder_loss_weight=0.0)
    assert batch.target_tokens == 0
    assert list(batch.lengths) == sorted(batch.lengths)
    for i, row in enumerate(batch.tokens_N.split(list(batch.lengths))):
        last = int(batch.starts_B[i * count : (i + 1) * count].max())
        conversation = given_[int(row[0]) - 100]
        assert row.tolist() == [*conversation.prompt, *conversation.answer][:last]


def test_some_canvases_are_clean_up_to_a_place_and_noise_behind_it() -> None:
    rows = [Conversation([5, 6], list(range(10, 30))) for _ in range(400)]
    config = TrainConfig(steps=1, self_conditioning_probability=0.0, time_exponent=0.0, prefix_probability=0.5)
    shape = {"canvas_length": 32, "vocab_size": 10_000, "eos_token_id": 1}
    batch = make_batch(rows, config, **shape, generator=torch.Generator().manual_seed(0))
    kept = batch.noisy_BC == batch.canvas_BC
    prefixes = kept.long().cumprod(dim=1).sum(dim=1)
    # The time is its greatest for all: what is clean is clean for this reason, and as long as the answer at most.
    assert (kept.sum(dim=1) <= prefixes + 1).all()
    assert prefixes.max() == 20
    assert 0.4 < (prefixes > 0).double().mean() < 0.6
    plain = dataclasses.replace(config, prefix_probability=0.0)
    without = make_batch(rows, plain, **shape, generator=torch.Generator().manual_seed(0))
    assert (without.noisy_BC == without.canvas_BC).sum() < 20


@pytest.mark.parametrize("prompt_loss", [False, True])
@given(given_=conversations(), parts=st.integers(1, 3))
def test_a_causal_batch_is_one_of_canvases_that_hold_whole_answers(
    prompt_loss: bool, given_: list[Conversation], parts: int
) -> None:
    whole = max(len(conversation.answer) for conversation in given_)
    wide = make_batch(
        given_,
        TrainConfig(steps=1, prompt_loss=prompt_loss),
        canvas_length=whole,
        vocab_size=VOCAB,
        eos_token_id=EOS,
        generator=torch.Generator().manual_seed(0),
    )
    batch = make_causal_batch(given_, prompt_loss=prompt_loss)
    assert batch.causal
    assert batch.canvas_tokens == 0
    for own, other in ((batch, wide), *zip(batch.split(parts), wide.split(parts), strict=True)):
        assert own.lengths == other.lengths
        for name in ("tokens_N", "targets_N", "starts_B"):
            assert torch.equal(getattr(own, name), getattr(other, name))


def test_a_causal_batch_takes_text_that_goes_on_and_says_what_is_retained() -> None:
    rows = [Conversation([1], [2, 3, 4], ends=False), Conversation([5], [6], retained=True)]
    batch = make_causal_batch(rows)
    assert batch.tokens_N.tolist() == [5, 6, 1, 2, 3, 4]
    assert batch.targets_N.tolist() == [6, IGNORED, 2, 3, 4, IGNORED]
    assert batch.retained == (True, False)
