"""Implements `gesso quantize`."""

from pathlib import Path
from typing import Annotated

import typer

from gesso.cli import options as opt
from gesso.cli import quantize_options as formats
from gesso.cli.output import format_bytes, note

Name = Annotated[str, typer.Argument(help="Bundled name, checkpoint folder, GGUF file or Hugging Face id.")]
To = Annotated[
    str | None,
    typer.Option(
        help="int8 (a scale for each row), int4 (a scale and an offset for each group) or nf4 (QLoRA's levels)."
    ),
]
Fit = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="Instead of --to: the most bits with which weights and 8,192 tokens of context take no more than this, "
        "such as 18GB.",
    ),
]
Calibrate = Annotated[
    bool,
    typer.Option(
        "--calibrate",
        help="Run the whole model on a few prompts first, and scale input features so that layers' outputs err least.",
    ),
]
CalibrationPrompts = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Prompts to calibrate with, one a line: text, or JSON with prompt or messages. "
        "Without it a few of gesso's own tasks; implies --calibrate.",
    ),
]
Out = Annotated[Path, typer.Option(help="Folder of the new checkpoint, empty or not there yet.")]


def quantize(
    model: Name,
    out: Out,
    to: To = None,
    fit: Fit = None,
    group_size: formats.GroupSize = None,
    dense: formats.Part = None,
    experts: formats.Part = None,
    embedding: formats.Embedding = None,
    calibrate: Calibrate = False,
    calibration_prompts: CalibrationPrompts = None,
    offline: opt.Offline = False,
) -> int:
    """Write a smaller checkpoint, its weights in 8 or 4 bits; gesso alone loads it."""
    from rich.console import Console

    from gesso.cli.calibration import calibration_for
    from gesso.errors import OptionError
    from gesso.models.hub import resolve
    from gesso.models.quantization.convert import check_out, quantize_folder
    from gesso.models.quantization.fit import CONTEXT, pick
    from gesso.models.quantization.plan import name_formats

    if (to is None) == (fit is None):
        raise OptionError("give one of --to FORMAT and --fit SIZE", option="to")
    if fit is not None:
        limit = formats.limit(fit, group_size, dense, experts, embedding)
        folder = resolve(model, offline=offline)
        picked = pick(folder, limit)
        if picked.chosen is None:
            raise OptionError(
                f"{model} fits as it is: {format_bytes(picked.bytes, 2)} with {CONTEXT:,} tokens of context",
                option="fit",
                hint="--to int8 packs it all the same",
            )
        chosen = picked.chosen
        print(f"{name_formats(chosen)}: {format_bytes(picked.bytes, 2)} with {CONTEXT:,} tokens of context")
    else:
        assert to is not None
        chosen = formats.chosen("--to", to, group_size, dense, experts, embedding)
        folder = resolve(model, offline=offline)
    check_out(out, chosen)
    calibration = None
    if calibrate or calibration_prompts is not None:
        calibration = calibration_for(model, folder, calibration_prompts)
        calibration.check(chosen)
    console = Console(stderr=True, highlight=False)
    try:
        with console.status("reading the checkpoint") as status:
            report = quantize_folder(
                folder,
                out,
                chosen,
                lambda done, of: status.update(f"writing file {done + 1} of {of}"),
                calibration,
            )
    except KeyboardInterrupt:
        note("gesso: stopped; the same command again goes on where it was")
        raise
    formats.report(report)
    print(out)
    return 0
