"""Draws training conversations from task generators."""

import dataclasses
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gesso.engine.media import MediaOptions
from gesso.engine.prompt import PromptReader
from gesso.errors import OptionError
from gesso.runner.prompt_input import PromptInput
from gesso.tasks.base import Example, Task, held_out
from gesso.tasks.registry import TRAINING_TASKS
from gesso.text.chat_template import ChatTemplate
from gesso.text.tokenizer import Tokenizer
from gesso.train.batch import Conversation
from gesso.vision import NO_VISION

WHOLE = 0
"""Stands for the length of a canvas where answers are cut into none."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Says which tasks are drawn from step `start` on, until the next stage."""

    start: int
    mixtures: Mapping[int, Mapping[str, float]]
    """Weight of each task by name, for each canvas length; under `WHOLE` where answers stay whole."""


def refuse_images(example: Example, why: str = NO_VISION) -> None:
    """Checks that an example can be read without eyes.

    Args:
        why: there are none.

    Raises:
        OptionError: it shows images.
    """
    if example.images or example.clip:
        raise OptionError(f"task {example.task!r} shows images, and {why}", option="task")


def shown_parts(example: Example) -> list[dict[str, Any]]:
    """Returns the pictures and the clip of an example as parts of a message's content."""
    clip = [(frame, float(second)) for second, frame in enumerate(example.clip)]
    pictures: list[dict[str, Any]] = [{"type": "image", "image": picture} for picture in example.images]
    return [*pictures, {"type": "video", "video": clip}] if clip else pictures


@dataclass(frozen=True, slots=True)
class Eyes:
    """Reads prompts with images as the engine does."""

    reader: PromptReader
    media: MediaOptions

    def conversation(self, example: Example, tokenizer: Tokenizer, end_of_turn: int) -> Conversation:
        """Returns an example whose images stand before its text; its earlier turns are learned as well, each as if it
        were the last."""
        first, *further = (*example.history[::2], example.prompt)
        seen = self._read([*shown_parts(example), {"type": "text", "text": first}])
        ids, earlier = list(seen.ids), []
        for answered, question in zip(example.history[1::2], further, strict=True):
            tokens = [*tokenizer.encode(answered), end_of_turn]
            earlier.append(range(len(ids), len(ids) + len(tokens)))
            ids += [*tokens, *tokenizer.encode("\n"), *self._read([{"type": "text", "text": question}]).ids[1:]]
        answer = [*tokenizer.encode(example.answer), end_of_turn]
        return Conversation(ids, answer, images=seen.spans, earlier=earlier)

    def _read(self, content: list[dict[str, Any]]) -> PromptInput:
        return self.reader.read([{"role": "user", "content": content}], media=self.media)


class TaskData:
    """Mixes tasks by weight; a step's examples depend on the seed and the step alone."""

    def __init__(
        self,
        stages: Sequence[Stage],
        tokenizer: Tokenizer,
        template: ChatTemplate,
        end_of_turn: int,
        seed: int,
        eyes: Eyes | None = None,
    ) -> None:
        """
        Args:
            stages: in order of their start, the first at 0.
            eyes: None where no task shows images.
        """
        self._stages = stages
        self._tokenizer = tokenizer
        self._template = template
        self._end_of_turn = end_of_turn
        self._seed = seed
        self._eyes = eyes

    @property
    def fingerprint(self) -> str:
        """Returns names, weights and seed: the examples follow from them."""
        return f"{self._seed}/" + json.dumps([dataclasses.asdict(stage) for stage in self._stages], sort_keys=True)

    def batch(self, step: int, size: int, canvas_length: int | None) -> list[Conversation]:
        rng = random.Random(f"{self._seed}/{step}")
        stage = [stage for stage in self._stages if stage.start <= step][-1]
        mixture = stage.mixtures.get(canvas_length or WHOLE) or stage.mixtures[max(stage.mixtures)]
        names = rng.choices(list(mixture), list(mixture.values()), k=size)
        return [self._draw(TRAINING_TASKS[name], rng) for name in names]

    def evaluation(self, limit: int) -> list[Conversation]:
        """Returns `limit` examples of held-out prompts, drawn as the last stage draws at its widest canvas."""
        rng = random.Random(f"{self._seed}/evaluation")
        mixtures = self._stages[-1].mixtures
        mixture = mixtures[max(mixtures)]
        names = rng.choices(list(mixture), list(mixture.values()), k=limit)
        return [self._draw(TRAINING_TASKS[name], rng, evaluation=True) for name in names]

    def _draw(self, task: Task, rng: random.Random, *, evaluation: bool = False) -> Conversation:
        example = task.sample(rng)
        while held_out(task.split_key(example)) != evaluation:
            example = task.sample(rng)
        if self._eyes is not None:
            return self._eyes.conversation(example, self._tokenizer, self._end_of_turn)
        refuse_images(example)
        prompt = self._template.render([{"role": "user", "content": example.prompt}])
        source = self._ended(example.source) if example.source else ()
        return Conversation(self._tokenizer.encode(prompt), self._ended(example.answer), source=source)

    def _ended(self, text: str) -> list[int]:
        return [*self._tokenizer.encode(text), self._end_of_turn]
