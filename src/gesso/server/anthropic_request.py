"""Makes a chat completion of what Anthropic's clients send to `/v1/messages`."""

import json
from collections.abc import Sequence
from typing import Any

from gesso.server.anthropic_models import (
    AssistantTurn,
    Conversation,
    EncodedSource,
    ImageBlock,
    MessagesRequest,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    Turn,
)
from gesso.server.body import checked
from gesso.server.chat_models import ChatRequest
from gesso.server.errors import ApiError
from gesso.server.messages import EFFORT, MOST_THINKING
from gesso.server.requests import diffusion_given


def chat_request(body: MessagesRequest) -> ChatRequest:
    """Makes a chat completion of the same; a last message of the assistant is gone on with.

    Raises:
        ApiError: what has no place there.
    """
    turns, continued = list(body.messages), False
    if isinstance(last := turns[-1], AssistantTurn):
        if any(isinstance(block, ToolUseBlock) for block in last.content):
            raise ApiError(
                400, "messages: the last one calls a tool, so a message with its result follows", param="messages"
            )
        continued = bool(_text(last.content))
        if not continued:
            turns.pop()
        if len(body.messages) == 1:
            raise ApiError(400, "messages: the first one is the user's", param="messages")
    messages = [{"role": "system", "content": _text(body.system)}] if body.system else []
    for turn in turns:
        messages += _messages(turn)
    given: dict[str, Any] = {
        "model": body.model,
        "messages": messages,
        "continue_final_message": continued,
        "max_tokens": body.max_tokens,
        "stream": body.stream,
        "stop": body.stop_sequences,
        **body.model_dump(include={"temperature", "top_p", "top_k", "seed"}),
        "diffusion": diffusion_given(body.diffusion),
        **_tools(body),
        **_thinking(body),
    }
    wanted = body.output_format or (body.output_config.format if body.output_config is not None else None)
    if wanted is not None:
        schema = {"name": "answer", "schema": wanted.schema_}
        given["response_format"] = {"type": "json_schema", "json_schema": schema}
    return checked(ChatRequest, given)


def image_places(body: Conversation) -> list[str]:
    """Returns where the images of the messages stand, in order."""
    return [
        f"messages[{number}].content[{place}]"
        for number, turn in enumerate(body.messages)
        for place, block in enumerate(turn.content)
        if isinstance(block, ImageBlock)
    ]


def _content(blocks: Sequence[Any]) -> str | list[dict[str, Any]]:
    """What a turn says: a text, or its parts where there are images among them."""
    if not any(isinstance(block, ImageBlock) for block in blocks):
        return _text(blocks)
    parts: list[dict[str, Any]] = []
    for block in blocks:
        if isinstance(block, TextBlock):
            parts.append({"type": "text", "text": block.text})
        elif isinstance(block, ImageBlock):
            given = block.source
            url = f"data:{given.media_type};base64,{given.data}" if isinstance(given, EncodedSource) else given.url
            parts.append({"type": "image_url", "image_url": {"url": url}})
    return parts


def _text(content: str | Sequence[Any]) -> str:
    if isinstance(content, str):
        return content
    return "".join(block.text for block in content if isinstance(block, TextBlock))


def _messages(turn: Turn) -> list[dict[str, Any]]:
    """One turn as messages: each result of a tool is one of its own."""
    if isinstance(turn.content, str):
        return [{"role": turn.role, "content": turn.content}]
    found: list[dict[str, Any]] = []
    calls: list[dict[str, Any]] = []
    for block in turn.content:
        if isinstance(block, ToolResultBlock):
            text = _text(block.content)
            # The chat format has no other place for it.
            result = f"Error: {text}" if block.is_error else text
            found.append({"role": "tool", "tool_call_id": block.tool_use_id, "content": result})
        elif isinstance(block, ToolUseBlock):
            function = {"name": block.name, "arguments": json.dumps(block.input)}
            calls.append({"id": block.id, "type": "function", "function": function})
    if (content := _content(turn.content)) or calls or not found:
        said: dict[str, Any] = {"role": turn.role, "content": content}
        found.append({**said, "tool_calls": calls} if calls else said)
    return found


def _tools(body: MessagesRequest) -> dict[str, Any]:
    if not body.tools:
        return {}
    made: dict[str, Any] = {
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "parameters": tool.input_schema,
                    "description": tool.description,
                    "strict": tool.strict,
                },
            }
            for tool in body.tools
        ]
    }
    choice = body.tool_choice
    if choice is not None:
        words = {"auto": "auto", "any": "required", "none": "none"}
        named = {"type": "function", "function": {"name": choice.name}}
        made["tool_choice"] = words.get(choice.type, named)
        if choice.disable_parallel_tool_use:
            made["parallel_tool_calls"] = False
    return made


def _thinking(body: MessagesRequest) -> dict[str, Any]:
    """How long it thinks. An effort of `high` and above is the same as none; a lower one is a share of the answer's
    tokens."""
    effort = (body.output_config.effort if body.output_config is not None else None) or "high"
    thinking = body.thinking
    if thinking is None or thinking.type == "disabled":
        if EFFORT[effort] < MOST_THINKING:
            message = f"output_config.effort: {effort} needs thinking: it says how long the model may think"
            raise ApiError(400, message, param="output_config.effort", code="unsupported_value")
        return {}
    if thinking.budget_tokens is None:
        return {"reasoning_effort": effort}
    if EFFORT[effort] == MOST_THINKING:
        return {"thinking_budget": thinking.budget_tokens}
    return {"thinking_budget": min(thinking.budget_tokens, max(1, int(body.max_tokens * EFFORT[effort]) - 2))}
