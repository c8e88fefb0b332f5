"""Turns a prompt (a string, chat messages or token ids) into the ids that are encoded."""

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
    max_tokens: int | None = None,
) -> list[int]:
    """Returns the token ids of a prompt.

    A string is a user message (as it stands with `raw`); a list of mappings is a conversation; a list of ints is
    taken as it is.

    Args:
        max_tokens: positions that there are; a text that cannot fit them is refused before it is tokenized.

    Raises:
        TextError: an empty, blank or misshapen prompt, one that is too long, an image, ids outside the vocabulary, or
            no chat template.
        OptionError: `thinking` or `tools` for a prompt that the chat template does not see.
    """
    text = _text(prompt, template, raw=raw, thinking=thinking, tools=tools)
    if text is None:
        ids = [int(part) for part in prompt if isinstance(part, int)]
    else:
        ids = encode_text(tokenizer, text, "the prompt", max_tokens)
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


def _text(
    prompt: Prompt,
    template: ChatTemplate | None,
    *,
    raw: bool,
    thinking: bool,
    tools: Sequence[Mapping[str, Any]],
) -> str | None:
    """Returns the text that a prompt stands for; None where it is token ids."""
    if isinstance(prompt, str):
        if not prompt:
            raise TextError("the prompt is empty")
        if raw:
            return prompt
        if prompt.isspace():
            raise TextError("the prompt is blank: it holds nothing but white space")
        return _render([{"role": "user", "content": prompt}], template, thinking, tools)
    if not isinstance(prompt, Sequence) or isinstance(prompt, bytes) or not prompt:
        raise TextError("the prompt must be a string, a list of chat messages or a list of token ids, not empty")
    if all(isinstance(part, int) and not isinstance(part, bool) for part in prompt):
        return None
    if not all(isinstance(part, Mapping) for part in prompt):
        raise TextError("the prompt mixes kinds: it must be chat messages only or token ids only")
    if raw:
        raise TextError("raw takes a string or token ids, not chat messages")
    return _render([part for part in prompt if isinstance(part, Mapping)], template, thinking, tools)


def encode_text(
    tokenizer: Tokenizer, text: str, name: str, max_tokens: int | None, *, option: str | None = None
) -> list[int]:
    """Tokenizes a text, unless its characters alone say that it has more than `max_tokens`.

    Args:
        name: what an error calls the text.
        max_tokens: None takes a text of any length.
        option: the option that the text is of, where it is not the prompt.

    Raises:
        TextError: the text is too long, or no valid Unicode.
    """
    # A text of no more characters than tokens fits at any rate: nobody has to know how long tokens are.
    most = len(text) if max_tokens is None or len(text) <= max_tokens else max_tokens * tokenizer.max_characters
    if len(text) > most:
        raise TextError(
            f"{name} is too long: it has {len(text):,} characters, and no more than {most:,} can fit the "
            f"{max_tokens:,} tokens that there is room for",
            option=option,
        )
    return tokenizer.encode(text)


def _render(
    messages: Sequence[Mapping[str, Any]],
    template: ChatTemplate | None,
    thinking: bool,
    tools: Sequence[Mapping[str, Any]],
) -> str:
    if template is None:
        raise TextError("this checkpoint has no chat template; pass the prompt as it is with raw")
    for message in messages:
        content = message.get("content")
        for part in content if isinstance(content, list) else ():
            kind = part.get("type") if isinstance(part, Mapping) else None
            if kind != "text":
                raise TextError(f"a message holds a part of type {kind!r}; only text is supported yet")
    return template.render(messages, thinking=thinking, tools=tools or None)
