"""A checkpoint's chat template, rendered in Jinja's sandbox."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

from gesso.errors import CheckpointError, TextError

Message = Mapping[str, Any]


class ChatTemplate:
    """Renders chat messages into the text a checkpoint was trained on."""

    def __init__(self, source: str, tokens: Mapping[str, str]) -> None:
        """`tokens` are the names a template may use, such as `bos_token`."""
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        environment.globals["raise_exception"] = _refuse
        environment.filters["tojson"] = lambda value, **kw: json.dumps(value, ensure_ascii=False, **kw)
        try:
            self._template = environment.from_string(source)
        except jinja2.TemplateError as error:
            raise CheckpointError(f"the chat template cannot be read: {error}") from None
        self._tokens = dict(tokens)

    @classmethod
    def from_folder(cls, folder: Path) -> "ChatTemplate | None":
        """`chat_template.jinja`, or the `chat_template` of `tokenizer_config.json`; None where there is neither."""
        settings: dict[str, Any] = {}
        path = folder / "tokenizer_config.json"
        if path.exists():
            try:
                settings = json.loads(path.read_text(encoding="utf-8"))
            except (UnicodeDecodeError, json.JSONDecodeError) as error:
                raise CheckpointError(f"{path} is no JSON: {error}") from None
        template = folder / "chat_template.jinja"
        source = template.read_text(encoding="utf-8") if template.exists() else settings.get("chat_template")
        if not isinstance(source, str):
            return None
        tokens = {}
        for name in ("bos_token", "eos_token", "pad_token", "unk_token"):
            value = settings.get(name)
            tokens[name] = value["content"] if isinstance(value, dict) else value or f"<{name[:3]}>"
        return cls(source, tokens)

    def render(
        self,
        messages: Sequence[Message],
        *,
        thinking: bool = False,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
    ) -> str:
        """The prompt text.

        Raises:
            TextError: the template refuses the messages, or tries what the sandbox forbids.
        """
        try:
            return self._template.render(
                messages=list(messages),
                enable_thinking=thinking,
                tools=tools,
                add_generation_prompt=add_generation_prompt,
                **self._tokens,
            )
        except (jinja2.TemplateError, TypeError, AttributeError, KeyError) as error:
            raise TextError(f"the chat template refuses these messages: {error}") from None


def _refuse(message: str) -> None:
    raise jinja2.TemplateError(message)
