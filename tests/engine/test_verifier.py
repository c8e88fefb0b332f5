"""Self-verification: what the causal pass disputes is denoised again, and nothing else changes."""

import dataclasses
import json
import re
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.tiny import CANVAS, TEMPLATE, TOKENS, Reciter, ReciteRow, tiny_recipe
from gesso.engine.engine import Engine, Request
from gesso.engine.engine_core import EngineCore
from gesso.engine.events import BlockCommitted, DenoisingFrame
from gesso.engine.result import GenerationResult
from gesso.errors import OptionError
from gesso.models.cache import KVCache
from gesso.runner.model_runner import ModelRunner
from gesso.tasks.vocabulary import build_tokenizer
from gesso.text.chat_template import ChatTemplate
from gesso.text.tokenizer import Tokenizer

WORDS = "pear fig apple kiwi lemon mango"
DOUBTFUL: dict[str, Any] = {"verify": 3, "verify_threshold": 0.2, "ignore_eos": True}
"""Of random weights much is disputed."""


class Row(ReciteRow):
    def rollback(self, tokens: int) -> list[Tensor]:
        self.length -= tokens
        return [torch.empty(tokens)]

    def restore(self, taken: list[Tensor]) -> None:
        self.length += len(taken[0])


class Slipping(Reciter):
    """Recites, but from noise it says `slip` at a place, and stays with it while it stands there. The causal pass
    expects the script."""

    slip: Sequence[int] = ()
    place = 0
    stubborn = False

    def new_cache(self, batch_size: int, *_: int) -> KVCache:
        rows: Any = [Row() for _ in range(batch_size)]
        return KVCache(rows)

    def encode_flat(self, tokens_N: Tensor, counts: Sequence[int], cache: KVCache, *_: object) -> Tensor:
        super().encode_flat(tokens_N, counts, cache)
        ends = [row.length for row in cache.rows]
        return torch.cat([torch.arange(end - count, end) for end, count in zip(ends, counts, strict=True)])[:, None]

    def denoise_flat(self, canvas_N: Tensor, widths: Sequence[int], cache: KVCache, soft: Tensor | None) -> Tensor:
        said_N = super().denoise_flat(canvas_N, widths, cache, soft)
        row: Any = cache.rows[0]
        if row.length == row.prompt:
            stop = self.place + len(self.slip)
            fresh = not torch.equal(canvas_N[: self.place], said_N[: self.place])
            if self.stubborn or fresh or canvas_N[self.place] == self.slip[0]:
                said_N[self.place : stop] = torch.tensor(self.slip)
        self.prompt = row.prompt
        return said_N

    def logits(self, hidden: Tensor) -> Tensor:
        """Of the token after each position."""
        script = torch.tensor(self.script)
        scores = torch.zeros(len(hidden), self.config.vocab_size)
        for score, position in zip(scores, hidden[:, 0].long() + 1 - self.prompt, strict=True):
            score[script[position] if position < len(script) else self.fill] = 20.0
        return scores


def slipping(place: int, slip: str | None, *, stubborn: bool = False, words: str = WORDS) -> tuple[Engine, Slipping]:
    """An engine that says `words` with a slip; None is an end that comes too early."""
    recipe, tokenizer = tiny_recipe(), Tokenizer(build_tokenizer())
    end = tokenizer.special["<eos>"]
    model: Any = Slipping(dataclasses.replace(recipe.model, canvas_length=CANVAS), tokenizer.encode(words), end)
    model.slip = [end] * (CANVAS - place) if slip is None else tokenizer.encode(slip)
    model.place, model.stubborn = place, stubborn
    return Engine(model, tokenizer, ChatTemplate(TEMPLATE, TOKENS), recipe.generation, "slipping"), model


