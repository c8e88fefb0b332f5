"""Translates OpenAI's messages and fields to the prompt and the options of the engine."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import from_json

from gesso.diffusion.logits_processing import NEVER
from gesso.engine.engine import Engine
from gesso.server.chat_models import ChatRequest, ObjectFormat, SchemaFormat
from gesso.server.errors import ApiError
from gesso.server.message_models import AssistantMessage, Message, NamedTool
from gesso.server.option_fields import rows_under
from gesso.server.requests import Sampling

TOOL_CALL = "<|tool_call>"
MOST_THINKING = 0.75
"""Share of an answer's tokens that reasoning may take, so that there is always room for the rest."""
EFFORT = {"low": 0.25, "medium": 0.5, "high": MOST_THINKING, "xhigh": MOST_THINKING, "max": MOST_THINKING}
"""The same by the words of clients, of whom some have more words than there are shares."""


def template_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Converts messages to what chat templates take: arguments of calls as mappings, reasoning left out.

    Raises:
        ApiError: the arguments of a call are no JSON object.
    """
    return [_template_message(message, number) for number, message in enumerate(messages)]


def with_one_system_message(messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Makes one of the system messages that begin a conversation, with an empty line between them: chat formats have
    one."""
    leading = list(itertools.takewhile(lambda message: message["role"] == "system", messages))
    if len(leading) < 2:
        return list(messages)
    contents = [message["content"] for message in leading]
    rest = messages[len(leading) :]
    if all(isinstance(content, str) for content in contents):
        return [{**leading[0], "content": "\n\n".join(contents)}, *rest]
    parts = list[dict[str, Any]]()
    for content in contents:
        parts += [{"type": "text", "text": "\n\n"}] if parts else []
        parts += [{"type": "text", "text": content}] if isinstance(content, str) else content
    return [{**leading[0], "content": parts}, *rest]


SHOWN = 64
"""Characters of the address of an image that the log has: a data URL is the picture itself."""


