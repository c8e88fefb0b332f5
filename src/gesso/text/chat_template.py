"""Renders a checkpoint's chat template in Jinja's sandbox."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import jinja2

from gesso.errors import CheckpointError, TextError
from gesso.json_files import read_json
from gesso.text.sandbox import BoundedEnvironment, bounded_filter, render
from gesso.text.sandbox_sizes import TemplateLimitError

Message = Mapping[str, Any]
MAX_PATTERN = 256
"""Characters of a pattern of the time; `strftime` makes at most as many times more of it."""


class ChatTemplate:
    """Renders chat messages into the text a checkpoint was trained on."""

    def __init__(self, source: str, tokens: Mapping[str, str]) -> None:
        """`tokens` are the names a template may use, such as `bos_token`.

        Raises:
            CheckpointError: the template cannot be compiled.
        """
        try:
            self._template = _compiled(source)
        except RecursionError:
            raise CheckpointError("the chat template cannot be read: it is nested too deeply") from None
        except Exception as error:  # noqa: BLE001 - what Jinja makes of it goes through Python's own compiler
            raise CheckpointError(f"the chat template cannot be read: {error}") from None
        self._tokens = dict(tokens)
        self.source = source
        """The template as the checkpoint has it."""

    @classmethod
    def from_folder(cls, folder: Path) -> "ChatTemplate | None":
        """Reads `chat_template.jinja`, or the `chat_template` of `tokenizer_config.json`; None where there is neither.

        Raises:
            CheckpointError: the template cannot be read, or there are several.
        """
        settings: Any = {}
        path = folder / "tokenizer_config.json"
        if path.exists():
            settings = read_json(path)
        template = folder / "chat_template.jinja"
        if template.exists():
            try:
                source = template.read_text(encoding="utf-8")
            except UnicodeDecodeError as error:
                raise CheckpointError(f"{template} is no UTF-8 text: {error}") from None
        elif settings.get("chat_template") is None:
            return None
        else:
            source = _only_template(settings["chat_template"], path)
        tokens = {}
        for name in ("bos_token", "eos_token", "pad_token", "unk_token"):
            value = settings.get(name)
            value = value.get("content") if isinstance(value, dict) else value
            tokens[name] = value if isinstance(value, str) and value else f"<{name[:3]}>"
        return cls(source, tokens)

    @cached_property
    def tells_names(self) -> bool:
        """Says whether a prompt tells who of the users a message is from, where it has a name."""
        said = {"role": "user", "content": "?"}
        try:
            return self.render([said]) != self.render([{**said, "name": "a"}])
        except TextError:
            return False

    def render(
        self,
        messages: Sequence[Message],
        *,
        thinking: bool = False,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
    ) -> str:
        """Returns the prompt text of a conversation.

        Raises:
            TextError: the template refuses the messages, tries what the sandbox forbids, or computes too much.
        """
        try:
            return render(
                self._template,
                {
                    "messages": list(messages),
                    "enable_thinking": thinking,
                    "tools": tools,
                    "add_generation_prompt": add_generation_prompt,
                    **self._tokens,
                },
            )
        except TemplateLimitError as error:
            raise TextError(f"the checkpoint's chat template is stopped: {error}") from None
        except Exception as error:  # noqa: BLE001 - a template is a program of the checkpoint's and may do anything
            raise TextError(f"the chat template refuses these messages: {error}") from None


@lru_cache(maxsize=8)
def _compiled(source: str) -> jinja2.Template:
    """Compiles a template, which takes half of the time in which a small model is loaded; the last few are kept."""
    environment = BoundedEnvironment()
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = _format_time
    environment.filters["tojson"] = bounded_filter("tojson", _to_json)
    return environment.from_string(source)


def _only_template(value: object, path: Path) -> str:
    """The template among `chat_template`'s forms: a text, or a list of named ones with one called `default`."""
    if isinstance(value, list):
        named = [part for part in value if isinstance(part, dict) and part.get("name") == "default"]
        value = named[-1].get("template") if named else None
    if not isinstance(value, str):
        raise CheckpointError(f"{path}: chat_template is no text, and no list with a template named default")
    return value


def _to_json(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _format_time(pattern: str) -> str:
    """Returns the time of now; a number in a pattern says how long its part becomes."""
    if len(pattern) > MAX_PATTERN:
        raise TemplateLimitError(f"it formats the time by a pattern of more than {MAX_PATTERN} characters")
    return datetime.now().astimezone().strftime(pattern)


def _refuse(message: str) -> None:
    raise jinja2.TemplateError(message)
