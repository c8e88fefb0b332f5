"""Parts of answers that both kinds of completion have."""

import difflib
from collections.abc import Sequence
from typing import Any

from gesso.engine.events import BlockCommitted, DenoisingFrame
from gesso.engine.result import GenerationResult
from gesso.server.responses import Block, CachedTokens, CompletionDetails, DiffusionReport, Draft, Usage


def usage(results: Sequence[GenerationResult], choices_of_prompt: int = 1, predicted: Sequence[int] = ()) -> Usage:
    """Tokens of an answer; a prompt counts once for all of its choices.

    Args:
        predicted: tokens of the answer that the client predicted.
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
            reasoning_tokens=sum(result.reasoning_tokens for result in results), **_prediction(results, predicted)
        ),
    )


def _prediction(results: Sequence[GenerationResult], predicted: Sequence[int]) -> dict[str, int]:
    """How much of it came true, over all choices."""
    if not predicted:
        return {}
    kept = 0
    for result in results:
        pairs = difflib.SequenceMatcher(None, predicted, result.token_ids, autojunk=False).get_matching_blocks()
        kept += sum(pair.size for pair in pairs)
    rejected = len(predicted) * len(results) - kept
    return {"accepted_prediction_tokens": kept, "rejected_prediction_tokens": rejected}


def diffusion_report(result: GenerationResult) -> DiffusionReport:
    # Only what was left to the engine is told: whoever named a mode knows it.
    told: dict[str, Any] = {"mode": result.mode, "decision": result.decision} if result.decision else {}
    if result.verify_rounds:
        told |= {"verify_rounds": list(result.verify_rounds), "disputed_tokens": result.disputed_tokens}
    return DiffusionReport(
        **told,
        seed=result.seed,
        denoising_steps=list(result.denoising_steps),
        converged=list(result.converged),
        tokens_per_forward=round(result.tokens_per_forward, 3),
    )


def draft(frame: DenoisingFrame) -> Draft:
    """A frame for the wire, `accepted` as 0 and 1. Frames are many, so what the engine made is not checked again."""
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
    """Returns a finished canvas for the wire, beside frames."""
    return Block(
        canvas=event.canvas,
        tokens=list(event.tokens),
        text=event.text,
        reasoning=event.reasoning,
        denoising_steps=event.denoising_steps,
        converged=event.converged,
    )
