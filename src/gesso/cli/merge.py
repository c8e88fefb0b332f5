"""Implements `gesso merge`."""

from pathlib import Path
from typing import Annotated

import typer

from gesso.cli import options as opt

AdapterFolder = Annotated[Path, typer.Argument(help="Folder of a LoRA adapter in PEFT's format.")]
Out = Annotated[Path, typer.Option(help="Folder of the new checkpoint.")]


def merge(
    context: typer.Context,
    adapter: AdapterFolder,
    out: Out,
    model: opt.Model = "mini",
    dtype: Annotated[str, typer.Option(help="Of the weights written: float32, bfloat16 or float16.")] = "bfloat16",
    offline: opt.Offline = False,
) -> int:
    """Fold an adapter into its model; the result is a checkpoint that gesso and transformers load."""
    from gesso.cli.model_notes import is_named, note_other_base
    from gesso.errors import OptionError
    from gesso.models.adapter_files import base_of, load_adapter
    from gesso.models.adapters import merge as fold
    from gesso.models.describe import parameters, vision_parameters
    from gesso.models.dtype import DTYPES
    from gesso.models.family import read_shape
    from gesso.models.hub import resolve
    from gesso.models.loading import folder_dtype, load_folder, read_generation_defaults
    from gesso.models.quantization.tiles import check_disk
    from gesso.models.saving import refuse_filled, save_folder

    if dtype not in DTYPES:
        raise OptionError(f"dtype {dtype!r} does not exist; known: {', '.join(DTYPES)}", option="dtype")
    if not is_named(context) and (trained_on := base_of(adapter)) not in ("", model):
        raise OptionError(f"{adapter} was trained on {trained_on}: name the model to fold it into", option="model")
    folder = resolve(model, offline=offline)
    note_other_base(adapter, model)
    if out.resolve() in (folder.resolve(), adapter.resolve()):
        raise OptionError(f"--out is {out}, which is read from: name another folder", option="out")
    refuse_filled(out)
    shape = read_shape(folder)
    numbers = parameters(shape)[0] + vision_parameters(folder, shape)
    check_disk(out, DTYPES[dtype].itemsize * numbers)  # before weights are read, which takes long where they are many
    held = folder_dtype(folder, "cpu", "auto")  # deltas are added in fp32 where it fits, and always if it is asked for
    base = load_folder(folder, "cpu", held if held == "float32" else dtype)
    load_adapter(base, adapter)
    fold(base)
    generation = read_generation_defaults(folder, base.config)
    save_folder(base, out, dtype=dtype, generation=generation, source=folder)
    print(out)
    return 0
