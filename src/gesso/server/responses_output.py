"""Writes what `/v1/responses` answers: items, and the events of a stream of them."""

import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from gesso.engine.events import BlockCommitted, DenoisingFrame, Finished
from gesso.engine.result import GenerationResult, TokenLogprob
from gesso.server.choices import Choices
from gesso.server.errors import ApiError
from gesso.server.report import LeadingSpace, frame_report, report_of, token_logprobs
from gesso.server.responses_models import ResponsesRequest
from gesso.server.stream import DRAFT_EVENT, KEEP_ALIVE_SECONDS, comment, event
from gesso.text.tokenizer import Tokenizer
from gesso.text.tool_calls import ToolCall

_ECHOED = (
    "instructions", "max_output_tokens", "metadata", "previous_response_id", "prompt_cache_key", "safety_identifier",
    "service_tier", "temperature", "top_p", "user",
)  # fmt: skip
"""Fields of a request that stand in the response as they came."""


def new_id(kind: str) -> str:
    """Makes a fresh id, which nobody guesses."""
    return f"{kind}_{secrets.token_hex(16)}"


def skeleton(body: ResponsesRequest) -> dict[str, Any]:
    """Makes the response before there is anything in it."""
    said = body.model_dump(include=set(_ECHOED))
    given = body.text.format if body.text is not None else None
    form = {"type": "text"} if given is None else given.model_dump(exclude_none=True, by_alias=True)
    choice = body.tool_choice
    return {
        **said,
        "metadata": body.metadata or {},
        "id": new_id("resp"),
        "object": "response",
        "created_at": int(time.time()),
        "status": "in_progress",
        "background": False,
        "error": None,
        "incomplete_details": None,
        "model": body.model,
        "output": [],
        "parallel_tool_calls": body.parallel_tool_calls is not False,
        "reasoning": {"effort": None if body.reasoning is None else body.reasoning.effort, "summary": None},
        "store": body.store is not False,
        "text": {"format": form},
        "tool_choice": "auto" if choice is None else choice if isinstance(choice, str) else choice.model_dump(),
        "tools": [tool.model_dump() for tool in body.tools or ()],
        "truncation": "disabled",
        "usage": None,
    }


