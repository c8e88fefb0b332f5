"""Parses tool calls as Gemma writes them: `call:NAME{key:value,...}`, between two special tokens that `output` looks
for.

A string stands between two quote tokens and may hold anything but that token; numbers, `true`, `false` and `null` are
JSON's; lists are `[v,v]`. Keys are bare (no braces, brackets, commas, colons or double quotes in them) or quoted as
strings are. White space counts only inside strings and keys. Of a key that comes twice the last value counts, as in
JSON. A number stays as it is written: a float would change some of its digits.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gesso.errors import TextError

CALL, CALL_END, QUOTE = "<|tool_call>", "<tool_call|>", '<|"|>'
MAX_DEPTH = 64
"""Deepest nesting of objects and lists, the arguments themselves included."""

SPACE = re.compile(r"[ \t\r\n]*")
NAME = re.compile(r"[A-Za-z0-9_.-]+")
KEY = re.compile(r'[^{}\[\],:"]+')
WORD = re.compile(r"[\w.+-]+")
NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
CONSTANTS = ("true", "false", "null")
LONGEST_INTEGER = 4300
"""Digits that Python reads of an integer, unless it is told otherwise."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """Holds a call of a function that the model asks for."""

    name: str
    arguments: str
    """A JSON object as text."""


def with_read_arguments(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns a message whose calls have their arguments as mappings, which chat templates take; OpenAI and `ToolCall`
    have them as JSON text. What is none is left to the template."""
    calls = message.get("tool_calls")
    if not isinstance(calls, Sequence) or isinstance(calls, str):
        return message
    return {**message, "tool_calls": [_with_read_arguments(call) for call in calls]}


def _with_read_arguments(call: Any) -> Any:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("arguments"), str):
        return call
    try:
        arguments = json.loads(function["arguments"])
    except (ValueError, RecursionError):
        return call
    return {**call, "function": {**function, "arguments": arguments}} if isinstance(arguments, dict) else call


def parse_tool_call(text: str) -> ToolCall:
    """Parses the call in `text`, which is what stands between the call's two special tokens, other special tokens as
    text.

    Raises:
        TextError: what is wrong with it, and at which character (counted from 0).
    """
    reader = _Reader(text)
    reader.expect("call:")
    name = reader.match(NAME, "a function name")
    reader.expect("{")
    arguments = reader.fields(depth=1)
    reader.skip_space()
    if reader.at < len(text):
        raise reader.error("something follows the closing brace")
    return ToolCall(name, arguments)


def _is_number(word: str) -> bool:
    """Whether it is a number of JSON that its readers take, and not for infinite."""
    found = NUMBER.fullmatch(word)
    if found is None:
        return False
    return math.isfinite(float(word)) if any(found.groups()) else len(word.lstrip("-")) <= LONGEST_INTEGER


class _Reader:
    """Reads a text from the left, values as JSON texts; `at` is where it is."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def error(self, what: str) -> TextError:
        rest = self.text[self.at : self.at + 20]
        return TextError(f"{what} at character {self.at}, {f'before {rest!r}' if rest else 'its end'}")

    def skip_space(self) -> None:
        found = SPACE.match(self.text, self.at)
        self.at = found.end() if found else self.at

    def take(self, mark: str) -> bool:
        """Steps over `mark` if it is next."""
        self.skip_space()
        found = self.text.startswith(mark, self.at)
        self.at += len(mark) if found else 0
        return found

    def expect(self, *marks: str) -> str:
        """Steps over the one of `marks` that is next."""
        found = next((mark for mark in marks if self.take(mark)), None)
        if found is None:
            raise self.error(f"{' or '.join(map(repr, marks))} is missing")
        return found

    def match(self, pattern: re.Pattern[str], what: str) -> str:
        """Steps over what `pattern` finds here."""
        self.skip_space()
        found = pattern.match(self.text, self.at)
        if found is None:
            raise self.error(f"{what} is missing")
        self.at = found.end()
        return found.group()

    def value(self, depth: int) -> str:
        if self.take(QUOTE):
            return json.dumps(self.string(), ensure_ascii=False)
        if self.take("{"):
            return self.fields(depth + 1)
        if self.take("["):
            return self.items(depth + 1)
        word = self.match(WORD, "a value")
        if word in CONSTANTS:
            return word
        if not _is_number(word):
            self.at -= len(word)
            raise self.error("no value that JSON could hold")
        return word

    def string(self) -> str:
        """Reads up to the next quote; the first one is behind."""
        end = self.text.find(QUOTE, self.at)
        if end < 0:
            self.at -= len(QUOTE)
            raise self.error("a string that is not closed")
        found, self.at = self.text[self.at : end], end + len(QUOTE)
        return found

    def fields(self, depth: int) -> str:
        """Reads an object whose brace is behind."""
        self.check(depth)
        found: dict[str, str] = {}
        more = not self.take("}")
        while more:
            self.skip_space()
            key = self.string() if self.take(QUOTE) else self.match(KEY, "a key").rstrip(" \t\r\n")
            self.expect(":")
            found[key] = self.value(depth)
            more = self.expect(",", "}") == ","
        members = (f"{json.dumps(key, ensure_ascii=False)}: {value}" for key, value in found.items())
        return f"{{{', '.join(members)}}}"

    def items(self, depth: int) -> str:
        """Reads a list whose bracket is behind."""
        self.check(depth)
        found: list[str] = []
        more = not self.take("]")
        while more:
            found.append(self.value(depth))
            more = self.expect(",", "]") == ","
        return f"[{', '.join(found)}]"

    def check(self, depth: int) -> None:
        if depth > MAX_DEPTH:
            self.at -= 1
            raise self.error(f"nested more than {MAX_DEPTH} deep")
