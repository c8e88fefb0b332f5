"""Draws training conversations from skills with open slots.

One mixture serves all canvas widths: an example is taken where its answer fits the canvas of the step, and is not lost
in it; where answers stay whole, each is. Tokens of prompts are spelled in two parts now and then, so that no word
depends on the one spelling it usually has.
"""

import json
import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from gesso.tasks.base import Example, Task, held_out, messages_of
from gesso.tasks.registry import TRAINING_TASKS
from gesso.text.chat_template import ChatTemplate
from gesso.text.tokenizer import Tokenizer
from gesso.train.batch import Conversation
from gesso.train.task_data import refuse_images

_PLACE = "\x00"
_TRIES = 6
"""Examples of one task that are drawn until one fits, before another task is."""
_LOST = 4
"""An answer of less than the canvas's length over this is lost in it, and mostly drawn again."""
_LOST_SHARE = 0.25


class Respelling(Protocol):
    """Spells tokens of a prompt in another way."""

    def apply(self, ids: Sequence[int], share: float, rng: random.Random) -> list[int]:
        """Returns the ids of the same text with about `share` of the tokens spelled otherwise."""


@dataclass(frozen=True, slots=True)
class Mixture:
    """Weighs the tasks by name, from step `start` on until the next mixture."""

    start: int
    weights: Mapping[str, float]


class SkillData:
    """Mixes tasks by weight; a step's examples depend on the seed and the step alone."""

    def __init__(
        self,
        mixtures: Sequence[Mixture],
        tokenizer: Tokenizer,
        template: ChatTemplate,
        respelling: Respelling,
        *,
        seed: int,
        respelled_share: float = 0.5,
        respelled_tokens: float = 0.1,
        narrowest: int = 0,
        widest: int = 0,
        retained: Collection[str] = (),
    ) -> None:
        """
        Args:
            mixtures: in order of their start, the first at 0.
            respelled_share: examples whose prompts are respelled.
            respelled_tokens: of their tokens, how many.
            narrowest: canvas width that no answer is too short for; 0 takes every example whatever its length.
            widest: canvas width that no answer is too long for: it is cut into several.
            retained: tasks whose examples a run with a teacher learns from it.
        """
        self._mixtures = mixtures
        self._tokenizer = tokenizer
        self._template = template
        self._respelling = respelling
        self._seed = seed
        self._respelled = (respelled_share, respelled_tokens)
        self._narrowest, self._widest = narrowest, widest
        self._retained = frozenset(retained)
        self._end = tokenizer.special["<turn|>"]
        self._frame = tuple(
            tokenizer.encode(part) for part in template.render([{"role": "user", "content": _PLACE}]).split(_PLACE)
        )

    @property
    def fingerprint(self) -> str:
        """Returns names, weights and seed: the examples follow from them."""
        mixtures = [[mixture.start, dict(mixture.weights)] for mixture in self._mixtures]
        retained = f"{sorted(self._retained)}/" if self._retained else ""
        return f"{self._seed}/{self._respelled}/{self._narrowest}/{retained}" + json.dumps(mixtures, sort_keys=True)

    def batch(self, step: int, size: int, canvas_length: int | None) -> list[Conversation]:
        rng = random.Random(f"{self._seed}/{step}")
        weights = [mixture for mixture in self._mixtures if mixture.start <= step][-1].weights
        names, shares = list(weights), list(weights.values())
        found: list[Conversation] = []
        while len(found) < size:
            task = TRAINING_TASKS[rng.choices(names, shares)[0]]
            for _ in range(_TRIES):
                example = _draw(task, rng)
                answer = self._ended(example.answer)
                if self._fits(len(answer), canvas_length, rng):
                    found.append(self._conversation(example, answer, rng))
                    break
        return found

    def evaluation(self, limit: int) -> list[Conversation]:
        """Returns `limit` examples of held-out words and phrasings, in the shares of the last mixture."""
        rng = random.Random(f"{self._seed}/evaluation")
        weights = self._mixtures[-1].weights
        names = rng.choices(list(weights), list(weights.values()), k=limit)
        return [self.conversation(_draw(TRAINING_TASKS[name], rng, evaluation=True)) for name in names]

    def conversation(self, example: Example, rng: random.Random | None = None) -> Conversation:
        """Returns the token ids of an example; with `rng` its prompt may be respelled."""
        return self._conversation(example, self._ended(example.answer), rng)

    def _conversation(self, example: Example, answer: list[int], rng: random.Random | None) -> Conversation:
        prompt = self._prompt(example)
        if rng is not None and rng.random() < self._respelled[0]:
            prompt = self._respelling.apply(prompt, self._respelled[1], rng)
        source = self._ended(example.source) if example.source else ()
        return Conversation(prompt, answer, source=source, retained=example.task in self._retained)

    def _ended(self, text: str) -> list[int]:
        return [*self._tokenizer.encode(text), self._end]

    def _prompt(self, example: Example) -> list[int]:
        refuse_images(example)
        if not (example.history or example.tools or example.system):
            # What the template writes around a message is the same for all, and takes longer than the rest together.
            return [*self._frame[0], *self._tokenizer.encode(example.prompt.strip()), *self._frame[1]]
        tools = [json.loads(tool) for tool in example.tools]
        return self._tokenizer.encode(self._template.render(messages_of(example), tools=tools or None))

    def _fits(self, length: int, canvas_length: int | None, rng: random.Random) -> bool:
        if not self._narrowest or canvas_length is None:
            return True
        if length > canvas_length:
            return canvas_length >= self._widest
        return canvas_length <= self._narrowest or length * _LOST >= canvas_length or rng.random() < _LOST_SHARE


def _draw(task: Task, rng: random.Random, *, evaluation: bool = False) -> Example:
    while True:
        example = task.sample_evaluation(rng, 0) if evaluation else task.sample(rng)
        if held_out(task.split_key(example)) == evaluation:
            return example
