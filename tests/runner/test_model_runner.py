"""The runner over a model: what it hands out is what the model says, and what it keeps is let go."""

import pytest
import torch
from oracle import Shape, random_model

from gesso.engine.canvases import Canvases
from gesso.errors import OptionError
from gesso.generation import GenerationConfig
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.runner.model_runner import ModelRunner
from gesso.runner.protocol import (
    CacheHandle,
    CanvasBatch,
    CanvasItem,
    LogprobRead,
    PrefillBatch,
    PrefillItem,
    Runner,
    TokenScore,
)

SHAPE = Shape(layers="sf", vocab=150, window=12, canvas=8)
PROMPT = tuple(range(3, 20))
BLOCK = (50, 60, 70, 80)


@pytest.fixture
def runner() -> ModelRunner:
    return ModelRunner(random_model(SHAPE))


def prefill(runner: ModelRunner, cache: CacheHandle, tokens: tuple[int, ...], keep: int = 0) -> None:
    runner.prefill(PrefillBatch(None, (PrefillItem(0, cache, tokens, keep=keep),)))


def expected(model: DiffusionGemma, ids: tuple[int, ...], tokens: tuple[int, ...]) -> list[float]:
    """Log-probabilities of the tokens behind `ids`."""
    hidden = model.encode(torch.tensor([[*ids, *tokens]]), model.new_cache())
    scores = model.logits(hidden)[0].log_softmax(dim=-1)
    return [float(scores[len(ids) + place - 1, token]) for place, token in enumerate(tokens)]


def logprobs(scores: list[TokenScore]) -> list[float]:
    return [score.logprob for score in scores]


def test_it_is_a_runner(runner: ModelRunner) -> None:
    assert isinstance(runner, Runner)
    assert runner.max_model_len == runner.config.max_position_embeddings
    assert runner.cache_bytes(100, 16) == 4 * (2 * 2 * 8 * (11 + 16) + 2 * 16 * 100)
    runner.check()


@pytest.mark.parametrize("cut", [0, 9])
def test_log_probabilities_of_tokens_before_and_after_they_are_encoded(runner: ModelRunner, cut: int) -> None:
    cache = runner.new_cache(64, 32)
    if cut:
        prefill(runner, cache, PROMPT[:cut])
    prefill(runner, cache, PROMPT[cut:], keep=1)
    truth = expected(runner.model, PROMPT, BLOCK)
    first = runner.logprobs(LogprobRead(cache, BLOCK[:1], encoded=False, top=3))
    assert logprobs(first) == pytest.approx(truth[:1], abs=1e-5)
    assert len(first[0].top) == 3
    assert first[0].top[0][1] >= first[0].logprob
    prefill(runner, cache, BLOCK, keep=len(BLOCK))
    assert logprobs(runner.logprobs(LogprobRead(cache, BLOCK, encoded=True, top=0))) == pytest.approx(truth, abs=1e-5)


def test_what_is_rolled_back_can_be_put_back_or_done_anew(runner: ModelRunner) -> None:
    cache, other = runner.new_cache(64, 32), (90, 91, 92, 93)
    prefill(runner, cache, PROMPT, keep=1)
    prefill(runner, cache, BLOCK, keep=len(BLOCK))
    runner.rollback(cache, len(BLOCK))
    assert runner.cache(cache).length == len(PROMPT)
    runner.restore(cache)
    assert runner.cache(cache).length == len(PROMPT) + len(BLOCK)
    found = runner.logprobs(LogprobRead(cache, BLOCK, encoded=True, top=0))
    assert logprobs(found) == pytest.approx(expected(runner.model, PROMPT, BLOCK), abs=1e-5)
    runner.rollback(cache, len(BLOCK))
    prefill(runner, cache, other, keep=len(other))
    found = runner.logprobs(LogprobRead(cache, other, encoded=True, top=0))
    assert logprobs(found) == pytest.approx(expected(runner.model, PROMPT, other), abs=1e-5)
    prefill(runner, cache, BLOCK, keep=len(BLOCK))
    found = runner.logprobs(LogprobRead(cache, BLOCK, encoded=True, top=0))
    assert logprobs(found) == pytest.approx(expected(runner.model, (*PROMPT, *other), BLOCK), abs=1e-5)


def test_hidden_states_that_were_not_kept_cannot_be_read(runner: ModelRunner) -> None:
    cache = runner.new_cache(64, 32)
    prefill(runner, cache, PROMPT)
    with pytest.raises(AssertionError, match="not kept"):
        runner.logprobs(LogprobRead(cache, BLOCK[:1], encoded=False, top=0))


def test_a_cache_that_is_released_is_gone(runner: ModelRunner) -> None:
    one, two = runner.new_cache(64, 32), runner.new_cache(64, 32)
    assert one != two
    runner.release(one)
    runner.release(one)
    with pytest.raises(KeyError):
        prefill(runner, one, PROMPT)
    prefill(runner, two, PROMPT)


def test_an_unknown_adapter_is_refused(runner: ModelRunner) -> None:
    cache = runner.new_cache(64, 32)
    with pytest.raises(OptionError, match="no adapter 'red'; known: none"):
        runner.prefill(PrefillBatch("red", (PrefillItem(0, cache, PROMPT),)))
    assert runner.cache(cache).length == 0


@pytest.mark.parametrize("work", ["step", "token"])
def test_a_measured_pass_is_a_pass(runner: ModelRunner, work: str) -> None:
    cache = runner.new_cache(64, 32)
    prefill(runner, cache, PROMPT, keep=1)
    config = GenerationConfig(max_denoising_steps=9, confidence_threshold=0.0)
    canvas = Canvases(config, runner.config, 8 if work == "step" else 1, 0).make(0, (), 8)
    assert runner.measure("step" if work == "step" else "token", CanvasItem(0, cache, canvas)) > 0
    assert canvas.steps == 1
    assert runner.cache(cache).length == len(PROMPT) + (work == "token")
    runner.denoise(CanvasBatch(None, (CanvasItem(0, cache, canvas),)))
    assert canvas.steps == 2