def test_a_disputed_token_is_redone() -> None:
    assert len(Tokenizer(build_tokenizer()).encode(WORDS)) < CANVAS
    engine, _ = slipping(1, " grape")
    assert engine.generate("hi", seed=1).text == "pear grape apple kiwi lemon mango"
    once, twice = (engine.generate("hi", seed=1, verify=rounds) for rounds in (1, 2))
    assert once.text == twice.text == WORDS
    assert (once.verify_rounds, once.rejected_tokens) == ((1,), 1)
    # Two steps a time; the causal pass over the first draft, and with a round left the one over the second.
    assert (once.denoising_steps, twice.denoising_steps) == ((2 + 1 + 2,), (2 + 1 + 2 + 1,))
    assert once.tokens_per_forward == once.completion_tokens / 5


def test_what_is_disputed_is_free_and_the_rest_pinned() -> None:
    engine, _ = slipping(1, " grape")
    events = list(engine.stream("hi", seed=1, verify=1))
    frames = [event for event in events if isinstance(event, DenoisingFrame)]
    assert [(frame.canvas, frame.step) for frame in frames] == [(0, 1), (0, 2), (0, 3), (0, 4)]
    assert [frame.max_denoising_steps for frame in frames] == [12, 12, 14, 14]
    assert [frame.temperature for frame in frames[:2]] == [frame.temperature for frame in frames[2:]]
    assert [type(event) for event in events[4:]] == [BlockCommitted, type(events[-1])]


def test_a_round_that_changes_nothing_ends_it_and_its_draft_was_the_commit() -> None:
    engine, model = slipping(1, " grape", stubborn=True, words=WORDS + " plum lime peach")
    plain = engine.generate("hi", seed=1)
    model.encoded.clear()
    result = engine.generate("hi", seed=1, verify=3)
    assert result.text == plain.text
    assert result.verify_rounds == (1, 0)
    # The first canvas: two steps and a round of two; its draft is encoded once, as is the second one.
    assert result.denoising_steps == (2 + 2, plain.denoising_steps[1] + 1)
    assert model.encoded[1:] == [list(result.token_ids[:CANVAS]), model.encoded[-1]]
    assert model.encoded[-1][: len(result.token_ids) - CANVAS] == list(result.token_ids[CANVAS:])


def test_an_end_that_is_disputed_frees_what_is_behind_it() -> None:
    engine, _ = slipping(3, None)
    assert engine.generate("hi", seed=1).text == "pear fig apple"
    result = engine.generate("hi", seed=1, verify=1)
    assert (result.text, result.rejected_tokens) == (WORDS, 1)


def test_what_is_behind_the_end_is_not_judged() -> None:
    engine, _ = slipping(7, " grape", words="pear fig")
    result = engine.generate("hi", seed=1, verify=2)
    assert (result.text, result.rejected_tokens, result.denoising_steps) == ("pear fig", 0, (3,))


def test_where_nothing_is_disputed_only_the_last_pass_is_new(tiny: Engine) -> None:
    for seed in range(3):
        options = {"seed": seed, "max_new_tokens": 3 * CANVAS, "ignore_eos": True}
        plain = tiny.generate("hi", **options)
        sure = tiny.generate("hi", verify=2, verify_threshold=1e9, **options)
        assert sure.token_ids == plain.token_ids
        assert sure.verify_rounds == (0, 0, 0)
        *steps, last = plain.denoising_steps
        assert sure.denoising_steps == (*steps, last + 1)
        told = tiny.generate("hi", verify=2, verify_threshold=1e9, logprobs=0, **options)
        assert told.denoising_steps == plain.denoising_steps, "log-probabilities take the last pass anyway"
        assert told.logprobs == tiny.generate("hi", logprobs=0, **options).logprobs


def test_off_is_the_default(tiny: Engine) -> None:
    plain, off = (tiny.generate("hi", seed=3, max_new_tokens=20, **options) for options in ({}, {"verify": 0}))
    assert (plain.token_ids, plain.denoising_steps) == (off.token_ids, off.denoising_steps)
    assert (plain.verify_rounds, plain.rejected_tokens) == ((), 0)