def finished(response: Mapping[str, Any], result: GenerationResult, items: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Completes the response with its items and what they took."""
    cut = result.finish_reason == "length"
    return {
        **response,
        "status": "incomplete" if cut else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "output": list(items),
        "usage": {
            "input_tokens": result.prompt_tokens,
            "input_tokens_details": {"cached_tokens": result.cached_tokens, "cache_write_tokens": 0},
            "output_tokens": result.completion_tokens,
            "output_tokens_details": {"reasoning_tokens": result.reasoning_tokens},
            "total_tokens": result.prompt_tokens + result.completion_tokens,
        },
        **report_of(result),
    }


def output_items(result: GenerationResult, tokenizer: Tokenizer) -> list[dict[str, Any]]:
    """Makes items of a finished answer."""
    status = "incomplete" if result.finish_reason == "length" else "completed"
    items = [_reasoning(new_id("rs"), result.reasoning, status)] if result.reasoning else []
    if result.text.strip() or not result.tool_calls:
        items.append(_message(new_id("msg"), result.text, status, _logprobs(result.logprobs, tokenizer)))
    return [*items, *(_call(new_id("fc"), new_id("call"), call, "completed") for call in result.tool_calls)]


def _reasoning(identity: str, text: str, status: str) -> dict[str, Any]:
    content = [{"type": "reasoning_text", "text": text}] if text else []
    return {"id": identity, "type": "reasoning", "summary": [], "content": content, "status": status}


def _message(identity: str, text: str | None, status: str, logprobs: list[Any]) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": logprobs}
    content = [] if text is None else [part]
    return {"id": identity, "type": "message", "role": "assistant", "status": status, "content": content}


def _call(identity: str, call_id: str, call: ToolCall, status: str) -> dict[str, Any]:
    return {
        "id": identity,
        "type": "function_call",
        "call_id": call_id,
        "name": call.name,
        "arguments": call.arguments,
        "status": status,
    }


def _logprobs(tokens: Sequence[TokenLogprob], tokenizer: Tokenizer) -> list[dict[str, Any]]:
    return [token.model_dump() for token in token_logprobs(tokens, tokenizer)]


class ResponseStream:
    """Writes the events of one response."""

    def __init__(self, response: dict[str, Any], done: Callable[[dict[str, Any]], None], tokenizer: Tokenizer) -> None:
        """
        Args:
            response: its skeleton.
            done: gets the whole response before its last event.
            tokenizer: tells what bytes the tokens of log-probabilities are.
        """
        self._response = response
        self._done = done
        self._tokenizer = tokenizer
        self._number = 0
        self._items: list[dict[str, Any]] = []
        self._open = ""
        """Kind of the item that is open: `reasoning`, `message` or none."""
        self._text = ""
        self._logprobs: list[dict[str, Any]] = []
        self._waiting: list[dict[str, Any]] = []
        """Log-probabilities of tokens without text of their own: they go out with the next text."""
        self._space = LeadingSpace()

    async def events(self, choices: Choices) -> AsyncIterator[bytes]:
        """Writes all of them, until the response is complete."""
        for kind in ("created", "in_progress"):
            yield self._event(f"response.{kind}", response=self._response)
        async for item in choices.events(KEEP_ALIVE_SECONDS):
            if item is None:
                yield comment(f"{choices.position} requests wait before this one")
                continue
            _, happened = item
            if isinstance(happened, DenoisingFrame):
                yield self._event(DRAFT_EVENT, draft=frame_report(happened).model_dump())
            elif isinstance(happened, BlockCommitted):
                for part in self._block(happened):
                    yield part
            elif isinstance(happened, Finished):
                for part in self._end(happened.result):
                    yield part

    def failure(self, error: ApiError) -> bytes:
        """Writes the event of an error inside the stream."""
        fault = error.body["error"]
        return self._event("error", code=fault["code"], message=fault["message"], param=fault["param"])

    def _block(self, block: BlockCommitted) -> list[bytes]:
        parts = []
        self._waiting += _logprobs(block.logprobs, self._tokenizer)
        if block.reasoning:
            parts += [*self._opened("reasoning"), self._delta("response.reasoning_text.delta", block.reasoning)]
        if text := self._space.feed(block.text):
            parts += self._said(text)
        for call in block.tool_calls:
            parts += self._called(call)
        return parts

    def _end(self, result: GenerationResult) -> list[bytes]:
        text = self._space.flush(result)
        parts = [] if text is None else self._said(text)
        status = "incomplete" if result.finish_reason == "length" else "completed"
        parts += self._close(status)
        for item in [item for item in self._items if item["type"] == "message"][-1:]:
            item["content"][0]["logprobs"] += self._waiting  # of what stands behind its text, such as calls
        whole = finished(self._response, result, self._items)
        self._done(whole)
        return [*parts, self._event(f"response.{whole['status']}", response=whole)]

    def _opened(self, kind: str) -> list[bytes]:
        """The events that open an item of this kind, where another one is open or none."""
        if self._open == kind:
            return []
        parts = self._close("completed")
        self._open, self._text, self._logprobs = kind, "", []
        if kind == "reasoning":
            item = _reasoning(new_id("rs"), "", "in_progress")
        else:
            item = _message(new_id("msg"), None, "in_progress", [])
        self._items.append(item)
        parts.append(self._event("response.output_item.added", output_index=self._place, item=item))
        parts.append(self._part("response.content_part.added", ""))
        return parts

    def _close(self, status: str) -> list[bytes]:
        """The events that close the item that is open."""
        if not self._open:
            return []
        if self._open == "message" and self._waiting:
            return [*self._said(""), *self._close(status)]
        item, kind = self._items[-1], self._open
        if kind == "reasoning":
            whole = _reasoning(item["id"], self._text, status)
            done = self._event("response.reasoning_text.done", **self._where(), text=self._text)
        else:
            whole = _message(item["id"], self._text, status, self._logprobs)
            where = self._where()
            done = self._event("response.output_text.done", **where, text=self._text, logprobs=self._logprobs)
        parts = [done, self._part("response.content_part.done", self._text)]
        self._open = ""
        self._items[-1] = whole
        return [*parts, self._event("response.output_item.done", output_index=self._place, item=whole)]

    def _called(self, call: ToolCall) -> list[bytes]:
        parts = self._close("completed")
        item = _call(new_id("fc"), new_id("call"), ToolCall(call.name, ""), "in_progress")
        self._items.append(item)
        place, identity = self._place, item["id"]
        parts.append(self._event("response.output_item.added", output_index=place, item=item))
        where = {"item_id": identity, "output_index": place}
        parts.append(self._event("response.function_call_arguments.delta", **where, delta=call.arguments))
        ended = {**where, "name": call.name, "arguments": call.arguments}
        parts.append(self._event("response.function_call_arguments.done", **ended))
        whole = self._items[-1] = _call(identity, item["call_id"], call, "completed")
        return [*parts, self._event("response.output_item.done", output_index=place, item=whole)]

    def _said(self, text: str) -> list[bytes]:
        """The events of text of the message, with the log-probabilities that waited for it."""
        parts = self._opened("message")
        logprobs, self._waiting = self._waiting, []
        self._logprobs += logprobs
        if text or logprobs:
            parts.append(self._delta("response.output_text.delta", text, logprobs=logprobs))
        return parts

    def _delta(self, kind: str, text: str, **fields: Any) -> bytes:
        self._text += text
        return self._event(kind, **self._where(), delta=text, **fields)

    def _part(self, kind: str, text: str) -> bytes:
        part: dict[str, Any] = {"type": "reasoning_text", "text": text}
        if self._open == "message":
            part = {"type": "output_text", "text": text, "annotations": [], "logprobs": self._logprobs}
        return self._event(kind, **self._where(), part=part)

    @property
    def _place(self) -> int:
        return len(self._items) - 1

    def _where(self) -> dict[str, Any]:
        return {"item_id": self._items[-1]["id"], "output_index": self._place, "content_index": 0}

    def _event(self, kind: str, **fields: Any) -> bytes:
        number, self._number = self._number, self._number + 1
        return event(kind, {"type": kind, "sequence_number": number, **fields})
