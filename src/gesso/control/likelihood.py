"""Measures how likely a model finds given texts: exactly by its causal pass, and bounded by its denoiser.

Both are of the same weights and not of the same distribution: the causal pass reads from left to right, the denoiser
draws whole canvases. The causal one is a job of requests. The bound is of the whole canvases that hold an answer, what
fills the last one behind its end included, given the prompt and the canvases before; it is estimated from noisy copies.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from gesso.control.job import Job
from gesso.diffusion.corruption import corrupt
from gesso.diffusion.likelihood import bound_rate, stratified_times, without_own_token
from gesso.diffusion.logits_processing import ROWS
from gesso.engine.engine import Engine, Request
from gesso.errors import OptionError
from gesso.models.cache import KVCache
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.models.family import only_diffusion_gemma

COPIES = 8
"""Noisy copies of a canvas that go through the model at once."""


@dataclass(frozen=True, slots=True)
class CausalScore:
    """Holds the exact log-probability of a text under the causal pass."""

    logprob: float
    """Nats, summed over its tokens."""
    tokens: int
    greedy: bool
    """Whether each token is the likeliest at its place."""


@dataclass(frozen=True, slots=True)
class BoundScore:
    """Holds an upper bound of the negative log-probability of an answer's canvases under the denoiser."""

    nats: float
    error: float
    """Standard error of the estimate, nats."""
    positions: int
    """Positions of the canvases."""
    passes: int


def causal_scores(
    engine: Engine, pairs: Sequence[tuple[Sequence[int], Sequence[int]]], adapter: str | None = None
) -> Job[list[CausalScore]]:
    """Scores texts behind what stands before them, each a pair of token ids.

    A text that is too long for the context behind its beginning is read in windows: each of its tokens is scored once,
    behind as many of those before it as fit, and half a context at least.

    Raises:
        OptionError: nothing stands before a text, or it is empty.
    """
    windows = [window for before, text in pairs for window in _windows(engine, before, text)]
    options = {"prompt_logprobs": 1, "mode": "ar", "max_new_tokens": 1, "seed": 0}
    results = yield [Request([*before, *text], options, adapter) for before, text in windows]
    found = iter(zip(windows, results, strict=True))
    scores = []
    for before, text in pairs:
        logprob, greedy = 0.0, True
        for _ in _windows(engine, before, text):
            (_, part), result = next(found)
            told = result.prompt_logprobs[-len(part) :]
            logprob += math.fsum(token.logprob for token in told)
            greedy = greedy and all(token.logprob >= token.top[0][2] for token in told)
        scores.append(CausalScore(logprob, len(text), greedy))
    return scores


def context_length(engine: Engine) -> int:
    """Returns the tokens of a text, with what stands before it, that are scored at once."""
    return engine.runner.max_model_len - engine.config.canvas_length


def _windows(engine: Engine, before: Sequence[int], text: Sequence[int]) -> list[tuple[Sequence[int], Sequence[int]]]:
    """What stands before and what is scored, by turns."""
    if not before or not text:
        raise OptionError("a text is scored behind one token at least, and has one itself", option="likelihood")
    longest, whole = context_length(engine), [*before, *text]
    if longest < 2:
        raise OptionError(
            f"a context of {longest + engine.config.canvas_length} tokens leaves no room for a text beside a canvas",
            option="likelihood",
        )
    windows: list[tuple[Sequence[int], Sequence[int]]] = []
    start = len(before)
    while start < len(whole):
        # The first window has no more before it than there is; later ones score half of what they read.
        end = longest if start <= longest // 2 else start + longest // 2
        end = len(whole) if len(whole) <= longest else min(len(whole), end)
        windows.append((whole[max(0, end - longest) : start], whole[start:end]))
        start = end
    return windows


def bounded_length(engine: Engine, prompt: Sequence[int], answer: Sequence[int]) -> int:
    """Returns the tokens of a prompt and of the whole canvases that hold an answer."""
    return len(prompt) + len(answer) + -len(answer) % engine.config.canvas_length


@torch.inference_mode()
def diffusion_bound(
    engine: Engine, prompt: Sequence[int], answer: Sequence[int], *, samples: int = 128, seed: int = 0
) -> BoundScore:
    """Bounds -log p of the canvases that hold an answer, given the prompt.

    Args:
        answer: token ids, the end-of-turn token included; the last canvas is filled up as in training.
        samples: noisy copies of each canvas, at times drawn one from each of as many parts of (0, 1).

    Raises:
        OptionError: an impossible value, or texts past the model's positions.
    """
    if samples < 2:
        raise OptionError(f"samples must be at least 2, got {samples}", option="samples")
    width = engine.config.canvas_length
    model = only_diffusion_gemma(engine.model, "likelihood", "the bound of uniform noise")
    if not prompt or not answer:
        raise OptionError("a text is scored behind one token at least, and has one itself", option="likelihood")
    filled = [*answer, *(engine.pad_fill for _ in range(-len(answer) % width))]
    if (tokens := bounded_length(engine, prompt, answer)) > engine.runner.max_model_len:
        message = f"{tokens} tokens are past the model's {engine.runner.max_model_len}"
        raise OptionError(message, option="likelihood")
    generator = torch.Generator().manual_seed(seed)
    cache = model.new_cache(1, len(prompt) + len(filled), max(width, len(prompt)))
    model.encode(torch.tensor([list(prompt)]), cache)
    nats = variance = 0.0
    for start in range(0, len(filled), width):
        clean_C = torch.tensor(filled[start : start + width])
        found = torch.cat(
            [
                _copies(model, cache, clean_C, times_B, generator)
                for times_B in stratified_times(samples, generator).split(COPIES)
            ]
        )
        nats += found.mean().item()
        variance += found.var().item() / samples
        if start + width < len(filled):
            model.encode(clean_C[None], cache)
    return BoundScore(nats, math.sqrt(variance), len(filled), samples * (len(filled) // width))


def _copies(
    model: DiffusionGemma, cache: KVCache, clean_C: torch.Tensor, times_B: torch.Tensor, generator: torch.Generator
) -> torch.Tensor:
    """Bounds from one noisy copy at each of some times, fp64 [B]."""
    width = len(clean_C)
    noisy_BC = corrupt(clean_C.expand(len(times_B), -1), times_B, model.config.vocab_size, generator)
    # One row serves all copies: its tail is written and read copy by copy, and nothing of it is committed.
    rows = KVCache(cache.rows * len(times_B))
    hidden = model.denoise_flat(noisy_BC.flatten(), [width] * len(times_B), rows, None).split(width)
    rates = []
    for noisy_C, hidden_CD, time in zip(noisy_BC, hidden, times_B.tolist(), strict=True):
        total = 0.0
        for first in range(0, width, ROWS):
            part = slice(first, first + ROWS)
            logits_RK = model.vocabulary.logits(hidden_CD[part])
            held_R, clean_R = noisy_C[part].to(logits_RK.device), clean_C[part].to(logits_RK.device)
            log_probs_RK = without_own_token(logits_RK, held_R, 1 - time)
            total += bound_rate(log_probs_RK, held_R, clean_R, 1 - time).sum().item()
        rates.append(total)
    return torch.tensor(rates, dtype=torch.float64)