def logged_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Converts messages to what the access log has of them, without the pictures."""
    logged = [message.model_dump(exclude_none=True) for message in messages]
    for message in logged:
        content = message.get("content")
        for part in content if isinstance(content, list) else ():
            if part["type"] != "text":
                part[part["type"]]["url"] = part[part["type"]]["url"][:SHOWN]
    return logged


def last_question(messages: Sequence[Message]) -> str:
    """Returns the text of the last message of a user, its parts one behind the other as the model reads them; empty
    where there is none."""
    asked = next((message for message in reversed(messages) if message.role == "user"), None)
    content = asked.model_dump(include={"content"})["content"] if asked is not None else ""
    texts = [content] if isinstance(content, str) else [part["text"] for part in content if part["type"] == "text"]
    return "".join(texts)


def _template_message(message: Message, number: int) -> dict[str, Any]:
    given = message.model_dump(include={"role", "content", "name", "tool_call_id"}, exclude_none=True)
    if given["role"] == "developer":
        given["role"] = "system"
    if isinstance(message, AssistantMessage):
        given.setdefault("content", "")
        if message.tool_calls:
            calls = enumerate(message.tool_calls)
            given["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {
                        "name": call.function.name,
                        "arguments": _arguments(call.function.arguments, f"messages[{number}].tool_calls[{place}]"),
                    },
                }
                for place, call in calls
            ]
    return given


def _arguments(text: str, path: str) -> dict[str, Any]:
    try:
        arguments = from_json(text or "{}", allow_inf_nan=False)
    except ValueError as error:
        arguments = error
    if not isinstance(arguments, dict):
        raise ApiError(400, "the arguments of a call must be a JSON object as text", param=f"{path}.function.arguments")
    return arguments


def sampling_options(request: Sampling, engine: Engine) -> dict[str, Any]:
    """Collects the engine's options that both kinds of completion have; what was not given is left out.

    Raises:
        ApiError: fields that contradict each other.
    """
    options: dict[str, Any] = {
        row.name: getattr(request, field) for field, row in rows_under("").items() if field in Sampling.model_fields
    }
    stop, bias = request.stop, request.logit_bias or {}
    options["stop"] = ((stop,) if isinstance(stop, str) else tuple(stop)) if stop else None
    options["logit_bias"] = {int(token): value for token, value in bias.items()} or None
    if request.diffusion is not None:
        given = request.diffusion.options()
        if None not in (request.ignore_eos, inner := given.get("ignore_eos")) and request.ignore_eos != inner:
            raise _contradiction("ignore_eos", "contradicts diffusion.ignore_eos")
        options |= given
    if request.ignore_eos is not None:
        options["ignore_eos"] = request.ignore_eos
    if request.stop_token_ids:
        if (token := max(request.stop_token_ids)) >= engine.config.vocab_size:
            message = f"names token {token}, the vocabulary has {engine.config.vocab_size}"
            raise _contradiction("stop_token_ids", message)
        own = () if options.pop("ignore_eos", False) else engine.defaults.eos_token_ids
        options["eos_token_ids"] = (*own, *request.stop_token_ids)
    if (outputs := request.structured_outputs) is not None:
        options |= {
            "regex": outputs.regex,
            "choices": outputs.choice,
            "grammar": outputs.grammar,
            "json_schema": outputs.json_,
        }
    return {name: value for name, value in options.items() if value is not None}


def chat_options(request: ChatRequest, engine: Engine) -> dict[str, Any]:
    """Collects the engine's options of a chat completion.

    Raises:
        ApiError: fields that contradict each other.
    """
    options = sampling_options(request, engine)
    if request.max_completion_tokens is not None:
        options["max_new_tokens"] = request.max_completion_tokens
    # The form is the text's: where calls are asked for there is none.
    form = None if request.asks_for_calls else request.response_format
    if isinstance(form, SchemaFormat):
        options["json_schema"] = form.json_schema.schema_
        options["strict_schema"] = form.json_schema.strict or None
    elif isinstance(form, ObjectFormat):
        options["json_object"] = True
    if request.prediction is not None and (text := request.prediction.text):
        options["prediction"] = text
    if request.mm_processor_kwargs is not None:
        options |= request.mm_processor_kwargs.options()
    options["begun"] = request.begun or None
    if request.logprobs:
        options["logprobs"] = request.top_logprobs or 0
    thinking = _thinking(
        request, options.get("max_new_tokens", engine.defaults.max_new_tokens), pinned="canvas" in options
    )
    if request.tools and request.tool_choice != "none":
        options["tools"] = [tool.model_dump(exclude_none=True) for tool in request.allowed_tools]
        if request.asks_for_calls:
            choice = request.wanted_calls
            options["tool_choice"] = choice.model_dump() if isinstance(choice, NamedTool) else choice
        if request.parallel_tool_calls is False:
            options["parallel_tool_calls"] = False
    elif request.tools and (call := engine.tokenizer.special.get(TOOL_CALL)) is not None:
        options["logit_bias"] = {**options.get("logit_bias", {}), call: NEVER}
    return {name: value for name, value in {**options, **thinking}.items() if value is not None}


def _thinking(request: ChatRequest, max_tokens: int, *, pinned: bool) -> dict[str, Any]:
    """`thinking` and how long; empty where the model answers at once, as it does where tokens are `pinned`."""
    template = request.chat_template_kwargs
    switch = template.enable_thinking if template else None
    inner = template.thinking_budget if template else None
    effort, budget = request.reasoning_effort, request.thinking_budget or inner
    off = effort in ("none", "minimal")
    if None not in (request.thinking_budget, inner) and request.thinking_budget != inner:
        raise _contradiction("thinking_budget", "contradicts chat_template_kwargs.thinking_budget")
    if effort is not None and switch is not None and switch == off:
        raise _contradiction("reasoning_effort", "contradicts chat_template_kwargs.enable_thinking")
    if effort is not None and budget is not None:
        raise _contradiction("thinking_budget", "is a budget, and so is reasoning_effort: give one of them")
    if budget is not None and switch is False:
        raise _contradiction("thinking_budget", "contradicts chat_template_kwargs.enable_thinking")
    if off or (effort is None and budget is None and not switch):
        return {}
    if pinned:
        asked = "thinking_budget" if budget is not None else "reasoning_effort"
        asked = "chat_template_kwargs.enable_thinking" if budget is None and effort is None else asked
        raise _contradiction(asked, "must be left out beside diffusion.canvas")
    if budget is None:
        return {"thinking": True, "thinking_share": EFFORT[effort or "high"]}
    if budget >= max_tokens:
        raise _contradiction("thinking_budget", f"must be below max_tokens, {max_tokens}")
    return {"thinking": True, "thinking_budget": budget}


def _contradiction(param: str, message: str) -> ApiError:
    return ApiError(400, f"{param}: {message}", param=param, code="unsupported_value")
