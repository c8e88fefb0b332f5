"""Makes a task of a file of training data: its prompts are asked, and what its lines answer is right."""

import json
import random
from io import BytesIO
from pathlib import Path
from typing import Any

from gesso.control.grading import message_text
from gesso.errors import DataError, OptionError
from gesso.tasks.base import Example, Task
from gesso.train.data_fields import ASSISTANT, parse_example, read_message, read_tools, text_of
from gesso.train.numbered_lines import numbered_lines, told_with


class FileTask(Task):
    """Asks what the lines of a file ask, the last answer of a chat. An answer is right that is the line's, white space
    around it aside, or that is the same JSON."""

    def __init__(self, path: Path, *, raw: bool = False) -> None:
        """
        Args:
            path: JSON lines as `gesso finetune` takes them: `prompt` and `completion`, or `messages` with an answer at
                their end, and `tools`.
            raw: prompts are asked as they are, without the chat template, which chats need.

        Raises:
            OptionError: the file cannot be read.
            DataError: a line cannot be asked, which is named, or there is none.
        """
        self.name = path.name
        self.examples = _read(path, raw)

    def sample(self, rng: random.Random) -> Example:
        return rng.choice(self.examples)

    def chosen(self, count: int | None, seed: int) -> list[Example]:
        """Returns so many of the examples, drawn without repetition; all of them, in their order, for None or more than
        there are."""
        if count is None or count >= len(self.examples):
            return list(self.examples)
        return random.Random(f"{self.name}/{seed}").sample(self.examples, count)

    def grade(self, example: Example, text: str) -> bool:
        return text.strip() == example.answer.strip() or _is_same_json(text, example.answer)


def _read(path: Path, raw: bool) -> tuple[Example, ...]:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise OptionError(f"{path} cannot be read: {error.strerror}", option="data") from None
    found = []
    for number, line in numbered_lines(BytesIO(content)):
        with told_with(f"{path}:{number}"):
            found.append(_example(line, path.name, raw))
    if not found:
        raise DataError(f"{path} is empty: it has no line to ask")
    return tuple(found)


def _example(line: bytes, name: str, raw: bool) -> Example:
    fields = parse_example(line, set())
    if fields.keys() <= {"prompt", "completion", "source"} and "completion" in fields:
        return Example(name, text_of(fields, "prompt"), text_of(fields, "completion"))
    if "messages" not in fields:
        raise DataError("a line is asked that has prompt and completion, or messages")
    if raw:
        raise DataError("raw takes pairs as they are, and messages need the chat template")
    messages = fields["messages"]
    if not isinstance(messages, list) or len(messages) < 2:
        raise DataError("messages must be a list: what is asked, and an answer at its end")
    read = []
    for number, message in enumerate(messages, 1):
        with told_with(f"message {number}"):
            read.append(read_message(message, "strip", set()))
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
    if not prompt.strip():
        raise DataError("the prompt is blank")
    return Example(name, prompt, answer, history=tuple(history), system="".join(texts[:begins]), tools=tools)


def _text(message: dict[str, Any]) -> str:
    """The text of a message, which has nothing else.

    Raises:
        DataError: it calls a function, or shows an image.
    """
    if message.get("tool_calls"):
        raise DataError("calls of functions are not compared: leave the line out")
    content = message.get("content")
    if isinstance(content, list) and any(part.get("type") != "text" for part in content):
        raise DataError("images are not asked about here: leave the line out")
    return message_text(message)


def _is_same_json(text: str, answer: str) -> bool:
    """Says whether both are the same JSON object or array; a number is one text only."""
    try:
        found, wanted = json.loads(text), json.loads(answer)
    except (ValueError, RecursionError):
        return False
    return isinstance(wanted, dict | list) and json.dumps(found, sort_keys=True) == json.dumps(wanted, sort_keys=True)
