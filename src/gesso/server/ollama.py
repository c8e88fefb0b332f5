"""Serves `/api/chat` and `/api/generate`, as Ollama's clients read them."""

import json
import time
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from anyio import to_thread
from fastapi import APIRouter
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response

from gesso.engine.events import BlockCommitted, Finished
from gesso.engine.result import GenerationResult, TokenLogprob
from gesso.server.body import UntypedJsonRoute, checked
from gesso.server.chat import submit_chat
from gesso.server.chat_models import ChatRequest
from gesso.server.choices import Choices
from gesso.server.completions import submit_text
from gesso.server.context import Context
from gesso.server.errors import ApiError, error_body
from gesso.server.fill import insert
from gesso.server.ollama_catalogue import plain_name
from gesso.server.ollama_models import (
    LAST_N,
    ModelOptions,
    OllamaChatRequest,
    OllamaGenerateRequest,
    OllamaMessage,
    OllamaRequest,
)
from gesso.server.report import report_of, token_logprobs
from gesso.server.requests import CompletionRequest, diffusion_given
from gesso.server.stream import KEEP_ALIVE_SECONDS, EventStream
from gesso.text.tokenizer import Tokenizer
from gesso.text.tool_calls import ToolCall

NDJSON = "application/x-ndjson"
Write = Callable[[str, str, tuple[ToolCall, ...]], dict[str, Any]]
"""Text, reasoning and calls as fields of one line."""


def ollama_routes(context: Context) -> APIRouter:
    """Makes the routes of Ollama's interface over this engine."""
    router = APIRouter(route_class=UntypedJsonRoute, tags=["completions"])
    tokenizer = context.service.engine.tokenizer

    @router.post("/api/chat", response_model=None)
    async def chat(body: OllamaChatRequest, http: HttpRequest) -> Response:
        """Answers messages, whole or as lines of JSON."""
        name = _name(context, body)
        if not body.messages:
            return JSONResponse(_line(body.model, _message("", "", ()), done=True, done_reason="load"))
        request = chat_request(body, name, chat_messages(body.messages), body.tools or ())
        places = [
            f"messages[{number}].images[{place}]"
            for number, message in enumerate(body.messages)
            for place in range(len(message.images or ()))
        ]
        choices = await submit_chat(context, request, http, places=places)
        return await _answer(body, choices, http, _message, tokenizer)

    @router.post("/api/generate", response_model=None)
    async def generate(body: OllamaGenerateRequest, http: HttpRequest) -> Response:
        """Answers one prompt, whole or as lines of JSON, or fills in what stands before a suffix."""
        name = _name(context, body)
        if not body.prompt and not body.images:
            return JSONResponse(_line(body.model, _response("", "", ()), done=True, done_reason="load"))
        if body.suffix:
            given = {**_settings(body, name), "prompt": body.prompt, "suffix": body.suffix, "stream": None}
            filled = await insert(context, checked(CompletionRequest, given), http)
            (found,) = filled.choices
            assert filled.usage is not None
            counts = {"prompt_eval_count": filled.usage.prompt_tokens, "eval_count": filled.usage.completion_tokens}
            ended = {"done": True, "done_reason": found.finish_reason, **counts}
            line = _line(body.model, {"response": found.text}, **ended)
            return _lines([line]) if body.streams else JSONResponse(line)
        if body.raw:
            likely = {"logprobs": body.top_logprobs or 0} if body.logprobs else {}
            given = {**_settings(body, name), "prompt": body.prompt, **_outputs(body), **likely}
            wanted = checked(CompletionRequest, given)
            choices = await submit_text(context, wanted, http)
        else:
            system = [{"role": "system", "content": body.system}] if body.system else []
            asked: list[dict[str, Any]] = [*system, {"role": "user", "content": _content(body.prompt, body.images)}]
            places = [f"images[{place}]" for place in range(len(body.images or ()))]
            choices = await submit_chat(context, chat_request(body, name, asked, ()), http, places=places)
        return await _answer(body, choices, http, _response, tokenizer)

    return router


