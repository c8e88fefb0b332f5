"""Measures the likelihood of the answers of a data file, by the causal pass and by the denoiser's bound."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gesso.control.job import run_job
from gesso.control.likelihood import (
    BoundScore,
    CausalScore,
    bounded_length,
    causal_scores,
    context_length,
    diffusion_bound,
)
from gesso.engine.engine import Engine
from gesso.errors import DataError, OptionError
from gesso.train.batch import Conversation
from gesso.train.data_config import FileDataConfig
from gesso.train.data_encoder import DataEncoder
from gesso.train.data_lines import LineReader
from gesso.train.intervals import Interval, ratio_interval
from gesso.train.numbered_lines import numbered_lines, told_with

MOST_SAMPLES = 1 << 16
"""Noisy canvases of an example at most."""

AT_ONCE = 32
"""Examples whose requests are made at once."""


@dataclass(frozen=True, slots=True)
class FileLikelihood:
    """Holds what a model makes of a file's answers. Intervals draw whole examples."""

    examples: int
    tokens: int
    """Tokens of the answers, end-of-turn tokens included."""
    causal_nats: float
    """-log p of all of them by the causal pass."""
    causal_nats_per_token: float
    causal_interval: Interval
    perplexity: float
    greedy: int
    """Answers that the causal pass itself would write, taking the likeliest token each time."""
    samples: int
    """Noisy copies of each canvas; 0 where no bound was asked for."""
    bound_nats: float | None
    """An upper bound of -log p of their canvases by the denoiser, what fills them up included."""
    bound_error: float | None
    """Standard error of it, from the noisy copies alone."""
    bound_nats_per_token: float | None
    """The bound in nats for each of the answers' own tokens, to compare with the causal one's."""
    bound_interval: Interval | None
    passes: int
    """Passes of the denoiser."""


def score_file(engine: Engine, path: Path, *, samples: int, seed: int, limit: int | None = None) -> FileLikelihood:
    """Scores every answer of a file of training data, in any of its forms but those with images.

    Args:
        samples: noisy copies of each canvas for the bound; 0 leaves it out.
        limit: examples that are read at most; None reads all.

    Raises:
        DataError: a line cannot be used or is too long for the bound, or the file cannot be read or is empty.
    """
    if samples == 1 or not 0 <= samples <= MOST_SAMPLES:
        raise OptionError(f"samples must be 0 or from 2 to {MOST_SAMPLES:,}, got {samples:,}", option="samples")
    if not 0 <= seed < 2**62:
        raise OptionError(f"seed must be at least 0 and below 2^62, got {seed}", option="seed")
    causal: list[CausalScore] = []
    bounds: list[BoundScore] = []
    examples = itertools.islice(_examples(engine, path, bounded=samples > 0), limit)
    while chunk := list(itertools.islice(examples, AT_ONCE)):
        causal += run_job(engine, causal_scores(engine, [(case.prompt, case.answer) for case in chunk]))
        if samples:
            first = len(bounds)
            bounds += [
                diffusion_bound(engine, case.prompt, case.answer, samples=samples, seed=seed + first + place)
                for place, case in enumerate(chunk)
            ]
    if not causal:
        raise DataError(f"{path} holds no example")
    tokens = [score.tokens for score in causal]
    nats = [-score.logprob for score in causal]
    mean = sum(nats) / sum(tokens)
    bound = sum(score.nats for score in bounds) if bounds else None
    return FileLikelihood(
        examples=len(causal),
        tokens=sum(tokens),
        causal_nats=sum(nats),
        causal_nats_per_token=mean,
        causal_interval=ratio_interval(nats, tokens),
        perplexity=math.exp(min(mean, 700.0)),
        greedy=sum(score.greedy for score in causal),
        samples=samples,
        bound_nats=bound,
        bound_error=math.sqrt(sum(score.error**2 for score in bounds)) if bounds else None,
        bound_nats_per_token=None if bound is None else bound / sum(tokens),
        bound_interval=ratio_interval([score.nats for score in bounds], tokens) if bounds else None,
        passes=sum(score.passes for score in bounds),
    )


def _examples(engine: Engine, path: Path, *, bounded: bool) -> Iterator[Conversation]:
    """The examples of all lines, in order; those that the denoiser bounds fit the model with their canvases."""
    encoder = DataEncoder(
        engine.tokenizer,
        engine.template,
        engine.config,
        engine.defaults.eos_token_ids,
        FileDataConfig(max_length=context_length(engine)),
        engine.runner.vision,
    )
    reader = LineReader(encoder)
    try:
        with path.open("rb") as file:
            for number, line in numbered_lines(file):
                with told_with(f"{path}, line {number}"):
                    record = reader.read(line, path.parent)
                    found = [_without_images(record.conversation(part)) for part in record.parts]
                    for conversation in found if bounded else ():
                        _check_bounded(engine, conversation)
                yield from found
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None


def _without_images(conversation: Conversation) -> Conversation:
    """Refuses an example that shows images.

    Raises:
        DataError: it does.
    """
    if conversation.images:
        raise DataError("images cannot be scored: leave this line out")
    return conversation


def _check_bounded(engine: Engine, conversation: Conversation) -> None:
    """Refuses an example that the denoiser cannot bound, while it is known which line it is.

    Raises:
        DataError: it is too long.
    """
    tokens = bounded_length(engine, conversation.prompt, conversation.answer)
    if tokens > (longest := engine.runner.max_model_len):
        raise DataError(
            f"{tokens:,} tokens, whole canvases of the answer, are past the model's {longest:,}, "
            "and the denoiser bounds no longer text",
            hint="--samples 0 leaves the bound out: the causal pass reads a text of any length",
        )
