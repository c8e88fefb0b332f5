"""Serves `POST /v1/chat/completions`."""

import secrets
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Any

from anyio import to_thread
from fastapi import APIRouter
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from gesso.engine.engine import Request
from gesso.engine.events import BlockCommitted, Event, Finished
from gesso.engine.media import media_options
from gesso.engine.result import GenerationResult, TokenLogprob
from gesso.engine.seeds import numbered_seed
from gesso.server.answers import (
    ChatChoice,
    ChatChunk,
    ChatCompletion,
    ChatLogprobs,
    ChunkChoice,
    Delta,
    Finish,
    FunctionCall,
    Message,
    ToolCall,
    Usage,
    respond,
)
from gesso.server.body import JsonRoute
from gesso.server.chat_models import ChatRequest
from gesso.server.choices import Choices
from gesso.server.chunks import completion_chunks
from gesso.server.context import Context
from gesso.server.messages import chat_options, last_question, logged_messages, template_messages
from gesso.server.report import LeadingSpace, choice_report, prediction_report, token_logprobs, usage
from gesso.server.requests import wants_drafts
from gesso.server.stream import EventStream
from gesso.text.tokenizer import Tokenizer
from gesso.text.tool_calls import ToolCall as ParsedCall


def chat_routes(context: Context) -> APIRouter:
    """Makes the route of chat completions over this engine."""
    router = APIRouter(route_class=JsonRoute)

    @router.post(
        "/v1/chat/completions",
        response_model=None,
        responses={200: {"model": ChatCompletion, "content": {"text/event-stream": {}}}},
        tags=["completions"],
    )
    async def chat_completions(body: ChatRequest, http: HttpRequest) -> Response:
        """Answers messages, whole or as a stream of chunks."""
        choices = await submit_chat(context, body, http)
        number, stops = len(choices.handles), body.stop_token_ids or ()
        tokenizer = context.service.engine.tokenizer
        predicted = None if body.prediction is None else body.prediction.text
        head = context.head("chatcmpl", body.model)

        async def counted(results: Sequence[GenerationResult]) -> Usage:
            return usage(results, number, await prediction_report(results, predicted, tokenizer))

        if body.stream:
            chunk = partial(ChatChunk, **head, object="chat.completion.chunk")
            roles = [_chunk_choice(each, Delta(role="assistant", content="")) for each in range(number)]
            added = _added(number, tokenizer, stops)
            chunks = completion_chunks(
                body, choices, chunk, partial(_chunk_choice, delta=Delta()), added, counted, roles
            )
            return EventStream(choices, chunks)
        results = await choices.wait(http.receive)
        used = await counted(results)

        def answer() -> Response:
            finished = [
                _choice(number, result, _logprobs(result.logprobs, tokenizer) if body.logprobs else None, stops)
                for number, result in enumerate(results)
            ]
            whole = ChatCompletion(**head, object="chat.completion", choices=finished, usage=used)
            return respond(whole, exclude_unset=True)

        # Log-probabilities are many objects, which would hold up all others here.
        return await to_thread.run_sync(answer) if body.logprobs else answer()

    return router


async def submit_chat(context: Context, body: ChatRequest, http: HttpRequest, places: Sequence[str] = ()) -> Choices:
    """Queues the choices of a chat completion; other interfaces to conversations make such a body of their own.

    Args:
        places: where each image stands in the body that the client sent, in order.

    Raises:
        ApiError, UserError: see `chat_options` and `Choices.submit`.
    """
    since = time.monotonic()
    adapter = context.begin(http, body.model, body.max_tokens, partial(logged_messages, body.messages))
    context.check_length(body.max_completion_tokens, "max_completion_tokens")
    engine = context.service.engine
    options = chat_options(body, engine)
    messages = await to_thread.run_sync(template_messages, body.turns)
    prompt = await context.read_media(messages, http, media_options(options), places, since)
    drafts = wants_drafts(body.diffusion)
    requests = [Request(prompt, with_seed(options, choice), adapter, drafts, since) for choice in range(body.n or 1)]
    choices = await context.submit(requests, http, len(requests))
    choices.warnings = context.untold(
        body.model,
        last_question(body.turns),
        alone=len(body.turns) == 1,
        thinking=options.get("thinking", False),
        named=any(message.name is not None for message in body.turns if message.role != "tool"),
    )
    return choices