def test_auto_leaves_what_is_over_in_its_first_canvas_alone() -> None:
    engine, _ = slipping(1, " grape")
    plain, auto = (engine.generate("hi", seed=1, verify=rounds) for rounds in (0, "auto"))
    assert (auto.token_ids, auto.denoising_steps) == (plain.token_ids, plain.denoising_steps)
    assert auto.verify_rounds == ()


def test_auto_is_one_round_for_longer_answers(tiny: Engine) -> None:
    options = {"seed": 2, "max_new_tokens": 3 * CANVAS, "ignore_eos": True, "verify_threshold": 0.2}
    one, auto = (tiny.generate("hi", verify=rounds, **options) for rounds in (1, "auto"))
    assert sum(one.verify_rounds) > 0
    assert (auto.token_ids, auto.denoising_steps, auto.verify_rounds) == (
        one.token_ids, one.denoising_steps, one.verify_rounds
    )  # fmt: skip
    short = options | {"max_new_tokens": CANVAS}
    plain, auto = (tiny.generate("hi", **short | {"verify": "auto"} | more) for more in ({"verify_threshold": 1e9}, {}))
    assert (auto.token_ids, auto.denoising_steps) == (plain.token_ids, plain.denoising_steps)
    assert auto.verify_rounds == ()


def test_auto_goes_with_any_mode_and_leaves_a_given_canvas_alone(tiny: Engine) -> None:
    plain, auto = (tiny.generate("hi", seed=1, mode="ar", max_new_tokens=4, verify=rounds) for rounds in (0, "auto"))
    assert auto.token_ids == plain.token_ids
    result = tiny.generate("hi", seed=1, mode="auto", max_new_tokens=4, verify="auto")
    assert result.decision != "what it asks for needs a canvas"
    given = {"seed": 1, "max_new_tokens": 2 * CANVAS, "ignore_eos": True, "start_canvas": (5,) * 2 * CANVAS}
    plain, auto = (tiny.generate("hi", verify=rounds, **given) for rounds in (0, "auto"))
    assert (auto.token_ids, auto.denoising_steps) == (plain.token_ids, plain.denoising_steps)


@pytest.mark.numbers
def test_neighbours_change_nothing(tiny: Engine) -> None:
    def told(result: GenerationResult) -> tuple[Any, ...]:
        return result.token_ids, result.denoising_steps, result.verify_rounds, result.logprobs

    requests = [
        Request(f"number {i}", {"seed": i, "max_new_tokens": 20, "logprobs": 1, **(DOUBTFUL if i % 3 else {})})
        for i in range(6)
    ]
    together = [told(result) for result in tiny.generate_batch(requests)]
    assert any(sum(rounds) for _, _, rounds, _ in together)
    assert together == [told(tiny.generate_batch([request])[0]) for request in requests]


def test_the_cache_holds_what_was_said(tiny: Engine) -> None:
    sequence = tiny.start(Request("hi there", {"seed": 4, "max_new_tokens": 5 * CANVAS, "logprobs": 2, **DOUBTFUL}))
    runner = ModelRunner(tiny.model)
    loop = EngineCore(runner, max_running=1, chunk=tiny.chunk)
    loop.scheduler.add(sequence)
    row = None
    while not loop.idle:
        loop.step()
        row = runner.cache(sequence.cache) if sequence.cache is not None else row
    result = sequence.result()
    assert sum(result.verify_rounds) > 2
    ids = [*sequence.prompt.ids, *result.token_ids]
    fresh = tiny.model.new_cache(1)
    hidden = tiny.model.encode(torch.tensor([ids]), fresh)
    assert row is not None
    assert row.length >= len(sequence.prompt) + 4 * CANVAS
    for layer, other in zip(row.layers, fresh.rows[0].layers, strict=True):
        ahead = len(ids) - row.length  # what the fresh one has more
        count = min(layer.end - layer.start, other.end - other.start) - ahead
        mine = layer.kv[:, :, layer.end - count : layer.end]
        theirs = other.kv[:, :, other.end - ahead - count : other.end - ahead]
        torch.testing.assert_close(mine, theirs, atol=1e-5, rtol=1e-5)
    scores = tiny.model.logits(hidden)[0].log_softmax(dim=-1)
    start = len(sequence.prompt)
    expected = [float(scores[start + i - 1, token]) for i, token in enumerate(result.token_ids)]
    assert [entry.logprob for entry in result.logprobs] == pytest.approx(expected, abs=1e-4)
    assert {len(entry.top) for entry in result.logprobs} == {2}


