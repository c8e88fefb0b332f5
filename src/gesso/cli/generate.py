"""`gesso generate`."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gesso.cli import options as opt
from gesso.cli.progress import is_screen, working

if TYPE_CHECKING:
    from gesso.engine.engine import Stream
    from gesso.engine.events import Event

Prompt = Annotated[str | None, typer.Argument(help="The prompt; read from standard input where it is left out or -.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON line with the whole result.")]
Trace = Annotated[Path | None, typer.Option(help="Write every event to this file, for `gesso replay`.")]
Raw = Annotated[bool, typer.Option("--raw", help="Take the prompt as it is, without the chat template.")]
Plain = Annotated[bool, typer.Option("--plain", help="Print the text alone, also in a terminal.")]


def generate(
    prompt: Prompt = None,
    model: opt.Model = "mini",
    system: opt.System = None,
    seed: opt.Seed = None,
    max_new_tokens: opt.MaxNewTokens = None,
    max_denoising_steps: opt.MaxSteps = None,
    canvas_length: opt.CanvasLength = None,
    temperature: opt.Temperature = None,
    top_p: opt.TopP = None,
    top_k: opt.TopK = None,
    entropy_bound: opt.EntropyBound = None,
    t_min: opt.TMin = None,
    t_max: opt.TMax = None,
    stability_threshold: opt.Stability = None,
    confidence_threshold: opt.Confidence = None,
    stop: opt.Stop = None,
    regex: opt.Regex = None,
    json_schema: opt.JsonSchema = None,
    json_object: opt.JsonObject = False,
    choices: opt.Choices = None,
    choice: opt.Choice = None,
    grammar: opt.Grammar = None,
    ignore_eos: opt.IgnoreEos = False,
    start_canvas: opt.StartCanvas = None,
    canvas: opt.Canvas = None,
    begin: opt.Begin = None,
    raw: Raw = False,
    thinking: opt.Thinking = False,
    thinking_budget: opt.ThinkingBudget = None,
    mode: opt.Mode = None,
    canvas_width: opt.CanvasWidth = None,
    stop_at_end: opt.StopAtEnd = False,
    verify: opt.Verify = None,
    verify_threshold: opt.VerifyThreshold = None,
    as_json: AsJson = False,
    plain: Plain = False,
    trace: Trace = None,
    adapter: opt.Adapter = None,
    device: opt.Device = "auto",
    dtype: opt.Dtype = "auto",
    offline: opt.Offline = False,
) -> int:
    """Generate text, and watch the canvas resolve."""
    from gesso.errors import OptionError

    if raw and (system is not None or thinking):
        raise OptionError("--raw takes the prompt as it is; --system and --thinking need the chat template")
    if as_json and plain:
        raise OptionError("--json and --plain contradict each other")
    request = opt.generation_options(
        seed=seed,
        max_new_tokens=max_new_tokens,
        max_denoising_steps=max_denoising_steps,
        entropy_bound=entropy_bound,
        t_min=t_min,
        t_max=t_max,
        stability_threshold=stability_threshold,
        confidence_threshold=confidence_threshold,
        stop=stop,
        ignore_eos=ignore_eos,
        start_canvas=start_canvas,
        temperature=temperature,
        top_p=top_p,
        top_k=top_k,
        canvas_length=canvas_length,
        thinking_budget=thinking_budget,
        mode=mode,
        canvas_width=canvas_width,
        stop_at_end=stop_at_end,
        verify=verify,
        verify_threshold=verify_threshold,
        canvas=canvas,
        begin=begin,
    )
    request |= opt.constraint_options(regex, json_schema, json_object, choices, choice, grammar)
    text = read_prompt(prompt)
    from gesso.api import load
    from gesso.cli.interrupt import first_interrupt
    from gesso.cli.session import present
    from gesso.engine.trace import record

    with working(f"loading {model}"):
        engine = load(model, device, dtype, offline=offline, adapter=adapter)
    message = [{"role": "user", "content": text}]
    conversation = [{"role": "system", "content": system}, *message] if system is not None else message
    live = not (as_json or plain) and is_screen(sys.stdout)
    stream: Stream = engine.stream(
        text if raw else conversation,
        drafts=live or trace is not None,
        raw=raw,
        thinking=thinking,
        **request,
    )
    events: Iterator[Event] = iter(stream)
    if trace is not None:
        events = record(events, trace, model=model, prompt=text, special=engine.tokenizer.special_ids)
    with first_interrupt(stream.cancel):
        result = present(events, live=live, as_json=as_json, special=engine.tokenizer.special_ids)
    return 130 if result.finish_reason == "cancelled" else 0


def read_prompt(prompt: str | None) -> str:
    """The prompt, or what standard input holds.

    Raises:
        TextError: there is none, or nothing but white space.
    """
    from gesso.errors import TextError

    if prompt is not None and prompt != "-":
        if not prompt.strip():
            raise TextError("the prompt is blank", option="prompt")
        return prompt
    if sys.stdin is None or sys.stdin.isatty():
        message = 'no prompt: give one, as in gesso generate "What is 481 + 296?", or pipe it in'
        raise TextError(message, option="prompt")
    try:
        text = sys.stdin.read()
    except UnicodeDecodeError as error:
        raise TextError(f"standard input is no UTF-8 text: {error}", option="prompt") from None
    text = text.removesuffix("\n")
    if not text.strip():
        raise TextError("the prompt on standard input is blank", option="prompt")
    return text
