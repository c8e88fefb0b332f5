"""Options shared by the commands, declared once."""

from pathlib import Path
from typing import Annotated, Any

import typer

DEFAULT_MODEL = "mini"

Model = Annotated[str, typer.Option("--model", "-m", help="Bundled name, checkpoint folder or Hugging Face id.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")]
Dtype = Annotated[str, typer.Option(help="auto, float32, bfloat16 or float16.")]
Offline = Annotated[bool, typer.Option("--offline", help="Never download.")]
Seed = Annotated[int | None, typer.Option(help="Reproduces a result; a fresh one is drawn and shown without it.")]
MaxNewTokens = Annotated[int | None, typer.Option(help="Most tokens of the answer.")]
MaxSteps = Annotated[int | None, typer.Option("--max-denoising-steps", help="Most denoising steps a canvas takes.")]
EntropyBound = Annotated[float | None, typer.Option(help="Nats of joint uncertainty a step may accept.")]
TMin = Annotated[float | None, typer.Option(help="Temperature at the end of the schedule.")]
TMax = Annotated[float | None, typer.Option(help="Temperature at its start.")]
Temperature = Annotated[float | None, typer.Option(help="How boldly tokens are drawn; 1 as trained, 0 the likeliest.")]
TopP = Annotated[float | None, typer.Option(help="Draw from the likeliest tokens of this probability in all.")]
TopK = Annotated[int | None, typer.Option(help="Draw from so many likeliest tokens.")]
CanvasLength = Annotated[int | None, typer.Option(help="Tokens of a canvas; the model's without it.")]
CanvasWidth = Annotated[str | None, typer.Option(help="full, need (what is left to write) or auto (grows).")]
StopAtEnd = Annotated[bool, typer.Option("--stop-at-end", help="Only what stands before the answer's end must settle.")]
Verify = Annotated[
    str | None,
    typer.Option(help="Rounds in which tokens that the causal pass disputes are redone; auto: one, past canvas 1."),
]
VerifyThreshold = Annotated[float | None, typer.Option(help="Nats by which it must find another token likelier.")]
Mode = Annotated[str | None, typer.Option(help="canvas, ar (token by token, same weights), or auto: the quicker.")]
ThinkingBudget = Annotated[int | None, typer.Option(help="Most tokens of thoughts.")]
Stability = Annotated[int | None, typer.Option("--stability-threshold", help="Equal canvases in a row to stop.")]
Confidence = Annotated[float | None, typer.Option("--confidence-threshold", help="Mean entropy in nats to stop below.")]
Regex = Annotated[str | None, typer.Option(help="The whole answer matches this regular expression.")]
JsonSchema = Annotated[Path | None, typer.Option(help="The answer is JSON, valid under this file's schema.")]
Choices = Annotated[str | None, typer.Option(help="The answer is one of these, separated by commas.")]
Choice = Annotated[list[str] | None, typer.Option("--choice", help="One such answer, commas and all; may be repeated.")]
JsonObject = Annotated[bool, typer.Option("--json-object", help="The answer is a JSON object.")]
Grammar = Annotated[Path | None, typer.Option(help="The answer follows the grammar in this file.")]
Stop = Annotated[list[str] | None, typer.Option(help="End the answer before this text; may be repeated.")]
IgnoreEos = Annotated[bool, typer.Option("--ignore-eos", help="Write on past the end of the answer.")]
StartCanvas = Annotated[str | None, typer.Option(help="Token ids of the first canvas, separated by commas.")]
Canvas = Annotated[str | None, typer.Option(help="Tokens that the answer holds, by place: ids, _ where it is free.")]
Begin = Annotated[str | None, typer.Option(help="What the answer is made to begin with.")]
Thinking = Annotated[bool, typer.Option("--thinking", help="Let the model think before it answers.")]
Server = Annotated[str | None, typer.Option(help="Address of an OpenAI-compatible server, to use its model.")]
ApiKey = Annotated[str | None, typer.Option(envvar="GESSO_API_KEY", help="The key that the server asks for.")]
System = Annotated[str | None, typer.Option(help="A system message.")]

