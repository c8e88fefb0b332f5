"""Serves `POST /v1/completions`."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from typing import Any

from anyio import to_thread
from fastapi import APIRouter
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from gesso.control.search import choose_candidate
from gesso.engine.engine import Request
from gesso.engine.events import BlockCommitted, Event, Finished
from gesso.engine.result import GenerationResult, TokenLogprob
from gesso.server.answers import SearchReport, TextChoice, TextCompletion, TextLogprobs, Usage, respond
from gesso.server.body import JsonRoute
from gesso.server.chat import wire_call, with_seed
from gesso.server.choices import Choices
from gesso.server.chunks import completion_chunks
from gesso.server.context import Context
from gesso.server.errors import ApiError
from gesso.server.fill import insert
from gesso.server.messages import sampling_options
from gesso.server.report import choice_report, usage
from gesso.server.requests import CompletionRequest, wants_drafts
from gesso.server.stream import EventStream
from gesso.text.output import IncrementalDecoder, OutputParser
from gesso.text.tokenizer import Tokenizer


def completion_routes(context: Context) -> APIRouter:
    """Makes the route of text completions over this engine."""
    router = APIRouter(route_class=JsonRoute)

    @router.post(
        "/v1/completions",
        response_model=None,
        responses={200: {"model": TextCompletion, "content": {"text/event-stream": {}}}},
        tags=["completions"],
    )
    async def completions(body: CompletionRequest, http: HttpRequest) -> Response:
        """Continues a text, or each of several, or fills in what stands between it and `suffix`, without the chat
        template."""
        if body.suffix:
            return respond(await insert(context, body, http), exclude_unset=True)
        choices = await submit_text(context, body, http)
        number = body.n or 1
        head = {**context.head("cmpl", body.model), "object": "text_completion"}
        tokenizer = context.service.engine.tokenizer

        async def counted(results: Sequence[GenerationResult]) -> Usage:
            return usage(results, body.best_of or number)

        if body.stream:
            nothing = partial(TextChoice, text="", logprobs=None, finish_reason=None)
            added = partial(
                _added, [_Offsets(tokenizer, _begin(body)) for _ in choices.handles], body.stop_token_ids or ()
            )
            chunks = completion_chunks(body, choices, partial(TextCompletion, **head), nothing, added, counted)
            return EventStream(choices, chunks)
        results = await choices.wait(http.receive)
        if body.max_tokens == 0:
            results = [_without_answer(result) for result in results]
        used = await counted(results)
        results, search = _chosen(body, results)

        def answer() -> Response:
            texts = _texts(body, results, tokenizer)
            return respond(TextCompletion(**head, choices=texts, usage=used, **search), exclude_unset=True)

        return await to_thread.run_sync(answer)

    return router


async def submit_text(context: Context, body: CompletionRequest, http: HttpRequest) -> Choices:
    """Queues the choices of a text completion.

    Raises:
        ApiError, UserError: see `Choices.submit`.
    """
    adapter = context.begin(http, body.model, body.max_tokens, lambda: body.prompt)
    _check_places(context, _prompts(body))
    options = sampling_options(body, context.service.engine)
    if body.max_tokens == 0:
        options["max_new_tokens"] = 1  # left out of the answer: see `_without_answer`
    causal = context.service.engine.config.mask_token_id is None
    if body.searches and not causal:
        message = "best_of needs a causal pass, which a model of masked blocks does not have"
        raise ApiError(400, message, param="best_of", code="unsupported_value")
    if body.logprobs is not None:
        options["logprobs"] = body.logprobs
        if body.echo:
            options["prompt_logprobs"] = body.logprobs
    elif body.searches:
        options["logprobs"] = 0
    if body.echo and options.get("max_new_tokens") == 1 and body.diffusion is None and causal:
        options["mode"] = "ar"  # one token, of which the causal pass over the prompt has all but the draw
    drafts = wants_drafts(body.diffusion)
    number = body.best_of or body.n or 1
    requests = [
        Request(prompt, {**with_seed(options, choice), "raw": isinstance(prompt, str)}, adapter, drafts)
        for prompt in _prompts(body)
        for choice in range(number)
    ]
    return await context.submit(requests, http, number, "best_of" if body.best_of else "n")


def _chosen(body: CompletionRequest, results: list[GenerationResult]) -> tuple[list[GenerationResult], dict[str, Any]]:
    """The answers that are sent, and how they were chosen: nothing where all that were made are."""
    if not body.searches:
        return results, {}
    made = body.best_of or 1
    chosen: list[GenerationResult] = []
    reports = []
    for start in range(0, len(results), made):
        found = choose_candidate(results[start : start + made], "likelihood", likelihood_passes=body.logprobs is None)
        chosen += [candidate.result for candidate in found.ranked()[: body.n or 1]]
        reports.append(SearchReport.model_validate(found.to_dict()))
    return chosen, {"search": reports}


def _without_answer(result: GenerationResult) -> GenerationResult:
    """The result as if nothing had been written behind the prompt."""
    return replace(
        result,
        text="",
        reasoning="",
        token_ids=(),
        logprobs=(),
        tool_calls=(),
        completion_tokens=0,
        reasoning_tokens=0,
        finish_reason="length",
    )


def _prompts(body: CompletionRequest) -> list[str | list[int]]:
    if isinstance(body.prompt, str):
        return [body.prompt]
    if isinstance(body.prompt[0], int):
        return [[token for token in body.prompt if isinstance(token, int)]]
    return [prompt for prompt in body.prompt if not isinstance(prompt, int)]


def _check_places(context: Context, prompts: Sequence[str | list[int]]) -> None:
    """Refuses texts that hold a place of an image where the model sees none, and says where the same is text.

    Raises:
        ApiError: one does.
    """
    engine = context.service.engine
    if engine.runner.vision is not None:
        return
    places = [name for name, token in engine.tokenizer.special.items() if token in engine.config.image_token_ids]
    for prompt in prompts:
        found = next((place for place in places if isinstance(prompt, str) and place in prompt), None)
        if found is not None:
            message = f"prompt: {found} is the place of an image in a text that is taken as it is, and this model reads"
            message = f"{message} text only; in a message of a chat it is text like any other"
            raise ApiError(400, message, param="prompt", code="unsupported_value")


def _begin(body: CompletionRequest) -> str:
    """What the answer is made to begin with."""
    return "" if body.diffusion is None else body.diffusion.options().get("begin", "")


class _Offsets:
    """Counts the characters of an answer's text before each of its tokens."""

    def __init__(self, tokenizer: Tokenizer, begin: str, before: int = 0) -> None:
        """
        Args:
            begin: what the answer is made to begin with: part of its text, but its tokens are not told of.
            before: characters before the answer.
        """
        self._parser = OutputParser(tokenizer)
        self._before = before
        for token in tokenizer.encode(begin):
            self._parser.feed(token)

    def next(self, tokens: Sequence[TokenLogprob]) -> list[int]:
        """Returns where each of the next tokens begins."""
        found = []
        for token in tokens:
            found.append(self._before + len(self._parser.text))
            self._parser.feed(token.token)
        return found