def _name(context: Context, body: OllamaRequest) -> str:
    """The model's id, with or without a tag; a length that is asked for has to be there."""
    name = plain_name(context, body.model)
    if body.options is not None:
        context.check_length(body.options.num_ctx, "options.num_ctx")
        context.check_length(body.options.num_predict, "options.num_predict")
    return name


def _settings(body: OllamaRequest, name: str) -> dict[str, Any]:
    """Fields of any completion."""
    options = body.options
    given: dict[str, Any] = {
        "model": name,
        "stream": body.streams or None,
        "diffusion": diffusion_given(body.diffusion),
    }
    if options is not None:
        given |= options.model_dump(
            include={"temperature", "top_p", "top_k", "min_p", "seed", "stop"}, exclude_none=True
        )
        given |= _penalties(options)
        if options.seed == -1:
            del given["seed"]
        given["max_tokens"] = None if options.num_predict in (None, -1, -2) else options.num_predict
    return given


def _penalties(options: ModelOptions) -> dict[str, Any]:
    """What there is of penalties, and what they look at."""
    if not options.penalises:
        return {}
    last = LAST_N if options.repeat_last_n is None else options.repeat_last_n
    return {
        "repetition_penalty": options.repeat_penalty,
        "frequency_penalty": options.frequency_penalty,
        "presence_penalty": options.presence_penalty,
        "penalty_window": None if last == -1 else last,
    }


def _outputs(body: OllamaRequest) -> dict[str, Any]:
    """The form of an answer that has no template."""
    if not body.format:
        return {}
    return {"structured_outputs": {"json": {"type": "object"} if body.format == "json" else body.format}}


def chat_request(body: OllamaRequest, name: str, messages: list[dict[str, Any]], tools: Any) -> ChatRequest:
    """Makes a chat completion of the same.

    Raises:
        ApiError: what has no place there.
    """
    given = {**_settings(body, name), "messages": messages}
    if tools:
        given["tools"] = [tool.model_dump(exclude_none=True) for tool in tools]
    if body.format == "json":
        given["response_format"] = {"type": "json_object"}
    elif body.format:
        schema = {"name": "answer", "schema": body.format}
        given["response_format"] = {"type": "json_schema", "json_schema": schema}
    if body.logprobs:
        given |= {"logprobs": True, "top_logprobs": body.top_logprobs}
    if isinstance(body.think, str):
        given["reasoning_effort"] = body.think
    elif body.think is not None:
        given["chat_template_kwargs"] = {"enable_thinking": body.think}
    return checked(ChatRequest, given)


def chat_messages(messages: Sequence[OllamaMessage]) -> list[dict[str, Any]]:
    """Writes messages as a chat completion has them.

    Calls have no ids here: a result belongs to the call that it names, or to the first that has none yet.
    """
    found, waiting = list[dict[str, Any]](), list[str]()
    for message in messages:
        one: dict[str, Any] = {"role": message.role, "content": _content(message.content, message.images)}
        if message.role == "tool":
            name = message.tool_name or message.name
            call = message.tool_call_id or name or (waiting[0] if waiting else "call")
            if call in waiting:
                waiting.remove(call)
            one["tool_call_id"] = call
            if name:
                one["name"] = name
        if message.tool_calls:
            waiting = [call.id or call.function.name for call in message.tool_calls]
            one["tool_calls"] = [
                {
                    "id": identity,
                    "type": "function",
                    "function": {"name": call.function.name, "arguments": json.dumps(call.function.arguments)},
                }
                for identity, call in zip(waiting, message.tool_calls, strict=True)
            ]
        found.append(one)
    return found


def _content(text: str, images: Sequence[str] | None) -> str | list[dict[str, Any]]:
    """What a message says: its text, behind its images where it has any."""
    if not images:
        return text
    shown = [{"type": "image_url", "image_url": {"url": f"data:;base64,{image}"}} for image in images]
    return [*shown, *([{"type": "text", "text": text}] if text else [])]


