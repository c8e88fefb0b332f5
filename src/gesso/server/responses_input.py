"""Translates a request to `/v1/responses` to a chat completion's body."""

from collections.abc import Sequence
from typing import Any

from pydantic import TypeAdapter, ValidationError

from gesso.server.body import checked
from gesso.server.chat_models import ChatRequest
from gesso.server.errors import ApiError, from_validation
from gesso.server.requests import diffusion_given
from gesso.server.responses_models import (
    LOGPROBS,
    SHARED,
    AllowedFunctions,
    CallItem,
    CallOutputItem,
    ImagePart,
    Item,
    MessageItem,
    NamedFunction,
    ReasoningItem,
    ResponsesRequest,
    SchemaFormat,
    TextPart,
)
from gesso.server.responses_output import new_id

EARLIER = "previous_response_id"
"""The field that names the response before."""
_ITEMS: TypeAdapter[list[Item]] = TypeAdapter(list[Item])
_ID_OF = {"message": "msg", "function_call": "fc", "function_call_output": "fco", "reasoning": "rs"}
"""What the id of an item begins with, by its type."""


def chat_request(body: ResponsesRequest, messages: Sequence[dict[str, Any]]) -> ChatRequest:
    """Makes a chat completion of the same.

    Args:
        messages: the whole conversation, without instructions.

    Raises:
        ApiError: what has no place there.
    """
    said = [{"role": "system", "content": body.instructions}] if body.instructions else []
    given: dict[str, Any] = {
        "model": body.model,
        "messages": [*said, *messages],
        "max_tokens": body.max_output_tokens,
        "stream": body.stream,
        **body.model_dump(include={*SHARED, "seed", "parallel_tool_calls"}),
        "diffusion": diffusion_given(body.diffusion),
        "structured_outputs": _plain(body.structured_outputs),
        "reasoning_effort": None if body.reasoning is None else body.reasoning.effort,
        "response_format": _format(body),
    }
    if LOGPROBS in (body.include or ()):
        given |= {"logprobs": True, "top_logprobs": body.top_logprobs}
    if body.tools:
        given["tools"] = [
            {"type": "function", "function": tool.model_dump(exclude={"type"}, exclude_none=True)}
            for tool in body.tools
        ]
    given["tool_choice"] = _choice(body.tool_choice)
    return checked(ChatRequest, given)


def _choice(choice: str | NamedFunction | AllowedFunctions | None) -> Any:
    if isinstance(choice, NamedFunction):
        return {"type": "function", "function": {"name": choice.name}}
    if isinstance(choice, AllowedFunctions):
        tools = [_choice(tool) for tool in choice.tools]
        return {"type": "allowed_tools", "allowed_tools": {"mode": choice.mode, "tools": tools}}
    return choice


def _plain(part: Any) -> Any:
    return None if part is None else part.model_dump(exclude_unset=True, by_alias=True)


def _format(body: ResponsesRequest) -> dict[str, Any] | None:
    wanted = body.text.format if body.text is not None else None
    if wanted is None:
        return None
    if not isinstance(wanted, SchemaFormat):
        return {"type": wanted.type}
    schema = wanted.model_dump(exclude={"type"}, exclude_unset=True, by_alias=True)
    return {"type": "json_schema", "json_schema": schema}


def items_of(given: str | Sequence[Item]) -> Sequence[Item]:
    """Returns input as items; a text is what the user says."""
    return [MessageItem(role="user", content=given)] if isinstance(given, str) else given


def stored_items(given: Sequence[dict[str, Any]]) -> list[Item]:
    """Reads items that were told.

    Raises:
        ApiError: an answer among them has what no request may, such as a call of a name that is too long.
    """
    try:
        return _ITEMS.validate_python(given)
    except ValidationError as error:
        found = from_validation(error.errors(include_url=False, include_input=False), given)
        raise ApiError(400, f"what is stored cannot be asked again: {found.detail}", param=EARLIER) from None


def told_item(item: Item) -> dict[str, Any]:
    """Makes of an item what is told of it: with an id, and what a message says in parts."""
    kind = item.type or "message"
    fields = {**item.model_dump(exclude_none=True), "type": kind}
    if isinstance(item, MessageItem) and isinstance(item.content, str):
        part: dict[str, Any] = {"type": "input_text", "text": item.content}
        if item.role == "assistant":
            part = {"type": "output_text", "text": item.content, "annotations": [], "logprobs": []}
        fields["content"] = [part]
    if isinstance(item, ReasoningItem):
        fields.setdefault("summary", [])
    return {**fields, "id": item.id or new_id(_ID_OF[kind]), "status": item.status or "completed"}


def input_messages(given: Sequence[Item]) -> list[dict[str, Any]]:
    """Returns items as messages of a chat completion; calls belong to the answer before them."""
    messages: list[dict[str, Any]] = []
    for item in given:
        if isinstance(item, MessageItem):
            messages.append({"role": item.role, "content": _content(item.content)})
        elif isinstance(item, CallOutputItem):
            messages.append({"role": "tool", "tool_call_id": item.call_id, "content": _text(item.output)})
        elif isinstance(item, CallItem):
            if not messages or messages[-1]["role"] != "assistant":
                messages.append({"role": "assistant", "content": ""})
            function = {"name": item.name, "arguments": item.arguments}
            call = {"id": item.call_id, "type": "function", "function": function}
            messages[-1].setdefault("tool_calls", []).append(call)
    return messages


def image_places(given: str | Sequence[Item]) -> list[str]:
    """Returns where the images of the input stand, in order."""
    items = enumerate(given) if not isinstance(given, str) else ()
    return [
        f"input[{number}].content[{place}]"
        for number, item in items
        if isinstance(item, MessageItem)
        for place, part in enumerate(item.content)
        if isinstance(part, ImagePart)
    ]


def count_images(messages: Sequence[dict[str, Any]]) -> int:
    """Returns the number of images of messages as a chat completion has them."""
    contents = [message.get("content") for message in messages]
    return sum(part["type"] == "image_url" for content in contents if isinstance(content, list) for part in content)


def _content(content: str | Sequence[TextPart | ImagePart]) -> str | list[dict[str, Any]]:
    """What a message says: a text, or its parts where there are images among them."""
    if isinstance(content, str):
        return content
    if not any(isinstance(part, ImagePart) for part in content):
        return _text([part for part in content if isinstance(part, TextPart)])
    return [
        {"type": "text", "text": part.text}
        if isinstance(part, TextPart)
        else {"type": "image_url", "image_url": {"url": part.image_url, "detail": part.detail}}
        for part in content
    ]


def _text(content: str | Sequence[TextPart]) -> str:
    return content if isinstance(content, str) else "".join(part.text for part in content)
