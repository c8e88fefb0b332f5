"""Defines the options that choose formats of weights, and reads them."""

from typing import TYPE_CHECKING, Annotated

import typer

from gesso.cli.output import format_bytes
from gesso.options import keyword
from gesso.options.sizes import size_in_bytes

if TYPE_CHECKING:
    from gesso.models.quantization.convert import QuantizeReport
    from gesso.models.quantization.plan import Quantization
    from gesso.nn.quant.base import Format

GROUP_SIZE = 64

GroupSize = Annotated[int | None, typer.Option(help="Weights of a group of int4: 32, 64 or 128; 64 without it.")]
Part = Annotated[str | None, typer.Option(help="int8, int4, nf4 or none for this part; as the whole without it.")]
Embedding = Annotated[
    str | None,
    typer.Option(
        help="int8, int4 or none (as it is) for the embedding table. Without it the table is left alone: it is "
        "embedding, head and self-conditioning at once."
    ),
]


def limit(fit: str, group_size: int | None, dense: str | None, experts: str | None, embedding: str | None) -> int:
    """Returns the bytes that `--fit` gives.

    Raises:
        OptionError: it is no size, or formats are chosen beside it.
    """
    from gesso.errors import OptionError

    if any(option is not None for option in (group_size, dense, experts, embedding)):
        raise OptionError(
            "--fit picks all formats: leave out --group-size, --dense, --experts, --embedding", option="fit"
        )
    if fit.strip().isdecimal() and int(fit) < 2**20:
        raise OptionError(f"--fit {fit} is a number of bytes: give a size with its unit, as in 18GB", option="fit")
    return size_in_bytes(fit, "--fit")


def chosen(
    option: str, to: str, group_size: int | None, dense: str | None, experts: str | None, embedding: str | None
) -> "Quantization":
    """Returns the formats that the options name.

    Args:
        option: the one that `to` was given by.

    Raises:
        OptionError: one of them does not exist, or does not fit the others.
    """
    from gesso.errors import OptionError
    from gesso.models.quantization.plan import Quantization

    _format(option, to, group_size)
    parts = {
        "--dense": to if dense is None else dense,
        "--experts": to if experts is None else experts,
        "--embedding": "none" if embedding is None else embedding,
    }
    if group_size is not None and "int4" not in parts.values():
        raise OptionError(
            "--group-size needs int4, and none of --dense, --experts and --embedding is int4", option="group_size"
        )
    return Quantization(*(None if kind == "none" else _format(part, kind, group_size) for part, kind in parts.items()))


def _format(option: str, kind: str, group_size: int | None) -> "Format":
    from gesso.errors import OptionError
    from gesso.nn.quant.integer import GROUP_SIZES, Int4, Int8
    from gesso.nn.quant.nf4 import NF4

    if kind == "int8":
        return Int8()
    if kind == "nf4" and option != "--embedding":
        return NF4()
    if kind != "int4":
        known = "int8, int4" if option == "--embedding" else "int8, int4, nf4"
        known += "" if option in ("--to", "--quantize") else ", none"
        raise OptionError(f"{option} {kind!r} does not exist; known: {known}", option=keyword(option))
    if group_size is not None and group_size not in GROUP_SIZES:
        raise OptionError(
            f"--group-size must be one of {', '.join(map(str, GROUP_SIZES))}, got {group_size}", option="group_size"
        )
    return Int4(GROUP_SIZE if group_size is None else group_size)


def report(made: "QuantizeReport") -> None:
    """Prints the sizes of a checkpoint that was written, and its largest error."""
    share = made.bytes_after / made.bytes_before
    print(f"{format_bytes(made.bytes_before, 2)} before, {format_bytes(made.bytes_after, 2)} after ({share:.0%})")
    print(f"largest relative error of a tensor: {made.worst_error:.2%} ({made.worst_tensor})")
    if (found := made.calibration) is not None:
        print(
            f"error of layers' outputs on the prompts: {found.before:.2%} without scales, {found.after:.2%} with them "
            f"({found.scaled} of {found.products} products are scaled)"
        )
