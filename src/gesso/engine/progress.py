"""Advances a request after each pass of the model, and returns what the pass means as events.

Life cycle: `pending` tokens, first the prompt, are encoded chunk by chunk (`after_prefill`); then the canvas is
denoised (`after_step` after every step) until it is finished, its block goes to the output and is encoded in its turn.
A request that wants log-probabilities shows a block only when it has been encoded: they are read from that pass. With
verification the same pass judges the block (see `gesso.engine.verifier`), which may have to be denoised again.
"""

import time
from collections.abc import Sequence
from functools import partial

from gesso.engine.events import Event, Failed, Finished
from gesso.engine.request_state import RequestState
from gesso.engine.result import TokenLogprob
from gesso.engine.verifier import VerifierState
from gesso.runner.protocol import CanvasBatch, CanvasItem, LogprobRead, PrefillItem, Runner
from gesso.text.output import Delta


def after_prefill(request: RequestState, item: PrefillItem, runner: Runner) -> list[Event]:
    """Advances a request after a causal pass put tokens into its cache; returns the events of a block that waited for
    it."""
    request.length += len(item.tokens)
    if request.reads_prompt:
        request.next_chunk += 1
        if not request.reads_prompt:
            request.prompt_encoded = time.monotonic()
        if request.prompt_logprobs is not None:
            scored = item.tokens if request.length > len(item.tokens) else item.tokens[1:]
            request.prompt_scores += _logprobs(request, runner, scored, request.prompt_logprobs, encoded=True)
    else:
        request.block = ()
    if request.pending:
        return []
    if request.config.mode == "ar":
        return _write_token(request, runner)
    if request.verifier.state is VerifierState.READING:
        return _judge(request, runner)
    return []


def _judge(request: RequestState, runner: Runner) -> list[Event]:
    """Judges the candidate block by the pass that encoded it; shows it, or begins a round over it."""
    verifier = request.verifier
    assert verifier.candidate is not None
    block = verifier.candidate.tokens
    found = _logprobs(request, runner, block, verifier.top, encoded=True)
    constraint, left = request.constraint, request.left
    pins = verifier.judge(
        found,
        request.canvas,
        left,
        fits=None if constraint is None else lambda tokens: constraint.fits(tokens, left),
        behind_pins=request.canvases.last_pin + 1 - request.output.drawn,
    )
    if pins is None:
        return _show(request, block, found)
    assert request.cache is not None
    runner.rollback(request.cache, len(block))
    request.length -= len(block)
    written = request.output.written
    request.canvas = request.canvases.make_round(request.canvas, pins, written, verifier.round_steps)
    return []


def _write_token(request: RequestState, runner: Runner) -> list[Event]:
    """Shows the next token, sampled from the causal pass: a canvas of one position, of which one step is taken."""
    assert request.cache is not None
    canvas = request.canvas
    if not canvas.steps:  # it was not sampled with those of other requests
        runner.sample(CanvasBatch(request.adapter, (CanvasItem(request.number, request.cache, canvas),)))
    canvas.converged = True
    # What a sampler does not accept is noise.
    said_C = canvas.canvas_C.where(canvas.accepted_C, canvas.argmax_C)
    block = tuple(request.output.cut_to_budget(said_C.tolist()))
    found: list[TokenLogprob] = []
    if request.config.logprobs is not None:
        found = _logprobs(request, runner, block, request.config.logprobs, encoded=False)
    request.block = block
    return _show(request, block, found)


def after_step(request: RequestState, runner: Runner) -> list[Event]:
    """Advances a request after a denoising step of its canvas; returns the events."""
    events: list[Event] = []
    verifier, canvas = request.verifier, request.canvas
    if request.frames and not request.cancelled:
        number, before = request.output.canvases, verifier.earlier_steps
        events.append(request.canvases.frame(canvas, number, before, request.tokenizer))
    if not canvas.finished:
        return events
    block = tuple(request.output.cut_to_budget(canvas.argmax_C.tolist()))
    state = verifier.submit(block, request.left)
    if state is VerifierState.RESTORED:
        assert request.cache is not None
        assert verifier.candidate is not None
        runner.restore(request.cache)
        request.length += len(block)
        return events + _show(request, block, verifier.candidate.logprobs)
    request.block = block
    return events if state is VerifierState.READING else events + _show(request, block, [])


def cancel(request: RequestState) -> list[Event]:
    """Ends a request with what is committed, of which some text may have been held back so far."""
    passes, output = _passes(request), request.output
    delta = output.finish("cancelled")
    close = partial(_close_canvas, request) if passes else partial(output.block, converged=False)
    event = close(delta, (), (), passes)
    return [*([event] if delta != Delta() else ()), Finished(request.result())]


def fail(request: RequestState, event: Failed) -> list[Event]:
    """Ends a request without a result."""
    request.failed = True
    return [event]


def _show(request: RequestState, block: Sequence[int], logprobs: Sequence[TokenLogprob]) -> list[Event]:
    """Puts a finished canvas into the output; goes on to the next one unless the request is finished."""
    output = request.output
    delta, count = output.add(block)
    passes = _passes(request)
    if output.finished and request.costs is not None:
        steps = None if request.config.mode == "ar" else [*output.steps, passes]
        request.costs.learn(steps, len(output.tokens))
    event = _close_canvas(request, delta, block[:count], request.verifier.reported(logprobs)[:count], passes)
    if output.finished:
        return [event, Finished(request.result())]
    if request.constraint is not None:
        request.constraint.advance(list(block))
    request.canvas = request.next_canvas()
    return [event]


def _close_canvas(
    request: RequestState, delta: Delta, tokens: Sequence[int], logprobs: Sequence[TokenLogprob], passes: int
) -> Event:
    request.guidance_passes += request.canvas.guided_steps
    event = request.output.close_canvas(delta, tokens, logprobs, passes, request.canvas.converged)
    request.verifier.close()
    return event


def _passes(request: RequestState) -> int:
    """Returns the passes spent on the canvas at work."""
    last = request.output.finished and request.config.logprobs is None
    return request.canvas.steps + request.verifier.extra_passes(last)


def _logprobs(
    request: RequestState, runner: Runner, tokens: tuple[int, ...], top: int, *, encoded: bool
) -> list[TokenLogprob]:
    assert request.cache is not None
    if not tokens:
        return []
    piece = request.tokenizer.piece
    return [
        TokenLogprob(
            score.token,
            piece(score.token),
            score.logprob,
            tuple((token, piece(token), value) for token, value in score.top),
        )
        for score in runner.logprobs(LogprobRead(request.cache, tokens, encoded, top))
    ]
