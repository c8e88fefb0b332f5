"""Likelihoods of given texts, against sums by hand and bounds that must hold."""

import math
from typing import Any

import pytest
import torch

from gesso.control.job import run_job
from gesso.control.likelihood import CausalScore, _copies, causal_scores, context_length, diffusion_bound
from gesso.diffusion.corruption import corrupt
from gesso.engine.engine import Engine
from gesso.errors import OptionError

BEFORE, TEXT = [2, 30, 31, 32], [40, 41, 42]


def by_hand(engine: Engine, tokens: list[int], scored: int) -> tuple[float, bool]:
    """log p of the last `scored` tokens, from one pass of the model itself."""
    cache = engine.model.new_cache(1)
    scores = engine.model.logits(engine.model.encode(torch.tensor([tokens]), cache))[0].log_softmax(dim=-1)
    places = range(len(tokens) - scored, len(tokens))
    total = math.fsum(scores[place - 1, tokens[place]].item() for place in places)
    return total, all(scores[place - 1].argmax().item() == tokens[place] for place in places)


def score(engine: Engine, *pairs: Any) -> list[CausalScore]:
    return run_job(engine, causal_scores(engine, pairs))


def test_the_causal_one_is_the_sum_by_hand(tiny: Engine) -> None:
    first, second = score(tiny, (BEFORE, TEXT), ([2], [*BEFORE[1:], *TEXT]))
    assert first.logprob == pytest.approx(by_hand(tiny, [*BEFORE, *TEXT], 3)[0], abs=1e-3)
    assert second.logprob == pytest.approx(by_hand(tiny, [*BEFORE, *TEXT], 6)[0], abs=1e-3)
    assert (first.tokens, second.tokens, first.greedy) == (3, 6, False)


def test_greedy_is_what_the_causal_pass_writes(tiny: Engine) -> None:
    written = list(BEFORE)
    for _ in range(3):
        hidden = tiny.model.encode(torch.tensor([written]), tiny.model.new_cache(1))
        written.append(int(tiny.model.logits(hidden)[0, -1].argmax()))
    assert by_hand(tiny, written, 3)[1]
    (found,) = score(tiny, (BEFORE, written[-3:]))
    assert found.greedy


def test_a_long_text_is_read_in_windows_that_score_each_token_once(
    tiny: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(tiny.runner), "max_model_len", property(lambda _: 24))
    assert context_length(tiny) == 16
    text = [30 + place % 7 for place in range(45)]
    (found,) = score(tiny, ([2], text))
    whole = [2, *text]
    expected, start = 0.0, 1
    for end in (16, 24, 32, 40, 46):
        expected += by_hand(tiny, whole[max(0, end - 16) : end], end - start)[0]
        start = end
    assert found.logprob == pytest.approx(expected, abs=2e-3)
    assert found.tokens == 45


def test_a_long_beginning_leaves_half_a_context(tiny: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(tiny.runner), "max_model_len", property(lambda _: 24))
    before = [2, *(30 + place % 7 for place in range(29))]
    (found,) = score(tiny, (before, TEXT))
    assert found.logprob == pytest.approx(by_hand(tiny, [*before, *TEXT][-16:], 3)[0], abs=1e-3)


@pytest.mark.parametrize("room", [0, 1])
def test_a_context_of_one_canvas_scores_nothing(tiny: Engine, monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    """It went from window to window for ever."""
    monkeypatch.setattr(type(tiny.runner), "max_model_len", property(lambda _: tiny.config.canvas_length + room))
    with pytest.raises(OptionError, match="leaves no room for a text beside a canvas"):
        score(tiny, (BEFORE, TEXT))


@pytest.mark.parametrize("pair", [([], TEXT), (BEFORE, [])])
def test_nothing_before_or_nothing_to_score_is_refused(tiny: Engine, pair: Any) -> None:
    with pytest.raises(OptionError, match="one token at least"):
        score(tiny, pair)
    with pytest.raises(OptionError, match="one token at least"):
        diffusion_bound(tiny, *pair)


def test_the_bound_is_reproduced_and_covers_whole_canvases(tiny: Engine) -> None:
    first, again = (diffusion_bound(tiny, BEFORE, [*range(30, 40)], samples=8, seed=3) for _ in range(2))
    assert first == again
    assert (first.positions, first.passes) == (16, 16)
    assert first.nats > 0
    assert first.error > 0
    more = diffusion_bound(tiny, BEFORE, [*range(30, 40)], samples=64, seed=3)
    assert abs(more.nats - first.nats) < 4 * (first.error + more.error)


def test_copies_share_a_pass_and_say_what_each_says_alone(tiny: Engine) -> None:
    model, clean_C = tiny.model, torch.arange(30, 38)
    cache = model.new_cache(1, 64, 8)
    model.encode(torch.tensor([BEFORE]), cache)
    times = torch.tensor([0.2, 0.5, 0.9], dtype=torch.float64)
    generator = torch.Generator().manual_seed(1)
    together = _copies(tiny.model, cache, clean_C, times, generator)
    noisy_BC = corrupt(clean_C.expand(3, -1), times, tiny.config.vocab_size, torch.Generator().manual_seed(1))
    from gesso.diffusion.likelihood import bound_rate, without_own_token

    for noisy_C, time, found in zip(noisy_BC, times.tolist(), together, strict=True):
        logits_CK = model.vocabulary.logits(model.denoise_flat(noisy_C, [8], cache, None))
        rate = bound_rate(without_own_token(logits_CK, noisy_C, 1 - time), noisy_C, clean_C, 1 - time)
        assert found.item() == pytest.approx(rate.sum().item(), rel=1e-5)


def test_the_bound_refuses_what_cannot_be(tiny: Engine) -> None:
    with pytest.raises(OptionError, match="samples must be at least 2"):
        diffusion_bound(tiny, BEFORE, TEXT, samples=1)
    with pytest.raises(OptionError, match="past the model's"):
        diffusion_bound(tiny, BEFORE, [30] * 5000)


def test_mini_finds_right_answers_likelier_than_wrong_ones() -> None:
    from gesso.api import load
    from gesso.engine.engine import Request

    engine = load("mini", "cpu")
    prompt = engine.start(Request("What is 2 + 3?")).prompt.ids
    answers = [[*engine.tokenizer.encode(text), engine.end_of_turn] for text in ("5", "8")]
    right, wrong = (diffusion_bound(engine, prompt, answer, samples=8) for answer in answers)
    assert right.nats + right.error < wrong.nats - wrong.error
    causal = score(engine, *((prompt, answer) for answer in answers))
    assert causal[0].logprob > causal[1].logprob
    assert causal[0].greedy
