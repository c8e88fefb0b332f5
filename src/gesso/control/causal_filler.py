"""Fills holes token by token: the causal pass writes on from what stands before a hole, and what stands behind it says
how much of that the hole holds.

Some continuations are written, the likeliest one and others that are drawn. Every beginning of one is a candidate, as
long as the hole may be. The candidate wins that is likeliest together with the given text behind it: the causal pass
gives log p(candidate, rest | before) exactly, which is the posterior of the hole up to a constant. Few are read whole:
those behind which the rest's first token was likely, as the continuations tell of every place, and the first words of
the rest, which may be what is missing and cannot be known from what stands before. A hole that ends the document ends
by itself, where the model says so.

What is read behind a hole ends where the next begins.
"""

import re
from collections.abc import Sequence
from typing import Any

from gesso.control.fill_result import FillCandidate
from gesso.control.hole_filler import HoleFiller
from gesso.control.hole_texts import Found, banned_tokens, text_of
from gesso.control.holes import Document, Hole
from gesso.control.job import MOST_REQUESTS, Job
from gesso.control.likelihood import CausalScore, causal_scores, context_length
from gesso.control.window import BEGIN_OF_TEXT, leading_space
from gesso.engine.engine import Engine, Request
from gesso.engine.result import GenerationResult, TokenLogprob
from gesso.engine.seeds import numbered_seed
from gesso.errors import OptionError, TextError

CAUSAL_SETTINGS = ("seed", "temperature", "top_k", "top_p", "min_p", "max_new_tokens")
"""Options of `GenerationConfig` that such a fill takes."""
DRAWN_TEMPERATURE = 0.8
"""Temperature of the continuations that are drawn, where none is given."""
OPEN_WIDTH = 64
"""Tokens of a hole that says no length and does not end the document, at most."""
NEAR, REST = 512, 64
"""Tokens before a hole and behind it that are read with a candidate."""
READ, WORDS = 16, 8
"""Candidates that are read whole, of what was written and of the words of the rest."""
TOP = 20
"""Likeliest tokens that a continuation tells of every place."""
UNLIKELY = -2.0
"""Nats by which a token that is not among them is taken to be less likely than the last of them."""


