"""Training conversations drawn from task generators."""

import random
from collections.abc import Mapping

from gesso.tasks.base import Task, held_out
from gesso.text.chat_template import ChatTemplate
from gesso.text.tokenizer import Tokenizer
from gesso.train.batch import Conversation


class TaskData:
    """Tasks mixed by weight; a step's examples depend on the seed and the step alone."""

    def __init__(
        self, tasks: Mapping[Task, float], tokenizer: Tokenizer, template: ChatTemplate, end_of_turn: int, seed: int
    ) -> None:
        self._tasks = list(tasks)
        self._weights = list(tasks.values())
        self._tokenizer = tokenizer
        self._template = template
        self._end_of_turn = end_of_turn
        self._seed = seed

    def batch(self, step: int, size: int) -> list[Conversation]:
        rng = random.Random(f"{self._seed}/{step}")
        return [self._draw(rng) for _ in range(size)]

    def _draw(self, rng: random.Random) -> Conversation:
        task = rng.choices(self._tasks, self._weights)[0]
        example = task.sample(rng)
        while held_out(example.prompt):
            example = task.sample(rng)
        prompt = self._template.render([{"role": "user", "content": example.prompt}])
        answer = self._tokenizer.encode(example.answer)
        return Conversation(self._tokenizer.encode(prompt), [*answer, self._end_of_turn])
