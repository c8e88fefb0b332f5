"""Says where an adapter was trained on another model than the one that it is put on."""

from pathlib import Path


def note_other_base(adapter: Path | str | None, model: str) -> None:
    """Prints a line where an adapter's file names another bundled model than `model`, which is one itself.

    Names of folders and of the hub are not compared: copies, and copies in fewer bits, have other names and the same
    weights.
    """
    from gesso.cli.failure import remark
    from gesso.models.adapter_files import base_of
    from gesso.models.hub import bundled

    names = bundled()
    if adapter is None or model not in names or Path(model).is_dir():  # a folder of that name comes first
        return
    base = base_of(Path(adapter))
    if base in names and base != model:
        remark(f"gesso: warning: {adapter} was trained on {base}, and {model} is another model: --model {base}")
