"""Makes a task of a file of training data: its prompts are asked, and what its lines answer is right."""

import dataclasses
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from gesso.control.grading import message_text
from gesso.engine.engine import Engine, Request
from gesso.errors import ContextLengthError, DataError, ImageError, OptionError, TextError, UserError
from gesso.tasks.base import Example, Task
from gesso.train.data_fields import ASSISTANT, parse_example, read_message, read_tools, text_of
from gesso.train.data_images import check_source, find_image
from gesso.train.numbered_lines import numbered_lines, told_with
from gesso.vision import NO_VISION


@dataclass(frozen=True, slots=True)
class LineExample(Example):
    """Holds what a line of a file asks and answers."""

    place: str = ""
    """File and number of the line."""
    messages: tuple[Mapping[str, Any], ...] = ()
    """Conversation up to the answer, of a line that shows images: each stands where the line has it."""


class FileTask(Task):
    """Asks what the lines of a file ask, the last answer of a chat. An answer is right that is the line's, white space
    around it aside, or that is the same JSON."""

    def __init__(self, path: Path, *, raw: bool = False) -> None:
        """
        Args:
            path: JSON lines as `gesso finetune` takes them: `prompt` and `completion`, or `messages` with an answer at
                their end, which may show images, and `tools`.
            raw: prompts are asked as they are, without the chat template, which chats need.

        Raises:
            OptionError: the file cannot be read.
            DataError: a line cannot be asked, which is named, or there is none.
        """
        self.name = path.name
        self.examples = _read(path, raw)

    def sample(self, rng: random.Random) -> LineExample:
        return rng.choice(self.examples)

    def chosen(self, count: int | None, seed: int) -> list[Example]:
        """Returns so many of the examples, drawn without repetition; all of them, in their order, for None or more than
        there are."""
        if count is None or count >= len(self.examples):
            return list(self.examples)
        return random.Random(f"{self.name}/{seed}").sample(self.examples, count)

    def grade(self, example: Example, text: str) -> bool:
        return text.strip() == example.answer.strip() or _is_same_json(text, example.answer)


@contextmanager
def told_with_line(engine: Engine, cases: Sequence[Example], requests: Sequence[Request]) -> Iterator[None]:
    """Says of what the engine refuses which line of a file it is, where it is the line and no option that is at fault.

    Args:
        cases: examples that are answered in the block.
        requests: one for each of them.

    Raises:
        DataError: a line shows an image to a model without eyes.
        UserError: a line cannot be asked.
    """
    try:
        yield
    except UserError:
        # Only now: a search asks in an order of its own, and what is asked without a fault is prepared once.
        for case, request in zip(cases, requests, strict=True):
            if isinstance(case, LineExample):
                _check(engine, case, request)
        raise


def _check(engine: Engine, case: LineExample, request: Request) -> None:
    if case.messages and engine.runner.vision is None:
        raise DataError(f"{case.place}: the line shows an image, and {NO_VISION}")
    try:
        engine.prepare(request, measure=False).finish()
    except (TextError, ImageError, ContextLengthError) as error:
        raise type(error)(f"{case.place}: {error}", option=error.option, hint=error.hint) from None


def _read(path: Path, raw: bool) -> tuple[LineExample, ...]:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise OptionError(f"{path} cannot be read: {error.strerror}", option="data") from None
    found = []
    for number, line in numbered_lines(BytesIO(content)):
        with told_with(place := f"{path}:{number}"):
            found.append(dataclasses.replace(_example(line, path, raw), place=place))
    if not found:
        raise DataError(f"{path} is empty: it has no line to ask")
    return tuple(found)


def _example(line: bytes, path: Path, raw: bool) -> LineExample:
    fields = parse_example(line, set())
    if fields.keys() <= {"prompt", "completion", "source"} and "completion" in fields:
        return LineExample(path.name, text_of(fields, "prompt"), text_of(fields, "completion"))
    if "messages" not in fields:
        raise DataError("a line is asked that has prompt and completion, or messages")
    if raw:
        raise DataError("raw takes pairs as they are, and messages need the chat template")
    messages = fields["messages"]
    if not isinstance(messages, list) or len(messages) < 2:
        raise DataError("messages must be a list: what is asked, and an answer at its end")
    read, shows = [], False
    for number, message in enumerate(messages, 1):
        with told_with(f"message {number}"):
            read.append(_found(read_message(message, "strip", set()), path.parent))
            shows |= _shows_images(read[-1])
    kinds = ["assistant" if message["role"] in ASSISTANT else message["role"] for message in read]
    begins = 1 if kinds[0] in ("system", "developer") else 0
    kinds = kinds[begins:]
    if kinds != ["user", "assistant"] * (len(kinds) // 2) or not kinds:
        raise DataError("messages that are asked are the user's and the model's by turns, with an answer at the end")
    texts = []
    for number, message in enumerate(read, 1):
        with told_with(f"message {number}"):
            texts.append(_text(message))
    *history, prompt, answer = texts[begins:]
    tools = tuple(json.dumps(tool) for tool in read_tools(fields["tools"])) if "tools" in fields else ()
    if not prompt.strip() and not _shows_images(read[-2]):
        raise DataError("the prompt is blank")
    return LineExample(
        path.name,
        prompt,
        answer,
        history=tuple(history),
        system="".join(texts[:begins]),
        tools=tools,
        messages=tuple(map(_asked, read[:-1])) if shows else (),
    )


def _shows_images(message: Mapping[str, Any]) -> bool:
    content = message.get("content")
    return isinstance(content, list) and any(part["type"] != "text" for part in content)


def _found(message: dict[str, Any], folder: Path) -> dict[str, Any]:
    """A message whose images are named as files that are there.

    Raises:
        DataError: one names no file, or a file that is not there.
    """
    if not _shows_images(message):
        return message
    return {**message, "content": [_located(part, folder) for part in message["content"]]}


def _located(part: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
    name = check_source(part)
    file = None if name is None else find_image(part[name], folder)
    return part if name is None or file is None else {**part, name: str(file.path)}


def _asked(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message as a request has it."""
    role = "assistant" if message["role"] in ASSISTANT else message["role"]
    return {"role": role, "content": message["content"]}


def _text(message: dict[str, Any]) -> str:
    """The text of a message.

    Raises:
        DataError: it calls a function.
    """
    if message.get("tool_calls"):
        raise DataError("calls of functions are not compared: leave the line out")
    return message_text(message)


def _is_same_json(text: str, answer: str) -> bool:
    """Says whether both are the same JSON object or array; a number is one text only."""
    try:
        found, wanted = json.loads(text), json.loads(answer)
    except (ValueError, RecursionError):
        return False
    return isinstance(wanted, dict | list) and json.dumps(found, sort_keys=True) == json.dumps(wanted, sort_keys=True)