def with_seed(options: dict[str, Any], choice: int) -> dict[str, Any]:
    """Returns the options of choice number `choice`, whose seed is the given one's `numbered_seed`."""
    return {**options, "seed": numbered_seed(options["seed"], choice)} if "seed" in options else options


def _choice(number: int, result: GenerationResult, logprobs: ChatLogprobs | None, stops: Collection[int]) -> ChatChoice:
    fields: dict[str, Any] = {}
    if result.reasoning:
        fields["reasoning_content"] = fields["reasoning"] = result.reasoning
    if result.tool_calls:
        fields["tool_calls"] = [wire_call(call) for call in result.tool_calls]
    # With calls alone there is no content, rather than an empty one.
    content = result.text if result.text.strip() or not result.tool_calls else None
    return ChatChoice(
        index=number,
        message=Message(role="assistant", content=content, refusal=None, **fields),
        logprobs=logprobs,
        finish_reason=_finish_reason(result),
        **choice_report(result, stops),
    )


def _finish_reason(result: GenerationResult) -> Finish:
    """`length` stays `length` beside calls: the answer was cut, perhaps in the middle of another."""
    if result.finish_reason == "length":
        return "length"
    return "tool_calls" if result.tool_calls else "stop"


def wire_call(call: ParsedCall, index: int | None = None) -> ToolCall:
    """Returns a tool call as clients read it, with a fresh id; `index` counts the calls of a streamed choice."""
    number = {} if index is None else {"index": index}
    function = FunctionCall(name=call.name, arguments=call.arguments)
    return ToolCall(**number, id=f"call_{secrets.token_hex(12)}", type="function", function=function)


def _logprobs(tokens: Sequence[TokenLogprob], tokenizer: Tokenizer) -> ChatLogprobs:
    return ChatLogprobs(content=token_logprobs(tokens, tokenizer), refusal=None)


def _chunk_choice(index: int, delta: Delta, finish_reason: Finish | None = None, **fields: Any) -> ChunkChoice:
    return ChunkChoice(index=index, delta=delta, finish_reason=finish_reason, **fields)


def _added(count: int, tokenizer: Tokenizer, stops: Collection[int]) -> Callable[[int, Event], Iterator[ChunkChoice]]:
    """Makes what finds the choices of a stream's chunks in the events of `count` choices."""
    calls_made, spaces = [0] * count, [LeadingSpace() for _ in range(count)]

    def added(number: int, event: Event) -> Iterator[ChunkChoice]:
        if isinstance(event, BlockCommitted):
            deltas = _deltas(event, spaces[number].feed(event.text), calls_made[number])
            calls_made[number] += len(event.tool_calls)
            for place, delta in enumerate(deltas):
                logprobs = _logprobs(event.logprobs, tokenizer) if event.logprobs and place == 0 else None
                yield _chunk_choice(number, delta, logprobs=logprobs)
        elif isinstance(event, Finished):
            result = event.result
            if text := spaces[number].flush(result):
                yield _chunk_choice(number, Delta(content=text))
            yield _chunk_choice(number, Delta(), _finish_reason(result), logprobs=None, **choice_report(result, stops))

    return added


def _deltas(block: BlockCommitted, text: str, calls_before: int) -> list[Delta]:
    """What a block adds, reasoning first, then the text that is shown now, and one delta for each whole call."""
    deltas = []
    if block.reasoning:
        deltas.append(Delta(reasoning_content=block.reasoning, reasoning=block.reasoning))
    if text:
        deltas.append(Delta(content=text))
    for number, call in enumerate(block.tool_calls):
        deltas.append(Delta(tool_calls=[wire_call(call, calls_before + number)]))
    if block.logprobs and not deltas:
        deltas.append(Delta())
    return deltas