StopAt = Annotated[int | None, typer.Option(help="End after this step; the schedule stays as it is.")]
MaxMinutes = Annotated[float | None, typer.Option(help="Write a checkpoint and end after so many minutes.")]
Threads = Annotated[int | None, typer.Option(help="CPU threads; all cores without it.")]
Plot = Annotated[bool, typer.Option("--plot", help="Draw the losses into loss.png at the end.")]
TensorBoard = Annotated[bool, typer.Option("--tensorboard", help="Write TensorBoard's files as well.")]
Export = Annotated[
    Path | None, typer.Option(help="Also write the result here, without the optimiser: model in bfloat16, or adapter.")
]
Estimate = Annotated[bool, typer.Option("--estimate", help="Print the memory that a step will take, and end.")]
Adapter = Annotated[str | None, typer.Option(help="Folder of a LoRA adapter, in PEFT's format, to merge in.")]


def constraint_options(
    regex: str | None,
    json_schema: Path | None,
    json_object: bool,
    choices: str | None,
    choice: list[str] | None,
    grammar: Path | None,
) -> dict[str, Any]:
    """The constraint of a request, its files read.

    Raises:
        OptionError: a file that cannot be read, or is no JSON.
    """
    import json

    from gesso.errors import OptionError

    def read(option: str, path: Path) -> str:
        try:
            return path.read_text(encoding="utf-8")
        except OSError as error:
            raise OptionError(f"{option} {path}: {error.strerror}") from None
        except UnicodeDecodeError as error:
            raise OptionError(f"{option} {path}: no UTF-8 text: {error}") from None

    schema = None
    if json_schema is not None:
        try:
            schema = json.loads(read("--json-schema", json_schema))
        except (ValueError, RecursionError) as error:
            if isinstance(error, OptionError):
                raise
            raise OptionError(f"--json-schema {json_schema}: no JSON: {error}") from None
    return {
        "regex": regex,
        "json_schema": schema,
        "json_object": json_object or None,
        "choices": split_answers(choices, choice) or None,
        "grammar": read("--grammar", grammar) if grammar is not None else None,
    }


def split_answers(joined: str | None, single: list[str] | None) -> tuple[str, ...]:
    """Answers given as one text with commas, and one by one."""
    return *(joined.split(",") if joined is not None else ()), *(single or ())


def read_rounds(text: str | None) -> int | str | None:
    """What `--verify` says: a number, or a word."""
    return int(text) if text is not None and text.removeprefix("-").isdecimal() else text


def _token_ids(option: str, text: str, free: str | None = None) -> tuple[int | None, ...]:
    """Numbers with commas between them; None for `free`.

    Raises:
        OptionError: anything else.
    """
    from gesso.errors import OptionError

    try:
        return tuple(None if part.strip() == free else int(part) for part in text.split(","))
    except ValueError:
        example = "5,17,204" if free is None else f"5,{free},204"
        raise OptionError(f"{option} takes token ids separated by commas, such as {example}") from None


def generation_options(
    *,
    seed: int | None,
    max_new_tokens: int | None,
    max_denoising_steps: int | None,
    entropy_bound: float | None,
    t_min: float | None,
    t_max: float | None,
    stability_threshold: int | None,
    confidence_threshold: float | None,
    stop: list[str] | None,
    ignore_eos: bool,
    start_canvas: str | None,
    temperature: float | None,
    top_p: float | None,
    top_k: int | None,
    canvas_length: int | None,
    thinking_budget: int | None,
    canvas_width: str | None = None,
    stop_at_end: bool = False,
    mode: str | None = None,
    verify: str | None = None,
    verify_threshold: float | None = None,
    canvas: str | None = None,
    begin: str | None = None,
) -> dict[str, Any]:
    """Options of a request; what was not given is left to the checkpoint's defaults.

    Raises:
        OptionError: a canvas that is no list of token ids.
    """
    return {
        "seed": seed,
        "max_new_tokens": max_new_tokens,
        "max_denoising_steps": max_denoising_steps,
        "entropy_bound": entropy_bound,
        "t_min": t_min,
        "t_max": t_max,
        "stability_threshold": stability_threshold,
        "confidence_threshold": confidence_threshold,
        "stop": tuple(stop) if stop else None,
        "ignore_eos": ignore_eos or None,
        "start_canvas": None if start_canvas is None else _token_ids("--start-canvas", start_canvas),
        "canvas": None if canvas is None else _token_ids("--canvas", canvas, free="_"),
        "temperature": temperature,
        "top_p": top_p,
        "top_k": top_k,
        "canvas_length": canvas_length,
        "thinking_budget": thinking_budget,
        "canvas_width": canvas_width,
        "stop_at_end": stop_at_end or None,
        "mode": mode,
        "verify": read_rounds(verify),
        "verify_threshold": verify_threshold,
        **({} if begin is None else {"begin": begin}),
    }