def test_pins_are_kept(tiny: Engine) -> None:
    template = [300, None, 301, None, None, 302, None, None, None, 303]
    for seed in range(3):
        result = tiny.generate("hi", seed=seed, canvas=template, max_new_tokens=2 * CANVAS, **DOUBTFUL)
        assert sum(result.verify_rounds) > 0
        for place, token in enumerate(template):
            assert token in (None, result.token_ids[place])


def test_the_answer_does_not_end_before_the_last_pin(tiny: Engine) -> None:
    ends = tiny.defaults.eos_token_ids
    options: dict[str, Any] = DOUBTFUL | {"ignore_eos": False, "logit_bias": dict.fromkeys(ends, 1000.0)}
    result = tiny.generate("hi", seed=1, canvas=[None] * (CANVAS + 2) + [300], **options)
    assert not set(result.token_ids[: CANVAS + 2]) & set(ends)
    assert result.token_ids[CANVAS + 2] == 300


def test_constraints_hold(tiny: Engine) -> None:
    options = DOUBTFUL | {"ignore_eos": False, "max_new_tokens": 3 * CANVAS}
    rounds = 0
    for seed in range(3):
        text = tiny.generate("hi", seed=seed, regex="[a-c]{9,14}x", **options)
        assert re.fullmatch("[a-c]{9,14}x", text.text)
        thing = tiny.generate("hi", seed=seed, json_object=True, **options)
        assert isinstance(json.loads(thing.text), dict)
        rounds += sum(text.verify_rounds) + sum(thing.verify_rounds)
    assert rounds > 0


def test_a_thought_is_closed_in_time_and_the_close_is_not_judged() -> None:
    """The causal pass expects the thought to go on."""
    engine, _ = slipping(0, "<|channel>", words="<|channel>thought\npear fig apple kiwi lemon mango plum lime")
    plain, verified = (engine.generate("hi", seed=1, thinking_budget=4, verify=rounds) for rounds in (0, 2))
    assert verified.token_ids == plain.token_ids
    assert verified.reasoning_tokens == plain.reasoning_tokens == 4
    assert verified.rejected_tokens == 0


def test_auto_takes_a_canvas(tiny: Engine) -> None:
    result = tiny.generate("hi", seed=1, mode="auto", max_new_tokens=4, verify=1)
    assert (result.mode, result.decision) == ("canvas", "what it asks for needs a canvas")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"verify": -1}, "verify must be an integer of at least 0"),
        ({"verify": 9}, "verify must be at most 8, got 9"),
        ({"verify": True}, "verify must be an integer"),
        ({"verify": "two"}, "verify must be auto, exact or a number of rounds up to 8, got 'two'"),
        ({"verify": 1, "mode": "ar"}, "verify must be left out with mode ar, got 1"),
        ({"verify_threshold": 2.0}, "verify_threshold must be left out without verify, got 2.0"),
        ({"verify": 1, "verify_threshold": -1.0}, "verify_threshold must be a number of at least 0"),
    ],
)
def test_contradictions_are_refused(tiny: Engine, options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=f"^{message}"):
        tiny.generate("hi", **options)
