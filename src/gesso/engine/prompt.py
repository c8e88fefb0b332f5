"""Prompts: a string, chat messages or token ids, to the ids that are encoded."""

from collections.abc import Mapping, Sequence
from typing import Any

from gesso.errors import OptionError, TextError
from gesso.text.chat_template import ChatTemplate
from gesso.text.tokenizer import Tokenizer

Prompt = str | Sequence[Mapping[str, Any]] | Sequence[int]


def prompt_ids(
    prompt: Prompt,
    tokenizer: Tokenizer,
    template: ChatTemplate | None,
    *,
    vocab_size: int,
    image_token_ids: Sequence[int] = (),
    raw: bool = False,
    thinking: bool = False,
    tools: Sequence[Mapping[str, Any]] = (),
) -> list[int]:
    """Token ids of a prompt.

    A string is a user message (as it stands with `raw`); a list of mappings is a conversation; a list of ints is
    taken as it is.

    Raises:
        TextError: an empty or misshapen prompt, an image, ids outside the vocabulary, or no chat template.
        OptionError: `thinking` or `tools` for a prompt that the chat template does not see.
    """
    if isinstance(prompt, str):
        if not prompt:
            raise TextError("the prompt is empty")
        messages: Sequence[Mapping[str, Any]] = [{"role": "user", "content": prompt}]
        ids = tokenizer.encode(prompt) if raw else _render(messages, tokenizer, template, thinking, tools)
    elif not isinstance(prompt, Sequence) or isinstance(prompt, bytes) or not prompt:
        raise TextError("the prompt must be a string, a list of chat messages or a list of token ids, not empty")
    elif all(isinstance(part, int) and not isinstance(part, bool) for part in prompt):
        ids = [int(part) for part in prompt if isinstance(part, int)]
    elif all(isinstance(part, Mapping) for part in prompt):
        if raw:
            raise TextError("raw takes a string or token ids, not chat messages")
        messages = [part for part in prompt if isinstance(part, Mapping)]
        ids = _render(messages, tokenizer, template, thinking, tools)
    else:
        raise TextError("the prompt mixes kinds: it must be chat messages only or token ids only")
    if not ids:
        raise TextError("the prompt is empty: it has no tokens")
    if (thinking or tools) and (raw or (not isinstance(prompt, str) and not isinstance(prompt[0], Mapping))):
        name, needs = ("thinking", "needs") if thinking else ("tools", "need")
        message = f"{name} {needs} the chat template: it goes with a string or chat messages, without raw"
        raise OptionError(message, option=name)
    for token in ids:
        if not 0 <= token < vocab_size:
            raise TextError(f"token id {token} is outside the vocabulary of {vocab_size}")
        if token in image_token_ids:
            raise TextError("the prompt holds an image; images are not supported yet")
    return ids


def _render(
    messages: Sequence[Mapping[str, Any]],
    tokenizer: Tokenizer,
    template: ChatTemplate | None,
    thinking: bool,
    tools: Sequence[Mapping[str, Any]],
) -> list[int]:
    if template is None:
        raise TextError("this checkpoint has no chat template; pass the prompt as it is with raw")
    for message in messages:
        content = message.get("content")
        for part in content if isinstance(content, list) else ():
            kind = part.get("type") if isinstance(part, Mapping) else None
            if kind != "text":
                raise TextError(f"a message holds a part of type {kind!r}; only text is supported yet")
    return tokenizer.encode(template.render(messages, thinking=thinking, tools=tools or None))
