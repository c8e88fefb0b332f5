"""Declares the options of `gesso bench` that are its own."""

from pathlib import Path
from typing import Annotated

import typer

from gesso.cli import options as opt

REPEATS, WARMUP = 3, 1

_MEASURING, _SHOWN, _MODEL = ({"rich_help_panel": panel} for panel in ("Measuring", opt.OUTPUT, "Model"))
Name = Annotated[
    str | None,
    typer.Argument(metavar="MODEL", help="Bundled name, folder or Hugging Face id; mini without it."),
]
Prompt = Annotated[
    str, typer.Option(metavar="N,...", help="Tokens of the prompt; several lengths separated by commas.", **_MEASURING)
]
Output = Annotated[str, typer.Option(metavar="N,...", help="Tokens of the answer; likewise.", **_MEASURING)]
Batch = Annotated[str, typer.Option(metavar="N,...", help="Requests at a time; likewise.", **_MEASURING)]
Modes = Annotated[str, typer.Option(metavar="MODES", help="canvas, ar (token by token), or both.", **_MEASURING)]
Steps = Annotated[
    str | None, typer.Option(metavar="N|real", help="Of a canvas: a number, or real (where it settles).", **_MEASURING)
]
Images = Annotated[
    list[str] | None,
    typer.Option("--image", metavar="FILE", help="Shown by every prompt, in its tokens. Repeatable.", **_MEASURING),
]
ImageBudget = Annotated[
    int | None,
    typer.Option(metavar="N", help="Most soft tokens of an image; the model's own without it.", **_MEASURING),
]
Repeats = Annotated[int, typer.Option(metavar="N", help="Measurements of each cell.", **_MEASURING)]
Warmup = Annotated[int, typer.Option(metavar="N", help="Runs of each cell that do not count.", **_MEASURING)]
Peer = Annotated[
    str | None, typer.Option(metavar="NAME", help="transformers: measure the same weights there, too.", **_MEASURING)
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON line with everything.", **_SHOWN)]
Plot = Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the figures: PNG, SVG or PDF.", **_SHOWN)]
Compare = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Show what changed since a line that --json wrote into this file.", **_SHOWN),
]
RandomWeights = Annotated[
    Path | None, typer.Option(metavar="CONFIG", help="Measure a config.json without its weights.", **_MODEL)
]
Quantize = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="int8, int4 or fp8: hold random linear layers and experts in fewer bits.", **_MODEL
    ),
]
QuantizeEmbedding = Annotated[
    str | None, typer.Option(metavar="NAME", help="int8 or int4: hold the random embedding table so.", **_MODEL)
]
