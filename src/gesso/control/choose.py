"""Scores given answers by how likely a model finds each.

Two passes of the same weights are asked. The *denoising* pass sees one canvas of noise behind the prompt and says every
position for itself: an answer's probability is the product over its tokens and the end-of-turn token. The *causal* pass
reads prompt and answer from left to right: the product of each token's probability given all before it. Both are
shared out among the given answers, so they sum to 1. Neither is calibrated: compare them, do not bet on them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from gesso.control.answers import checked_answers
from gesso.control.job import Job
from gesso.display import html
from gesso.engine.engine import Engine, Request
from gesso.engine.prompt import Prompt
from gesso.errors import OptionError
from gesso.options import Integer

_OF_MEDIA = ("images", "videos", "image_budget", "video_budget", "video_fps", "video_frames")
_TAKEN = frozenset(("seed", "raw", "canvas_length", "thinking", "tools", *_OF_MEDIA))
"""What makes a difference to one pass over given answers: the prompt, the noise, and how wide the canvas is."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Holds the scores of one given answer: log-probabilities in nats, shares normalised over the given answers."""

    text: str
    tokens: int
    denoising: float
    """Share by the denoising pass."""
    denoising_logprob: float
    causal: float
    """Share by the causal pass."""
    causal_logprob: float


@dataclass(frozen=True, slots=True)
class ChooseResult:
    """Holds the scores of all answers, in the order in which they were given."""

    choices: tuple[Choice, ...]
    prompt_tokens: int
    seed: int
    """Seed of the noise that the denoising pass saw."""
    calibrated: bool = False
    """Always: the numbers say which answer is likelier, not how often it is right."""

    @property
    def best(self) -> Choice:
        """Returns the answer that the causal pass, which sees each answer whole, finds likeliest."""
        return max(self.choices, key=lambda choice: choice.causal_logprob)

    def _repr_html_(self) -> str:
        """The answers, the likeliest first, for a notebook."""
        ranked = sorted(self.choices, key=lambda choice: -choice.causal_logprob)
        rows = [(choice.text, f"{choice.denoising:.1%}", f"{choice.causal:.1%}") for choice in ranked]
        facts = html.line(["shares among these answers, uncalibrated", f"seed {self.seed}"])
        return html.block([html.table(("answer", "denoising", "causal"), rows), facts])


def choose(
    engine: Engine, prompt: Prompt, options: Sequence[str], *, adapter: str | None = None, **settings: Any
) -> Job[ChooseResult]:
    """Scores the answers `options` to a prompt.

    Args:
        settings: `seed`, `raw`, `canvas_length`, `thinking`, `tools`, and what is about images and clips; see
            `Request`.

    Raises:
        OptionError: an option that would change nothing; fewer than two answers, the same one twice, an empty one, one
            that a canvas cannot hold, or that holds a special token.
    """
    options = checked_answers(options)
    for name, value in settings.items():
        if value is not None and name not in _TAKEN:
            raise OptionError(f"{name} changes nothing where given answers are scored", option=name)
    if (width := settings.get("canvas_length")) is None:
        width = engine.config.canvas_length
    Integer(minimum=1).check("canvas_length", width)
    answers = [(*engine.tokenizer.encode(option), engine.end_of_turn) for option in options]
    for option, answer in zip(options, answers, strict=True):
        if (piece := engine.tokenizer.special_piece(answer[:-1])) is not None:
            raise OptionError(f"options: {option!r:.60} holds {piece}, which is no text to the model", option="options")
        if len(answer) > width:
            raise OptionError(
                f"options: {option!r:.60} has {len(answer)} tokens with its end, the canvas {width}", option="options"
            )
    one_step = {**settings, "max_denoising_steps": 1, "max_new_tokens": width}
    requests = [Request(prompt, {**one_step, "probe": answers}, adapter)]
    for answer in answers:
        pinned = (*answer, *(engine.pad_fill for _ in range(width - len(answer))))
        requests.append(Request(prompt, {**one_step, "canvas": pinned, "logprobs": 0}, adapter))
    probe, *read = yield requests
    causal = [sum(token.logprob for token in result.logprobs) for result in read]
    return ChooseResult(
        choices=tuple(
            Choice(text, len(answer), *chain(*pair))
            for text, answer, *pair in zip(
                options, answers, _shares(probe.probe_logprobs), _shares(causal), strict=True
            )
        ),
        prompt_tokens=probe.prompt_tokens,
        seed=probe.seed,
    )


def _shares(logprobs: Sequence[float]) -> list[tuple[float, float]]:
    """Each log-probability with its share of the sum of all probabilities, the share first."""
    most = max(logprobs)
    total = sum(math.exp(logprob - most) for logprob in logprobs)
    return [(math.exp(logprob - most) / total, logprob) for logprob in logprobs]
