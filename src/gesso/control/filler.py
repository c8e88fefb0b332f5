"""Denoises one hole of a document after the other, in several widths, and keeps the likeliest text.

The answer is the document. In the canvas all but the hole is pinned, so nothing there depends on what the model thinks;
the result is put together from the original texts and the holes. What is too far left for the canvas stands before it
in the prompt, as an answer that was begun; what is too far right stands in the user's message.

How long a hole is, nobody knows. Several widths are denoised as one batch, then those between the best and its
neighbours. Each canvas that comes out is read by the causal pass of the same weights, and the likeliest one wins: see
`FillCandidate.score`. A hole that ends the document ends by itself, where the model says so.

Later holes are free positions of a usual width while one is filled.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from gesso.control.fill_result import FillCandidate
from gesso.control.hole_filler import HoleFiller
from gesso.control.hole_texts import Found, banned_tokens, score_of, text_of
from gesso.control.holes import Document, Hole
from gesso.control.job import Job
from gesso.control.window import (
    HoleWindow,
    HoleWindows,
    Tokens,
    leading_space,
    spread_widths,
    widths_between,
)
from gesso.engine.engine import Engine, Request
from gesso.engine.result import GenerationResult
from gesso.errors import OptionError, TextError
from gesso.generation import STRATEGIES

USUAL_WIDTH = 4
"""Tokens that a later hole gets while an earlier one is filled."""
CANDIDATE_STEPS = 16
"""Denoising steps of a candidate, where no option says: one that fits settles in a few, and most do not fit."""
OWN_SETTINGS = (
    "seed", "canvas_length", "max_denoising_steps", "restart_steps", "temperature", "top_k", "top_p", "min_p",
    "max_new_tokens", *STRATEGIES,
)  # fmt: skip


def fill_settings() -> tuple[str, ...]:
    """Returns the options of `GenerationConfig` that a fill takes: these, and those of its sampler, schedule and
    stopping rule."""
    return OWN_SETTINGS + tuple(name for registry in STRATEGIES.values() for name in registry.options())


class Filler(HoleFiller):
    """Fills the holes of one document on canvases."""

    def __init__(
        self,
        engine: Engine,
        document: Document,
        message: str | None,
        max_length: int | None,
        adapter: str | None,
        settings: dict[str, Any],
    ) -> None:
        super().__init__(engine, document, adapter, settings, mode="canvas", known=fill_settings())
        shape = engine.config
        self._canvas = self._config.canvas_length or shape.canvas_length
        if self._canvas > shape.canvas_length:
            raise OptionError(
                f"canvas_length {self._canvas} is more than the model's {shape.canvas_length}", option="canvas_length"
            )
        self._widest = self._canvas - self._canvas // 4
        steps = min(CANDIDATE_STEPS, self._config.max_denoising_steps)
        self._settings = {
            "max_denoising_steps": steps,
            **settings,
            "seed": self.seed,
            "canvas_length": self._canvas,
            "logprobs": 0,
            "stop": (),
        }
        limit = min(shape.max_position_embeddings, max_length or shape.max_position_embeddings)
        self.windows = HoleWindows(engine, message, self._canvas, limit)
        for hole in document.holes:
            if (hole.most or 0) > self._widest:
                raise TextError(
                    f"a hole of {hole.most} tokens: a canvas of {self._canvas} has {self._widest} for one at most"
                )

    @property
    def truncated(self) -> bool:
        return self.windows.truncated

    def _candidates(self, number: int, before: Sequence[int], lead: str, *, whole_only: bool) -> Job[list[Found]]:
        ends = self._ends(number)
        banned = banned_tokens(self._engine, ends=ends, whole_only=whole_only)
        if ends:
            return (yield from self._open_end(before, lead, banned))
        hole = self._document.holes[number]
        return (yield from self._widths(hole, before, self._after(number + 1), lead, banned))

    def _after(self, number: int) -> list[int | None]:
        """Returns the tokens from text `number` to the end of the answer."""
        encode, tokens = self._engine.tokenizer.encode, list[int | None]()
        for text, hole in zip(self._document.texts[number:], self._document.holes[number:], strict=False):
            lead = leading_space(text)
            width = max(hole.least or 1, min(hole.most or USUAL_WIDTH, USUAL_WIDTH)) + len(lead)
            tokens += [*encode(text.removesuffix(lead)), *(None for _ in range(width))]
        return [*tokens, *encode(self._document.texts[-1]), self._engine.end_of_turn]

    def _widths(
        self, hole: Hole, before: Sequence[int], after: Tokens, lead: str, banned: dict[int, float]
    ) -> Job[list[Found]]:
        """Denoises candidates of several widths and returns them, the best first."""
        slack = self._canvas - len(before) - len(after)
        usual = slack if slack >= max(1, self._canvas // 4) else max(1, self._canvas // 2)
        usual = min(usual, self._widest, self._budget)
        # The space before a hole may be a token by itself, which is none of the hole's, or be part of its first.
        least, most = hole.least or 1 + len(lead), (hole.most or usual) + len(lead)
        window = self.windows.around(before, after, most)
        tried = spread_widths(least, most)
        found = yield from self._denoise(hole, window, tried, lead, banned)
        if found:
            best = max(found, key=score_of).ids
            rest = widths_between(tried, len(best))
            if rest:
                found += yield from self._denoise(hole, window, rest, lead, banned)
        return sorted(found, key=score_of, reverse=True)

    def _denoise(
        self, hole: Hole, window: HoleWindow, widths: Sequence[int], lead: str, banned: dict[int, float]
    ) -> Job[list[Found]]:
        """Denoises candidates of these widths as one batch; returns those that are text, as long as the hole may be."""
        start = len(window.near)
        results = yield [
            self._request(window, window.pins(width, self._canvas, self._engine.pad_fill), self._canvas, banned)
            for width in widths
        ]
        given = [place for place, token in enumerate(window.after[: window.scored]) if token is not None]
        found = []
        for width, result in zip(widths, results, strict=True):
            places = [*range(start, start + width), *(start + width + place for place in given)]
            found += self._read(result, result.token_ids[start : start + width], places, lead)
        return [one for one in found if (hole.least or 1) <= one.candidate.width <= (hole.most or self._canvas)]

    def _open_end(self, before: Sequence[int], lead: str, banned: dict[int, float]) -> Job[list[Found]]:
        """Denoises the one candidate for a hole that ends the document, as long as the model makes it."""
        near = len(before) if len(before) <= self._canvas // 2 else self._canvas // 4
        most = min(self._budget, max(self._canvas - near, self.windows.limit // 2))
        window = self.windows.around(before, (), self._canvas - near, canvases=-(-(near + most) // self._canvas))
        start = len(window.near)
        (result,) = yield [self._request(window, window.near, start + most, banned)]
        tokens = result.token_ids
        ids = tokens[start : len(tokens) - (tokens[-1] in self._engine.defaults.eos_token_ids)]
        found = self._read(result, ids, range(start, len(tokens)), lead)
        return [replace(one, complete=result.finish_reason == "stop") for one in found]

    def _request(self, window: HoleWindow, pins: Tokens, tokens: int, banned: dict[int, float]) -> Request:
        options = {**self._settings, "canvas": pins or None, "max_new_tokens": tokens, "logit_bias": banned}
        return Request(window.prompt, options, self._adapter)

    def _read(self, result: GenerationResult, ids: Sequence[int], places: Sequence[int], lead: str) -> list[Found]:
        """Returns the candidate of a result, if it is text. `places` are those of the tokens that count for its
        score."""
        self.steps += sum(result.denoising_steps)
        self.prompt_tokens = max(self.prompt_tokens, result.prompt_tokens)
        read = text_of(self._engine.tokenizer, ids, lead)
        if read is None:
            return []
        score = sum(result.logprobs[place].logprob for place in places) / len(places)
        return [Found(FillCandidate(read[0], score, read[1]), tuple(ids), all(result.converged))]
