"""Gives prompts and rewards: from a task's generator, or from the lines of a file."""

import hashlib
import json
import random
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from gesso.control.grading import Grader, message_text
from gesso.engine.prompt import PromptReader
from gesso.errors import DataError, OptionError, UserError
from gesso.tasks.base import Example, Task, evaluation_set, held_out
from gesso.tasks.registry import TRAINING_TASKS
from gesso.train.data_fields import parse_line
from gesso.train.evaluate import example_request
from gesso.train.file_scan import hash_share
from gesso.train.numbered_lines import numbered_lines, told_with
from gesso.train.reinforce.config import Case
from gesso.train.reinforce.rewards import Graded, Judged, Reward, Same, unit_tests
from gesso.train.task_data import refuse_images

_KEYS = ("prompt", "messages", "completion", "function", "tests")
_TEXT_ALONE = "prompts of reinforcement are text alone, whatever the model sees"


class TaskCases:
    """Draws prompts of tasks, never a held-out one."""

    def __init__(self, tasks: Sequence[str], seed: int, reward: str = "right", grader: Grader | None = None) -> None:
        """
        Args:
            reward: `right` is a task's grader, `score` its score by the prompt alone, which may be a share.
            grader: rewards in the place of both; `reward` then tells it from others.

        Raises:
            OptionError: a task that does not exist, shows images, or has no score where that is the reward.
        """
        self._tasks, self._seed, self._reward, self._grader = tuple(tasks), seed, reward, grader
        for name in tasks:
            if name not in TRAINING_TASKS:
                raise OptionError(f"no task {name!r}; known: {', '.join(TRAINING_TASKS)}", option="task")
            example = TRAINING_TASKS[name].sample(random.Random(0))
            refuse_images(example, _TEXT_ALONE)
            if grader is None and reward == "score":
                try:
                    TRAINING_TASKS[name].score(example.prompt, example.answer)
                except DataError as error:
                    raise OptionError(f"{error}: reward it by right", option="reward") from None

    @property
    def fingerprint(self) -> str:
        """Returns seed, tasks and reward: the prompts follow from them."""
        return f"{self._seed}/{','.join(self._tasks)}/{self._reward}"

    def cases(self, step: int, size: int) -> list[Case]:
        rng = random.Random(f"{self._seed}/{step}")
        found = []
        for place in range(size):
            task = TRAINING_TASKS[self._tasks[(step * size + place) % len(self._tasks)]]
            example = task.sample(rng)
            while held_out(task.split_key(example)):
                example = task.sample(rng)
            found.append(self._case(task, example))
        return found

    def evaluation(self, limit: int) -> list[Case]:
        names = [self._tasks[place % len(self._tasks)] for place in range(limit)]
        drawn = {}
        for name in dict.fromkeys(names):
            try:
                drawn[name] = iter(evaluation_set(TRAINING_TASKS[name], names.count(name), self._seed))
            except ValueError as error:
                raise OptionError(str(error), option="evaluation_examples") from None
        return [self._case(TRAINING_TASKS[name], next(drawn[name])) for name in names]

    def _case(self, task: Task, example: Example) -> Case:
        request = example_request(example, {})
        reward: Reward = Graded(task, example)
        if self._grader is not None:
            reward = Judged(self._grader, example.prompt)
        elif self._reward == "score":
            reward = Judged(task.score, example.prompt)
        return Case(request.prompt, reward, request.options)


