"""Implements `gesso pull`."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gesso.cli import quantize_options as formats
from gesso.cli.output import format_bytes, note
from gesso.cli.progress import is_screen, working

if TYPE_CHECKING:
    from gesso.models.remote import HubModel

Name = Annotated[str, typer.Argument(help="Hugging Face id, org/name or org/name@revision.")]
Out = Annotated[
    Path | None,
    typer.Option(
        help="Folder to put the checkpoint into; without it the Hugging Face cache, where every command finds "
        "it by its id."
    ),
]
Quantize = Annotated[
    str | None,
    typer.Option(
        metavar="FORMAT",
        help="int8, int4 or nf4: pack the weights as they arrive and write that checkpoint alone, to --out; the whole "
        "one never lies on the disk.",
    ),
]
Fit = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="Instead of --quantize FORMAT: the most bits with which weights and 8,192 tokens of context take no more "
        "than this, such as 18GB; not packed where they fit as they are.",
    ),
]


def pull(
    model: Name,
    out: Out = None,
    quantize: Quantize = None,
    fit: Fit = None,
    group_size: formats.GroupSize = None,
    dense: formats.Part = None,
    experts: formats.Part = None,
    embedding: formats.Embedding = None,
) -> int:
    """Fetch a model from the Hugging Face Hub, checked and resumable, or quantize it while it arrives."""
    from gesso.errors import OptionError
    from gesso.models.hub import HUB_GGUF, bundled, local_path
    from gesso.models.remote import instead_of_pull

    parts = (group_size, dense, experts, embedding)
    if quantize is not None and fit is not None:
        raise OptionError("give one of --quantize FORMAT and --fit SIZE, not both", option="fit")
    if quantize is None and fit is None and any(part is not None for part in parts):
        raise OptionError(
            "--group-size, --dense, --experts and --embedding choose formats: they need --quantize", option="quantize"
        )
    if (quantize is not None or fit is not None) and out is None:
        raise OptionError("what is quantized on the way needs a folder: name one with --out", option="out")
    if model in bundled():
        raise OptionError(f"{model} comes with gesso: there is nothing to fetch", option="model")
    if local_path(model) is not None:
        raise OptionError(f"{model} is here already; gesso quantize makes a smaller copy of it", option="model")
    if HUB_GGUF.fullmatch(model):
        message = f"{model} is a GGUF file, and gesso pull fetches safetensors weights"
        raise OptionError(message, option="model", hint=instead_of_pull(model))
    try:
        if quantize is None and fit is None:
            _pull_whole(_looked_up(model), model, out)
        else:
            assert out is not None
            _pull_quantized(model, out, quantize, fit, *parts)
    except KeyboardInterrupt:
        note("gesso: stopped; the same command again goes on where it was")
        raise
    return 0


def _pull_whole(model: "HubModel", name: str, out: Path | None) -> None:
    from gesso.models.pull import pull_whole

    size = sum(file.bytes for file in model.files if file.holds_weights)
    with _bar(name, size) as progress:
        folder = pull_whole(model, out, progress)
    print(f"{format_bytes(size, 2)} of weights, every checksum right")
    print(folder)


def _pull_quantized(
    name: str,
    out: Path,
    quantize: str | None,
    fit: str | None,
    group_size: int | None,
    dense: str | None,
    experts: str | None,
    embedding: str | None,
) -> None:
    from gesso.models.loading import read_model_config
    from gesso.models.quantization.convert import check_out
    from gesso.models.quantization.fit import CONTEXT, pick_formats
    from gesso.models.quantization.plan import name_formats
    from gesso.models.quantization.stream import quantize_stream
    from gesso.models.quantization.stream_plan import make_plan, read_source

    parts = (group_size, dense, experts, embedding)
    chosen = formats.chosen("--quantize", quantize, *parts) if quantize is not None else None
    limit = formats.limit(fit, *parts) if fit is not None else 0
    if chosen is not None:
        check_out(out, chosen)
    model = _looked_up(name)
    with working(f"reading the headers of {name}"):
        source = read_source(model)
    if chosen is None:
        picked = pick_formats(read_model_config(source.folder), source.tower_bytes, limit)
        chosen = picked.chosen
        told = "as it is" if chosen is None else name_formats(chosen)
        print(f"{told}: {format_bytes(picked.bytes, 2)} with {CONTEXT:,} tokens of context")
        if chosen is None:
            _pull_whole(model, name, out)
            return
    plan = make_plan(source, out, chosen)
    with _bar(name, source.bytes) as progress:
        report = quantize_stream(out, chosen, plan, progress)
    formats.report(report)
    print(out)


def _looked_up(name: str) -> "HubModel":
    from gesso.models.remote import look_up

    with working(f"asking the Hub for {name}"):
        return look_up(name)


@contextlib.contextmanager
def _bar(name: str, size: int) -> Iterator[Callable[[int], None]]:
    """Shows how many bytes have arrived, how fast, and how long it will take, in a terminal."""
    if not is_screen(sys.stderr):
        yield lambda taken: None
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    columns = ("{task.description}", BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True, highlight=False), transient=True) as shown:
        task = shown.add_task(escape(name), total=size)
        yield lambda taken: shown.update(task, advance=taken)
