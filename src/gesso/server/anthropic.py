"""Serves `POST /v1/messages`, as Anthropic's clients read it: a conversation that becomes a chat completion's."""

import json
import secrets
from collections.abc import AsyncIterator, Mapping
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response

from gesso.engine.events import BlockCommitted, DenoisingFrame, Finished
from gesso.engine.result import GenerationResult
from gesso.server.anthropic_models import MessagesRequest
from gesso.server.anthropic_request import chat_request, image_places
from gesso.server.body import JsonRoute
from gesso.server.chat import submit_chat
from gesso.server.choices import Choices
from gesso.server.context import Context
from gesso.server.errors import ApiError, error_body
from gesso.server.field_names import MESSAGES
from gesso.server.report import LeadingSpace, frame_report, report_of
from gesso.server.stream import DRAFT_EVENT, KEEP_ALIVE_SECONDS, EventStream, event
from gesso.text.tool_calls import ToolCall

PATH = "/v1/messages"


def anthropic_routes(context: Context) -> APIRouter:
    """Makes the route of Anthropic's messages over this engine."""
    router = APIRouter(route_class=JsonRoute, tags=["completions"])

    @router.post(PATH, response_model=None)
    async def messages(body: MessagesRequest, http: HttpRequest) -> Response:
        """Answers messages in Anthropic's form, whole or as a stream of events."""
        with MESSAGES.told():
            choices = await submit_chat(context, chat_request(body), http, image_places(body))
        reader = _Reader(body.model)
        if body.stream:
            return EventStream(choices, reader.events(choices), failure=_failure, last=b"")
        with MESSAGES.told():
            (result,) = await choices.wait(http.receive)
        return JSONResponse(reader.message(result))

    return router


class _Reader:
    """Writes what the engine says of one request as Anthropic's clients read it."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._id = f"msg_{secrets.token_hex(12)}"

    def message(self, result: GenerationResult) -> dict[str, Any]:
        """Writes the whole answer."""
        blocks: list[dict[str, Any]] = []
        if result.reasoning:
            blocks.append({"type": "thinking", "thinking": result.reasoning, "signature": ""})
        if result.text.strip() or not result.tool_calls:
            blocks.append({"type": "text", "text": result.text})
        blocks += [{**_opened_call(call), "input": json.loads(call.arguments)} for call in result.tool_calls]
        return {**self._head(result.prompt_tokens), "content": blocks, **_end(result), "usage": _usage(result)}

    async def events(self, choices: Choices) -> AsyncIterator[bytes]:
        """Writes the stream: a message that is opened, its blocks one after the other, and its end."""
        opened = {**self._head(choices.handles[0].prompt_tokens), "content": []}
        opened |= {"stop_reason": None, "stop_sequence": None}
        yield event("message_start", {"type": "message_start", "message": opened})
        writer = _Blocks()
        async for item in choices.events(KEEP_ALIVE_SECONDS):
            if item is None:
                yield event("ping", {"type": "ping"})
                continue
            _, happened = item
            if isinstance(happened, DenoisingFrame):
                yield event(DRAFT_EVENT, {"type": DRAFT_EVENT, "draft": frame_report(happened).model_dump()})
            elif isinstance(happened, BlockCommitted):
                for part in writer.block(happened):
                    yield part
            elif isinstance(happened, Finished):
                result = happened.result
                for part in writer.end(result):
                    yield part
                ended = {"type": "message_delta", "delta": _end(result), "usage": _usage(result)}
                yield event("message_delta", ended)
                yield event("message_stop", {"type": "message_stop"})

    def _head(self, prompt_tokens: int) -> dict[str, Any]:
        return {
            "id": self._id,
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "usage": {"input_tokens": prompt_tokens, "output_tokens": 0},
        }


class _Blocks:
    """Writes the blocks of a streamed message: at most one is open, and a new kind closes it."""

    def __init__(self) -> None:
        self._space = LeadingSpace()
        self._number = -1
        self._open = ""

    def block(self, block: BlockCommitted) -> list[bytes]:
        """Adds what a canvas does."""
        parts = self._add("thinking", block.reasoning) if block.reasoning else []
        if text := self._space.feed(block.text):
            parts += self._add("text", text)
        for call in block.tool_calls:
            parts += self._call(call)
        return parts

    def end(self, result: GenerationResult) -> list[bytes]:
        """Adds what was held back, and closes the block that is open."""
        text = self._space.flush(result)
        return [*([] if text is None else self._add("text", text)), *self._close()]

    def _add(self, kind: str, text: str) -> list[bytes]:
        """Text of a kind, `text` or `thinking`."""
        parts = []
        if self._open != kind:
            empty = {"type": kind, kind: "", **({"signature": ""} if kind == "thinking" else {})}
            parts += [*self._close(), self._start(kind, empty)]
        return [*parts, self._delta({"type": f"{kind}_delta", kind: text})]

    def _call(self, call: ToolCall) -> list[bytes]:
        """A call, which is a block of its own."""
        start = [*self._close(), self._start("tool_use", {**_opened_call(call), "input": {}})]
        return [*start, self._delta({"type": "input_json_delta", "partial_json": call.arguments}), *self._close()]

    def _close(self) -> list[bytes]:
        if not self._open:
            return []
        self._open = ""
        return [event("content_block_stop", {"type": "content_block_stop", "index": self._number})]

    def _start(self, kind: str, block: Mapping[str, Any]) -> bytes:
        self._open = kind
        self._number += 1
        fields = {"type": "content_block_start", "index": self._number, "content_block": block}
        return event("content_block_start", fields)

    def _delta(self, delta: Mapping[str, Any]) -> bytes:
        return event("content_block_delta", {"type": "content_block_delta", "index": self._number, "delta": delta})


def _opened_call(call: ToolCall) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"toolu_{secrets.token_hex(12)}", "name": call.name}


def _end(result: GenerationResult) -> dict[str, Any]:
    stop = None
    if result.finish_reason == "length":
        reason = "max_tokens"
    elif result.tool_calls:
        reason = "tool_use"
    else:
        stop = result.stop_string
        reason = "end_turn" if stop is None else "stop_sequence"
    return {"stop_reason": reason, "stop_sequence": stop, **report_of(result)}


def _usage(result: GenerationResult) -> dict[str, int]:
    return {
        "input_tokens": result.prompt_tokens - result.cached_tokens,
        "cache_read_input_tokens": result.cached_tokens,
        "cache_creation_input_tokens": 0,
        "output_tokens": result.completion_tokens,
    }


def _failure(error: ApiError) -> bytes:
    return event("error", error_body(MESSAGES.renamed(error), PATH))
