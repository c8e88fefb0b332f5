"""Defines what a task is, and how its prompts are split into training and evaluation.

A task draws examples (a prompt and the one reference answer) and grades any text as an answer to one of
them. Whether a prompt may be trained on depends on the prompt alone, so no list of evaluation prompts has to
be kept anywhere.
"""

import random
import zlib
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from gesso.errors import DataError

HELD_OUT_SHARE = 8
"""One prompt in this many is held out."""


@dataclass(frozen=True, slots=True)
class Call:
    """Holds a call that the model has made, and what the function returned, as text."""

    name: str
    arguments: Mapping[str, Any]
    result: str


@dataclass(frozen=True, slots=True)
class Example:
    """Holds one prompt with its reference answer; `task` is the name of the task it was drawn from."""

    task: str
    prompt: str
    answer: str
    source: str = ""
    """The text that the answer changes a little, where there is one."""
    kind: str = ""
    """What an evaluation may report it under, beside its task."""
    history: tuple[str, ...] = ()
    """Earlier turns of the conversation, the user's and the model's by turns."""
    system: str = ""
    """Message of the system before them, where there is one."""
    tools: tuple[str, ...] = ()
    """Functions that the model may call, each as OpenAI's API describes them, in JSON."""
    call: Call | None = None
    """The call that followed the prompt, where the answer follows its result."""
    images: tuple[bytes, ...] = ()
    """Encoded pictures that the conversation is about, before its first text."""
    clip: tuple[bytes, ...] = ()
    """Frames of a clip that it is about, a second apart, before its first text."""


def messages_of(example: Example) -> list[dict[str, Any]]:
    """Returns the conversation up to the answer, as chat templates and requests take it, without its pictures."""
    turns = [*example.history, example.prompt]
    messages: list[dict[str, Any]] = [
        {"role": "assistant" if i % 2 else "user", "content": turn} for i, turn in enumerate(turns)
    ]
    if example.system:
        messages.insert(0, {"role": "system", "content": example.system})
    if (call := example.call) is not None:
        function = {"name": call.name, "arguments": call.arguments}
        messages.append(
            {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": function}]}
        )
        messages.append({"role": "tool", "name": call.name, "content": call.result})
    return messages


@dataclass(frozen=True, slots=True)
class Augmented:
    """Holds a problem in another form."""

    prompt: str
    restore: Callable[[str], str]
    """Turns an answer to it into one to the problem as it was given; what is no answer stays as it is."""


class Task(Protocol):
    """Draws examples and grades answers. Subclass it to inherit the default evaluation sampler."""

    name: str

    @abstractmethod
    def sample(self, rng: random.Random) -> Example:
        """Draws one example; every choice comes from `rng`."""

    def grade(self, example: Example, text: str) -> bool:
        """Says whether `text` is a correct answer to `example.prompt`: the reference, white space around it aside,
        unless a task takes others too."""
        return text.strip() == example.answer

    def score(self, prompt: str, text: str) -> float:  # noqa: ARG002
        """Returns how good an answer is, by its prompt alone: 1 where it is right, less where it is not.

        Raises:
            DataError: the task cannot tell without the reference answer, or the prompt is none of its.
        """
        raise DataError(f"task {self.name} cannot tell a right answer without its reference")

    def sample_evaluation(self, rng: random.Random, index: int) -> Example:  # noqa: ARG002
        """Draws one example for place `index` (from 0) of an evaluation set.

        It is drawn again until its prompt is held out and new. The training distribution unless a task says otherwise.
        """
        return self.sample(rng)

    def augment(self, prompt: str, rng: random.Random) -> Augmented | None:  # noqa: ARG002
        """Returns the same problem in another form, as a symmetry of the game makes it; None where the task has none.

        Raises:
            DataError: the prompt is none of the task's.
        """
        return None

    def split_key(self, example: Example) -> str:
        """Returns the text whose hash says which side of the split it is on: its prompt, unless a task says
        otherwise."""
        return example.prompt

    def group(self, example: Example) -> str:  # noqa: ARG002
        """Returns the name of the group under which an evaluation reports `example` apart; empty for none."""
        return ""

    def counts(self, example: Example, text: str) -> Mapping[str, tuple[int, int]]:  # noqa: ARG002
        """Returns what an evaluation reports of an answer beside right or wrong: by name, how many of how many (at
        least 1).

        The names are the same for every example of a task.
        """
        return {}


def held_out(prompt: str) -> bool:
    """Says whether `prompt` belongs to the evaluation side of the split."""
    return zlib.crc32(prompt.encode("utf-8")) % HELD_OUT_SHARE == 0


def training_stream(tasks_and_weights: Sequence[tuple[Task, float]], seed: int) -> Iterator[Example]:
    """Yields training examples for ever: tasks in proportion to their weights, never a held-out prompt.

    Raises:
        ValueError: there is no task, or a weight is negative, or all are zero.
    """
    tasks = [task for task, _ in tasks_and_weights]
    weights = [weight for _, weight in tasks_and_weights]
    if not tasks or min(weights) < 0 or sum(weights) <= 0:
        raise ValueError("training_stream needs at least one task, weights >= 0 and one weight > 0")
    return _stream(tasks, weights, random.Random(seed))


def _stream(tasks: list[Task], weights: list[float], rng: random.Random) -> Iterator[Example]:
    while True:
        task = rng.choices(tasks, weights)[0]
        example = task.sample(rng)
        # Drawing again from the same task keeps the weights exact whatever share of a task is held out.
        while held_out(task.split_key(example)):
            example = task.sample(rng)
        yield example


_MOST_VAIN = 20_000
"""Draws in a row that bring nothing new, after which there is taken to be no more."""


def evaluation_set(task: Task, n: int, seed: int) -> list[Example]:
    """Returns `n` examples with distinct held-out prompts, the same ones for the same arguments.

    Raises:
        DataError: the task does not have `n` such prompts (or they are too rare to be found).
        TypeError: it draws something else than an `Example`.
    """
    return list(drawn_for_evaluation(task, n, seed))


def drawn_for_evaluation(task: Task, n: int, seed: int) -> Iterator[Example]:
    """Yields the examples of `evaluation_set` as they are drawn.

    Raises:
        DataError: behind the last one that there is, where there are not `n`.
        TypeError: as `evaluation_set`.
    """
    rng = random.Random(f"{task.name}/{seed}")
    found: set[str] = set()
    vain = 0
    while len(found) < n and vain < _MOST_VAIN:
        example = task.sample_evaluation(rng, len(found))
        if not isinstance(example, Example):
            raise TypeError(f"it draws gesso.tasks.base.Example, got {example!r:.60}")
        key = task.split_key(example)
        vain += 1
        if held_out(key) and key not in found:
            found.add(key)
            vain = 0
            yield example
    if len(found) < n:
        raise DataError(f"task {task.name!r} gave only {len(found)} of {n} distinct held-out prompts")
