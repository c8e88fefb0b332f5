"""Implements `gesso quantize`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gesso.cli import options as opt
from gesso.cli.sizes import size_in_bytes
from gesso.options import keyword

if TYPE_CHECKING:
    from gesso.models.quantization.plan import Quantization
    from gesso.nn.quant.base import Format

GROUP_SIZE = 64

Name = Annotated[str, typer.Argument(help="Bundled name, checkpoint folder or Hugging Face id.")]
To = Annotated[
    str | None, typer.Option(help="int8 (a scale for each row) or int4 (a scale and an offset for each group).")
]
Fit = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="Instead of --to: the most bits with which weights and 8,192 tokens of context take no more than this, "
        "such as 18GB.",
    ),
]
Out = Annotated[Path, typer.Option(help="Folder of the new checkpoint, empty or not there yet.")]
GroupSize = Annotated[int | None, typer.Option(help="Weights of a group of int4: 32, 64 or 128; 64 without it.")]
Part = Annotated[str | None, typer.Option(help="int8, int4 or none for this part; as --to without it.")]
Embedding = Annotated[
    str | None,
    typer.Option(
        help="int8, int4 or none (as it is) for the embedding table. --to leaves it alone: it is embedding, head and "
        "self-conditioning at once."
    ),
]


def quantize(
    model: Name,
    out: Out,
    to: To = None,
    fit: Fit = None,
    group_size: GroupSize = None,
    dense: Part = None,
    experts: Part = None,
    embedding: Embedding = None,
    offline: opt.Offline = False,
) -> int:
    """Write a smaller checkpoint, its weights in 8 or 4 bits; gesso alone loads it."""
    from rich.console import Console

    from gesso.errors import OptionError
    from gesso.models.hub import resolve
    from gesso.models.quantization.convert import quantize_folder
    from gesso.models.quantization.fit import CONTEXT, pick

    if (to is None) == (fit is None):
        raise OptionError("give one of --to FORMAT and --fit SIZE", option="to")
    folder = None
    if fit is not None:
        if any(option is not None for option in (group_size, dense, experts, embedding)):
            raise OptionError(
                "--fit picks all formats: leave out --group-size, --dense, --experts, --embedding", option="fit"
            )
        limit = size_in_bytes(fit, "--fit")
        folder = resolve(model, offline=offline)
        picked = pick(folder, limit)
        chosen = picked.chosen
        print(f"{_name(chosen)}: {_size(picked.bytes)} with {CONTEXT:,} tokens of context")
    else:
        assert to is not None
        chosen = _chosen(to, group_size, dense, experts, embedding)
    console = Console(stderr=True, highlight=False)
    with console.status("reading the checkpoint") as status:
        report = quantize_folder(
            folder or resolve(model, offline=offline),
            out,
            chosen,
            lambda done, of: status.update(f"writing file {done + 1} of {of}"),
        )
    share = report.bytes_after / report.bytes_before
    print(f"{_size(report.bytes_before)} before, {_size(report.bytes_after)} after ({share:.0%})")
    print(f"largest relative error of a tensor: {report.worst_error:.2%} ({report.worst_tensor})")
    print(out)
    return 0


def _chosen(
    to: str, group_size: int | None, dense: str | None, experts: str | None, embedding: str | None
) -> "Quantization":
    """Returns the formats that the options name.

    Raises:
        OptionError: one of them does not exist, or does not fit the others.
    """
    from gesso.errors import OptionError
    from gesso.models.quantization.plan import Quantization

    _format("--to", to, group_size)
    parts = {
        "--dense": to if dense is None else dense,
        "--experts": to if experts is None else experts,
        "--embedding": "none" if embedding is None else embedding,
    }
    if group_size is not None and "int4" not in parts.values():
        raise OptionError(
            "--group-size is of int4, which none of --dense, --experts and --embedding is", option="group_size"
        )
    return Quantization(
        *(None if kind == "none" else _format(option, kind, group_size) for option, kind in parts.items())
    )


def _name(chosen: "Quantization") -> str:
    """Names the formats of the parts."""
    from gesso.models.quantization.plan import PARTS
    from gesso.nn.quant.integer import Int4

    forms = ((part, getattr(chosen, part)) for part in PARTS)
    named = (
        f"{part} {form.kernel}{f' (groups of {form.group_size})' if isinstance(form, Int4) else ''}"
        for part, form in forms
        if form is not None
    )
    return ", ".join(named)


def _format(option: str, kind: str, group_size: int | None) -> "Format":
    from gesso.errors import OptionError
    from gesso.nn.quant.integer import GROUP_SIZES, Int4, Int8

    if kind == "int8":
        return Int8()
    if kind != "int4":
        known = "int8, int4" if option == "--to" else "int8, int4, none"
        raise OptionError(f"{option} {kind!r} does not exist; known: {known}", option=keyword(option))
    if group_size is not None and group_size not in GROUP_SIZES:
        raise OptionError(
            f"--group-size must be one of {', '.join(map(str, GROUP_SIZES))}, got {group_size}", option="group_size"
        )
    return Int4(GROUP_SIZE if group_size is None else group_size)


def _size(size: int) -> str:
    return f"{size / 1e9:.2f} GB" if size >= 1e9 else f"{size / 1e6:.2f} MB"