class CausalFiller(HoleFiller):
    """Fills the holes of one document by the causal pass."""

    def __init__(
        self,
        engine: Engine,
        document: Document,
        message: str | None,
        max_length: int | None,
        adapter: str | None,
        settings: dict[str, Any],
    ) -> None:
        what = "a fill by mode ar"
        super().__init__(engine, document, adapter, settings, mode="ar", known=CAUSAL_SETTINGS, what=what)
        self._given = settings
        limit = context_length(engine)
        self._limit = min(limit, max_length or limit)
        self._templated = message is not None
        if message is None:
            begin = engine.tokenizer.special.get(BEGIN_OF_TEXT)
            self._head = [] if begin is None else [begin]
        else:
            self._head = list(engine.prompts.read(message, max_tokens=self._limit).ids)
        widest = max((hole.most or 1 for hole in document.holes), default=1)
        if widest > self._limit // 2:
            raise TextError(f"a hole of {widest} tokens: of the {self._limit} that are read {self._limit // 2} at most")
        self._truncated = False

    @property
    def truncated(self) -> bool:
        return self._truncated

    def _candidates(self, number: int, before: Sequence[int], lead: str, *, whole_only: bool) -> Job[list[Found]]:
        hole = self._document.holes[number]
        # A hole of a given length may stand where the model would end.
        banned = banned_tokens(self._engine, ends=hole.least is None, whole_only=whole_only)
        if self._ends(number):
            return (yield from self._open_end(before, lead, banned))
        return (yield from self._beginnings(hole, before, self._rest(number + 1), lead, banned))

    def _rest(self, number: int) -> list[int]:
        """Returns the tokens of text `number`, which stands behind a hole, up to the next hole or the answer's end. A
        text without the chat template is no answer, and may go on."""
        text, last = self._document.texts[number], number + 1 == len(self._document.texts)
        tokens = self._engine.tokenizer.encode(text if last else text.removesuffix(leading_space(text)))
        whole = [*tokens, self._engine.end_of_turn] if last and self._templated else tokens
        self._truncated |= len(whole) > REST
        return whole[:REST]

    def _prompt(self, before: Sequence[int], room: int) -> tuple[int, ...]:
        """Returns what the model reads before a hole: the user's message, and of the text what there is room for."""
        space = self._limit - len(self._head) - room
        if space < min(1, len(before)):
            needed = len(self._head) + room + 1
            raise OptionError(
                f"instruction: with it {needed} tokens are needed, of {self._limit}", option="instruction"
            )
        kept = before[max(0, len(before) - space) :]
        self._truncated |= len(kept) < len(before)
        if not self._head and not kept:
            raise TextError("the prompt is empty: there is no text before the hole")
        return (*self._head, *kept)

    def _beginnings(
        self, hole: Hole, before: Sequence[int], rest: Sequence[int], lead: str, banned: dict[int, float]
    ) -> Job[list[Found]]:
        """Returns beginnings of what the model writes, the likeliest with the rest behind it first."""
        least = hole.least or 1
        most = hole.most or min(OPEN_WIDTH, self._budget)
        width = most + len(lead)
        prompt = self._prompt(before, width + len(rest) + 1)
        drawn = self._given.get("temperature", DRAWN_TEMPERATURE)
        results = yield [
            self._request(prompt, width + 1, banned, number, drawn if number else 0.0)
            for number in range(MOST_REQUESTS if drawn else 1)
        ]
        likely: dict[tuple[int, ...], float] = {}
        for result in results:
            self._count(result)
            written, total = self._written(result), 0.0
            for length in range(1, min(len(written), width) + 1):
                total += result.logprobs[length - 1].logprob
                read = text_of(self._engine.tokenizer, written[:length], lead)
                if read is not None and least <= read[1] <= most:
                    behind = result.logprobs[length : length + 1]
                    likely[written[:length]] = total + (_logprob(behind[0], rest[0]) if behind and rest else 0.0)
        if lead and not likely:
            return []  # the space before the hole is none of its own
        # Without a rest nothing says where a hole ends: all that was written is as good as it is on average.
        ranked = sorted(likely, key=lambda ids: likely[ids] if rest else likely[ids] / len(ids), reverse=True)[:READ]
        ranked += [ids for ids in self._words(rest, lead, least, most) if ids not in ranked]
        if not ranked:
            return []
        near = (*self._head, *prompt[len(self._head) :][-NEAR:])
        scores = yield from causal_scores(self._engine, [(near, [*ids, *rest]) for ids in ranked], self._adapter)
        pairs = sorted(zip(scores, ranked, strict=True), key=lambda pair: _rank(pair[0], rest), reverse=True)
        return [self._found(ids, lead, score.logprob / score.tokens) for score, ids in pairs]

    def _words(self, rest: Sequence[int], lead: str, least: int, most: int) -> list[tuple[int, ...]]:
        """Returns the first words of the rest, as a hole of this length holds them."""
        tokenizer, found = self._engine.tokenizer, list[tuple[int, ...]]()
        text = tokenizer.decode([token for token in rest if token not in tokenizer.special_ids])
        for word in dict.fromkeys(re.findall(r"\w+", text)):
            ids = tuple(tokenizer.encode(lead + word))
            read = text_of(tokenizer, ids, lead)
            if read is not None and read[0] == word and least <= read[1] <= most:
                found.append(ids)
        return found[:WORDS]

    def _open_end(self, before: Sequence[int], lead: str, banned: dict[int, float]) -> Job[list[Found]]:
        """Writes the one candidate for a hole that ends the document, as long as the model makes it."""
        room = min(self._budget + len(lead), max(1, self._limit - len(self._head) - min(1, len(before))))
        prompt = self._prompt(before, min(room, max(self._limit // 2, room - len(before))))
        room = min(room, self._limit - len(prompt))
        (result,) = yield [self._request(prompt, room, banned, 0, self._given.get("temperature"))]
        self._count(result)
        ids, complete = self._written(result), result.finish_reason == "stop"
        read = text_of(self._engine.tokenizer, ids, lead)
        if read is not None and read[1] > self._budget:  # room was left for a space that is no token by itself
            ids, complete = ids[: self._budget - read[1]], False
            read = text_of(self._engine.tokenizer, ids, lead)
        if read is None:
            return []
        score = sum(token.logprob for token in result.logprobs) / len(result.logprobs)
        return [self._found(ids, lead, score, complete=complete)]

    def _request(
        self, prompt: tuple[int, ...], tokens: int, banned: dict[int, float], number: int, temperature: float | None
    ) -> Request:
        options = {
            **self._given,
            "mode": "ar",
            "seed": numbered_seed(self.seed, number),
            "max_new_tokens": tokens,
            "stop": (),
        }
        options |= {"logprobs": TOP, "logit_bias": banned}
        return Request(
            prompt, options if temperature is None else {**options, "temperature": temperature}, self._adapter
        )

    def _count(self, result: GenerationResult) -> None:
        self.steps += sum(result.denoising_steps)
        self.prompt_tokens = max(self.prompt_tokens, result.prompt_tokens)

    def _written(self, result: GenerationResult) -> tuple[int, ...]:
        """Returns the tokens of a continuation up to the answer's end."""
        tokens = tuple(result.token_ids)
        return tokens[:-1] if tokens and tokens[-1] in self._engine.defaults.eos_token_ids else tokens

    def _found(self, ids: tuple[int, ...], lead: str, score: float, *, complete: bool = True) -> Found:
        read = text_of(self._engine.tokenizer, ids, lead)
        assert read is not None
        return Found(FillCandidate(read[0], score, read[1]), ids, converged=True, complete=complete)


def _logprob(place: TokenLogprob, token: int) -> float:
    """Returns the log-probability of a token at a place, or less than that of the last one that is told."""
    told = {other: logprob for other, _, logprob in place.top} | {place.token: place.logprob}
    return told.get(token, min(told.values()) + UNLIKELY)


def _rank(score: CausalScore, rest: Sequence[int]) -> float:
    return score.logprob if rest else score.logprob / score.tokens
