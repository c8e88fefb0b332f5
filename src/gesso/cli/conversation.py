"""Holds what was said in `gesso chat`, and what its commands do with it."""

import json
from pathlib import Path
from typing import Any

from gesso.cli.attachments import written_out

FENCE = '"""'
"""What a message of several lines begins and ends with."""


class Conversation:
    """Holds messages behind a system message, and the question whose answer is asked for."""

    def __init__(self, system: str | None) -> None:
        self._start: list[dict[str, Any]] = [] if system is None else [{"role": "system", "content": system}]
        self.messages = list(self._start)
        self.tries = 0
        """How often the last question was asked again."""
        self.before: dict[str, Any] | None = None
        """The answer that a question has which is asked again."""

    @property
    def begins(self) -> bool:
        """Says whether nothing was said yet."""
        return self.messages == self._start

    def ask(self, content: Any) -> None:
        """Adds a question."""
        self.messages.append({"role": "user", "content": content})
        self.tries, self.before = 0, None

    def answer(self, text: str) -> None:
        """Adds the answer to the question."""
        self.messages.append({"role": "assistant", "content": text})

    def give_up(self) -> str:
        """Forgets a question that has no answer, or keeps the answer that it had; returns what there is to say."""
        if self.before is not None:
            self.messages.append(self.before)
            return "the answer before stays"
        self.messages.pop()
        return "this turn is forgotten"

    def clear(self) -> None:
        """Forgets everything but the system message."""
        self.messages = list(self._start)

    def undo(self) -> bool:
        """Forgets the last question and its answer; returns whether there was one."""
        if self.begins:
            return False
        del self.messages[-2:]
        return True

    def reopen(self) -> bool:
        """Forgets the last answer, whose question is asked again; returns whether there was one."""
        if self.begins:
            return False
        self.before = self.messages.pop()
        self.tries += 1
        return True

    def save(self, name: str) -> str:
        """Appends the conversation to a file as a line of fine-tuning data; returns what there is to say of it.

        Raises:
            OptionError: there is nothing to save, no file, or a message with images, which are not kept as files.
            OSError: it cannot be written.
        """
        from gesso.errors import OptionError

        if not name:
            raise OptionError("/save needs the name of a file: /save FILE")
        if self.begins:
            raise OptionError("nothing was said yet")
        if not all(isinstance(message["content"], str) for message in self.messages):
            raise OptionError("a conversation with images or clips cannot be saved")
        path = written_out(name)
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps({"messages": self.messages}, ensure_ascii=False) + "\n")
        return f"saved as a line of {path}"