@dataclass(frozen=True, slots=True)
class _Prompt:
    """A prompt as an answer repeats it."""

    text: str
    first: str
    """The text of its first token."""
    offsets: tuple[int, ...]
    """Characters before each of its tokens."""

    def logprobs(self, result: GenerationResult, offsets: Sequence[int]) -> TextLogprobs:
        """Tells of the prompt and of the answer, whose tokens' places are `offsets`; of its first token nothing is
        known."""
        logprobs = _logprobs((*result.prompt_logprobs, *result.logprobs), (*self.offsets[1:], *offsets))
        logprobs.tokens.insert(0, self.first)
        logprobs.token_logprobs.insert(0, None)
        logprobs.top_logprobs.insert(0, None)
        logprobs.text_offset.insert(0, 0)
        return logprobs


def _read_prompt(tokenizer: Tokenizer, prompt: str | list[int]) -> _Prompt:
    tokens = tokenizer.encode(prompt) if isinstance(prompt, str) else prompt
    text = prompt if isinstance(prompt, str) else tokenizer.decode(prompt)
    decoder = IncrementalDecoder(tokenizer)
    lengths = [len(decoder.feed(token)) for token in tokens[:-1]]
    return _Prompt(text, tokenizer.piece(tokens[0]), tuple(accumulate(lengths, initial=0)))


def _texts(body: CompletionRequest, results: Sequence[GenerationResult], tokenizer: Tokenizer) -> list[TextChoice]:
    """The choices of a whole answer, each behind its prompt where that is asked for. Of any thread: it takes long where
    there are many tokens."""
    prompts = [_read_prompt(tokenizer, prompt) for prompt in _prompts(body)] if body.echo else []
    texts = []
    for number, result in enumerate(results):
        prompt = prompts[number // (body.n or 1)] if prompts else None
        logprobs = None
        if body.logprobs is not None:
            offsets = _Offsets(tokenizer, _begin(body), 0 if prompt is None else len(prompt.text))
            places = offsets.next(result.logprobs)
            logprobs = _logprobs(result.logprobs, places) if prompt is None else prompt.logprobs(result, places)
        text = result.text if prompt is None else prompt.text + result.text
        texts.append(
            TextChoice(index=number, text=text, logprobs=logprobs, **_ending(result, body.stop_token_ids or ()))
        )
    return texts


def _ending(result: GenerationResult, stops: Collection[int]) -> dict[str, Any]:
    """The fields of a finished choice. Reasoning and calls come unasked here: they stand beside the text."""
    extra = choice_report(result, stops)
    if result.reasoning:
        extra["reasoning_content"] = result.reasoning
    if result.tool_calls:
        extra["tool_calls"] = [wire_call(call) for call in result.tool_calls]
    return {"finish_reason": result.finish_reason, **extra}


def _logprobs(tokens: Sequence[TokenLogprob], offsets: Sequence[int]) -> TextLogprobs:
    """`offsets`: characters before each of these tokens."""
    return TextLogprobs(
        tokens=[token.text for token in tokens],
        token_logprobs=[token.logprob for token in tokens],
        top_logprobs=[{text: logprob for _, text, logprob in token.top} for token in tokens],
        text_offset=list(offsets),
    )


def _added(offsets: Sequence[_Offsets], stops: Collection[int], number: int, event: Event) -> Iterator[TextChoice]:
    """The choices of a stream's chunks; `offsets` for each of all choices."""
    if isinstance(event, BlockCommitted) and (event.text or event.logprobs):
        logprobs = _logprobs(event.logprobs, offsets[number].next(event.logprobs)) if event.logprobs else None
        yield TextChoice(index=number, text=event.text, logprobs=logprobs, finish_reason=None)
    elif isinstance(event, Finished):
        yield TextChoice(index=number, text="", logprobs=None, **_ending(event.result, stops))
