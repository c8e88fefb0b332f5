"""Turns one line of training data into conversations. Its errors name neither file nor line.

A line is one JSON object, of one of three kinds:

    {"messages": [...], "tools": [...]}       a chat: every assistant message is an example; tools may be left out.
                                              Parts of its messages may be images. "parallel_tool_calls", as OpenAI's
                                              files have it, asks nothing: a chat shows the calls that were made.
                                              "name" of a message goes to the chat template
    {"prompt": "...", "completion": "..."}    a pair: one user message and its answer; "source" may be the text that
                                              the completion changes, which canvases then may start from
    {"text": "..."}                           plain text, for continued pre-training

Other keys, such as "id" or "metadata", are not used, and those that may change what is learned are refused.
"""

from array import array
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gesso.errors import DataError
from gesso.train.data_encoder import DataEncoder
from gesso.train.data_fields import ASSISTANT, parse_example, read_message, read_tools, text_of
from gesso.train.data_keys import OTHER_FORMATS
from gesso.train.data_records import Change, Chat, RawPair, Record, Text

Vary = Callable[[Mapping[str, Any]], dict[str, Any]]


class LineReader:
    """Turns lines into examples. Its errors name neither file nor line."""

    unused: set[str]
    """Names of keys that were met and are not used."""

    def __init__(self, encoder: DataEncoder) -> None:
        self._encoder = encoder
        self.unused = set()

    def read(self, line: bytes, folder: Path, vary: Vary | None = None) -> Record:
        """Parses one line.

        Args:
            folder: of its file, which the names of images are relative to.
            vary: gives the fields that are read instead.

        Raises:
            DataError: it is no line of training data.
            TextError: its text has no tokens.
        """
        given = parse_example(line, self.unused)
        if vary is not None:
            given = vary(given)
        if "messages" in given and given.keys() <= {"messages", "tools", "parallel_tool_calls"}:
            if not isinstance(given.get("parallel_tool_calls", False), bool):
                raise DataError("parallel_tool_calls must be true or false")
            return self._chat(given["messages"], given.get("tools"), folder)
        if given.keys() == {"prompt", "completion"}:
            return self._pair(text_of(given, "prompt"), text_of(given, "completion"))
        if given.keys() == {"prompt", "completion", "source"}:
            prompt = text_of(given, "prompt")
            old, new = (self._pair(prompt, text_of(given, name)) for name in ("source", "completion"))
            return Change(old, new)
        if given.keys() == {"text"}:
            return Text(self._encoder, array("i", self._encoder.encode_after_bos(text_of(given, "text"))))
        raise DataError(
            "a line holds messages (and tools), or prompt and completion (and source), or text; "
            f"this one holds {', '.join(given) or 'nothing'}",
            hint=OTHER_FORMATS,
        )

    def _chat(self, messages: object, tools: object, folder: Path = Path()) -> Chat:
        if self._encoder.template is None:
            raise DataError("this model has no chat template, and so takes no messages; give prompt and completion")
        if not isinstance(messages, list) or not messages:
            raise DataError("messages must be a list, and not empty")
        functions = None if tools is None else read_tools(tools)
        read, parts, images = [], [], []
        for i, message in enumerate(messages):
            try:
                checked = read_message(message, self._encoder.config.thinking, self.unused)
                bare, shown = self._encoder.images.take(checked, folder)
                read.append(bare)
                images.append(shown)
            except DataError as error:
                raise DataError(f"message {i + 1}: {error}") from None
            if read[-1]["role"] in ASSISTANT and read[-1].pop("weight", 1):
                parts.append(i)
        if any(images):
            self._refuse_markers(read)
        if not parts:
            raise DataError("no assistant message to train on")
        if parts[0] == 0:
            raise DataError("message 1: nothing stands before this assistant message; give it weight 0 to keep it")
        if any("name" in said and said["role"] != "tool" for said in read) and not self._encoder.template.tells_names:
            self.unused.add("messages.name (the chat template has no place for it)")
        return Chat(self._encoder, self._encoder.template, read, functions or None, parts, images)

    def _refuse_markers(self, messages: Sequence[Mapping[str, Any]]) -> None:
        for i, message in enumerate(messages):
            try:
                self._encoder.refuse_markers(message.get("content"))
            except DataError as error:
                raise DataError(f"message {i + 1}: {error}") from None

    def _pair(self, prompt: str, completion: str) -> Chat | RawPair:
        if self._encoder.template is None or self._encoder.config.raw_pairs:
            return RawPair(self._encoder, prompt, completion)
        return self._chat([{"role": "user", "content": prompt}, {"role": "assistant", "content": completion}], None)