async def _answer(
    body: OllamaRequest, choices: Choices, http: HttpRequest, write: Write, tokenizer: Tokenizer
) -> Response:
    started = time.monotonic()
    if body.streams:
        lines = _stream(body.model, choices, write, started, tokenizer)
        return EventStream(choices, lines, failure=_failure, last=b"", media_type=NDJSON)
    (result,) = await choices.wait(http.receive)

    def answer() -> Response:
        fields = {**write(result.text, result.reasoning, result.tool_calls), **_logprobs(result.logprobs, tokenizer)}
        return JSONResponse(_line(body.model, fields, **_end(result, started)))

    return await to_thread.run_sync(answer) if result.logprobs else answer()


async def _stream(
    model: str, choices: Choices, write: Write, started: float, tokenizer: Tokenizer
) -> AsyncIterator[bytes]:
    """One line for each block, empty ones while nothing happens, and a last one with what it took."""
    async for item in choices.events(KEEP_ALIVE_SECONDS):
        if item is None:
            yield _encoded(_line(model, write("", "", ()), done=False))
            continue
        _, happened = item
        if isinstance(happened, BlockCommitted):
            likely = _logprobs(happened.logprobs, tokenizer)
            if happened.text or happened.reasoning or happened.tool_calls or likely:
                fields = write(happened.text, happened.reasoning, happened.tool_calls)
                yield _encoded(_line(model, {**fields, **likely}, done=False))
        elif isinstance(happened, Finished):
            yield _encoded(_line(model, write("", "", ()), **_end(happened.result, started)))


def _message(text: str, thinking: str, calls: tuple[ToolCall, ...]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if thinking:
        message["thinking"] = thinking
    if calls:
        named = [{"function": {"name": call.name, "arguments": json.loads(call.arguments)}} for call in calls]
        message["tool_calls"] = named
    return {"message": message}


def _response(text: str, thinking: str, calls: tuple[ToolCall, ...]) -> dict[str, Any]:
    # A call that nobody asked for, as there were no tools, stands beside the text.
    extra: dict[str, Any] = {"thinking": thinking} if thinking else {}
    if calls:
        extra["tool_calls"] = _message("", "", calls)["message"]["tool_calls"]
    return {"response": text, **extra}


def _logprobs(tokens: Sequence[TokenLogprob], tokenizer: Tokenizer) -> dict[str, Any]:
    """A line's field of them, where they were asked for."""
    return {"logprobs": [token.model_dump() for token in token_logprobs(tokens, tokenizer)]} if tokens else {}


def _line(model: str, fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"model": model, "created_at": datetime.now(UTC).isoformat(), **fields, **more}


def _end(result: GenerationResult, started: float) -> dict[str, Any]:
    """What the last line says; durations are nanoseconds."""
    total = int((time.monotonic() - started) * 1e9)
    read, whole = int(result.seconds_to_prompt * 1e9), int(result.seconds * 1e9)
    return {
        "done": True,
        "done_reason": "length" if result.finish_reason == "length" else "stop",
        "total_duration": max(total, whole),
        "load_duration": 0,
        "prompt_eval_count": result.prompt_tokens,
        "prompt_eval_duration": read,
        "eval_count": result.completion_tokens,
        "eval_duration": whole - read,
        **report_of(result),
    }


def _lines(lines: list[dict[str, Any]]) -> Response:
    return Response(b"".join(map(_encoded, lines)), media_type=NDJSON)


def _encoded(line: dict[str, Any]) -> bytes:
    return json.dumps(line).encode() + b"\n"


def _failure(error: ApiError) -> bytes:
    """An error in a stream has a code beside Ollama's own field, by which a router tells whose fault it is."""
    return _encoded({**error_body(error, "/api/"), "code": error.code})
