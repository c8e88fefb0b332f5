"""Parts of answers that both kinds of completion have."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from anyio import to_thread

from gesso.engine.events import BlockCommitted, DenoisingFrame
from gesso.engine.result import GenerationResult, TokenLogprob
from gesso.server.answers import (
    Block,
    CachedTokens,
    CompletionDetails,
    DiffusionReport,
    Draft,
    TokenLogprobs,
    TopLogprob,
    Usage,
)
from gesso.text.tokenizer import Tokenizer


def usage(
    results: Sequence[GenerationResult], choices_of_prompt: int = 1, prediction: Mapping[str, int] | None = None
) -> Usage:
    """Counts the tokens of an answer; a prompt counts once for all of its choices.

    Args:
        prediction: what `prediction_report` says of an answer that the client predicted.
    """
    prompts = results[::choices_of_prompt]
    prompt = sum(result.prompt_tokens for result in prompts)
    completion = sum(result.completion_tokens for result in results)
    return Usage(
        prompt_tokens=prompt,
        completion_tokens=completion,
        total_tokens=prompt + completion,
        prompt_tokens_details=CachedTokens(cached_tokens=sum(result.cached_tokens for result in prompts)),
        completion_tokens_details=CompletionDetails(
            reasoning_tokens=sum(result.reasoning_tokens for result in results), **(prediction or {})
        ),
    )


async def prediction_report(
    results: Sequence[GenerationResult], predicted: str | None, tokenizer: Tokenizer
) -> dict[str, int]:
    """Tells how much of a predicted answer came true, over all choices; nothing where none was predicted."""
    if not predicted:
        return {}

    def count() -> dict[str, int]:
        tokens = tokenizer.encode(predicted)
        kept = sum(common_tokens(tokens, result.token_ids) for result in results)
        return {
            "accepted_prediction_tokens": kept,
            "rejected_prediction_tokens": len(tokens) * len(results) - kept,
        }

    return await to_thread.run_sync(count)


def common_tokens(first: Sequence[int], second: Sequence[int]) -> int:
    """Returns the length of the longest common subsequence, by the bit-parallel method of Hyyrö (2004).

    It takes one addition of `len(first)` bits for each token of `second`, whatever they are.
    """
    places: dict[int, int] = {}
    for place, token in enumerate(first):
        places[token] = places.get(token, 0) | 1 << place
    whole = (1 << len(first)) - 1
    rest = whole
    for token in second:
        matched = rest & places.get(token, 0)
        rest = (rest + matched | rest - matched) & whole
    return len(first) - rest.bit_count()


def diffusion_report(result: GenerationResult) -> DiffusionReport:
    """Reports how a choice was denoised, in the form of an answer's `diffusion` object."""
    fields: dict[str, Any] = {"decision": result.decision} if result.decision else {}
    if result.ignored:
        fields["ignored"] = list(result.ignored)
    if result.verify_rounds:
        fields |= {"verify_rounds": list(result.verify_rounds), "rejected_tokens": result.rejected_tokens}
    if result.guidance_passes:
        fields["guidance_passes"] = result.guidance_passes
    return DiffusionReport(
        seed=result.seed,
        mode=result.mode,
        denoising_steps=list(result.denoising_steps),
        converged=list(result.converged),
        tokens_per_forward=round(result.tokens_per_forward, 3),
        **fields,
    )


def report_of(result: GenerationResult) -> dict[str, Any]:
    """Returns the fields that an answer has in every interface: how it was denoised, and what it is warned of."""
    warnings: dict[str, Any] = {"warnings": list(result.warnings)} if result.warnings else {}
    return {"diffusion": diffusion_report(result).model_dump(exclude_unset=True), **warnings}


def choice_report(result: GenerationResult, stops: Collection[int]) -> dict[str, Any]:
    """Returns the fields that a choice of OpenAI's completions ends with; vLLM, too, calls the stop string so.

    Args:
        stops: the token ids that the request has an answer end with.
    """
    stopped: dict[str, Any] = {} if result.stop_string is None else {"stop_reason": result.stop_string}
    last = result.token_ids[-1:]
    if not stopped and result.finish_reason == "stop" and not set(stops).isdisjoint(last):
        stopped = {"stop_reason": last[0]}
    return {**stopped, **report_of(result)}


def token_logprobs(tokens: Sequence[TokenLogprob], tokenizer: Tokenizer) -> list[TokenLogprobs]:
    """Reports how likely each token of an answer is, and others beside it."""
    return [
        TokenLogprobs(
            token=token.text,
            logprob=token.logprob,
            bytes=list(tokenizer.piece_bytes(token.token)),
            top_logprobs=[
                TopLogprob(token=text, logprob=logprob, bytes=list(tokenizer.piece_bytes(other)))
                for other, text, logprob in token.top
            ],
        )
        for token in tokens
    ]


class LeadingSpace:
    """Holds back the white space that a streamed answer begins with: where nothing but calls follows, it is no part of
    the answer."""

    def __init__(self) -> None:
        self._held = ""
        self._shown = False

    def feed(self, text: str) -> str:
        """Returns the text that is certainly part of the answer."""
        self._held += text
        if not (self._shown or self._held.strip()):
            return ""
        out, self._held, self._shown = self._held, "", True
        return out

    def flush(self, result: GenerationResult) -> str | None:
        """Returns the text that an answer which shows none so far ends with; None where no text is to be shown."""
        return None if self._shown or result.tool_calls else self._held


def frame_report(frame: DenoisingFrame) -> Draft:
    """Reports a denoising frame, in the form of a stream's `draft` object: flags are 0 or 1.

    Frames are many, so what the engine made is not checked again."""
    extra: dict[str, Any] = {"canvas_tokens": list(frame.canvas_tokens)} if frame.canvas_tokens else {}
    extra |= {name: list(map(int, flags)) for name in ("pinned", "forced") if True in (flags := getattr(frame, name))}
    return Draft.model_construct(
        **extra,
        canvas=frame.canvas,
        step=frame.step,
        max_denoising_steps=frame.max_denoising_steps,
        temperature=round(frame.temperature, 4),
        tokens=list(frame.tokens),
        pieces=list(frame.pieces),
        accepted=list(map(int, frame.accepted)),
        entropy=list(frame.entropy),
    )


def block(event: BlockCommitted) -> Block:
    """Returns a finished canvas, or token, for the wire, beside frames."""
    committed = Block(
        canvas=event.canvas,
        tokens=list(event.tokens),
        text=event.text,
        reasoning=event.reasoning,
        denoising_steps=event.denoising_steps,
        converged=event.converged,
    )
    if event.mode == "ar":
        committed.mode = "ar"  # left out of the answer where it is not set
    return committed