class FileCases:
    """Reads prompts from JSON lines: `prompt` or `messages`, and what an answer is compared with: `completion`, or
    `function` with `tests`, unless a function rewards all of them."""

    def __init__(
        self, path: Path, seed: int, held_out_share: float, reward: str = "", grader: Grader | None = None
    ) -> None:
        """
        Args:
            held_out_share: share of the lines that are kept for evaluation, chosen by their text.
            reward: tells `grader` from others.
            grader: rewards all answers.

        Raises:
            DataError: a line cannot be used, or none is left to train on.
            OptionError: the file cannot be read.
        """
        try:
            content = path.read_bytes()
        except OSError as error:
            raise OptionError(f"{path} cannot be read: {error.strerror}", option="prompts") from None
        self._path, self._seed = path, seed
        self._digest = f"{hashlib.sha256(content).hexdigest()}/{held_out_share:g}/{reward}"
        self._train: list[Case] = []
        self._held_out: list[Case] = []
        self._numbered: list[tuple[int, Case]] = []
        for number, line in numbered_lines(BytesIO(content)):
            with told_with(f"{path}:{number}"):
                case = _read_case(line, grader)
            self._numbered.append((number, case))
            (self._held_out if hash_share(line.strip()) < held_out_share else self._train).append(case)
        if not self._train:
            raise DataError(f"{path} holds no line to train on")

    def check_prompts(self, reader: PromptReader, most: int) -> None:
        """Refuses a file with a prompt that the model cannot read, or that is too long, before a run meets it.

        Args:
            most: tokens that a prompt may have.

        Raises:
            DataError: there is one.
        """
        for number, case in self._numbered:
            try:
                count = len(reader.read(case.prompt, max_tokens=most).ids)
            except UserError as error:
                raise DataError(f"{self._path}:{number}: {error}") from None
            if count > most:
                raise DataError(f"{self._path}:{number}: the prompt has {count} tokens, and with an answer {most} fit")

    @property
    def fingerprint(self) -> str:
        """Returns a hash of the file with seed, share and reward."""
        return f"{self._seed}/{self._digest}"

    def cases(self, step: int, size: int) -> list[Case]:
        # Every line once in an epoch, in an order of the epoch's own.
        count, places = len(self._train), range(step * size, (step + 1) * size)
        orders = {
            epoch: random.Random(f"{self._seed}/{epoch}").sample(range(count), count)
            for epoch in range(places.start // count, (places.stop - 1) // count + 1)
        }
        return [self._train[orders[place // count][place % count]] for place in places]

    def evaluation(self, limit: int) -> list[Case]:
        return self._held_out[:limit]


def _shows(message: Any) -> bool:
    """Says whether a message holds a part that is an image or a clip."""
    content = message.get("content") if isinstance(message, Mapping) else None
    parts = [part for part in content if isinstance(part, Mapping)] if isinstance(content, list) else []
    return any(str(part.get("type")).startswith(("image", "video")) for part in parts)


def _read_case(line: bytes, grader: Grader | None) -> Case:
    fields = {name: value for name, value in parse_line(line, _KEYS).items() if value is not None}
    prompt = fields.get("prompt", fields.get("messages"))
    messages = fields.get("messages", [{}])
    listed = isinstance(messages, list) and all(isinstance(message, dict) for message in messages)
    one = ("prompt" in fields) != ("messages" in fields)
    if not (one and listed and isinstance(prompt, str | list) and prompt):
        raise DataError("a line has prompt, a text, or messages, a list of them")
    try:
        json.dumps(prompt, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise DataError("the prompt is no valid Unicode: it holds half a character") from None
    if isinstance(prompt, list) and any(map(_shows, prompt)):
        raise DataError(f"the prompt shows images, and {_TEXT_ALONE}: leave this line out")
    if grader is not None:
        return Case(prompt, Judged(grader, prompt if isinstance(prompt, str) else message_text(prompt[-1])))
    if ("completion" in fields) == ("tests" in fields):
        raise DataError("a line needs completion, or function and tests, unless --reward names a function")
    if "function" in fields and "tests" not in fields:
        raise DataError("function goes with tests, not with completion")
    if "tests" in fields:
        return Case(prompt, unit_tests(fields.get("function"), fields["tests"]))
    if not isinstance(fields["completion"], str):
        raise DataError("completion must be a text")
    return Case(prompt, Same(fields["completion"]))
