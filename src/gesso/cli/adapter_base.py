"""Says where an adapter was trained on another model than the one that it is put on."""

from pathlib import Path


def note_other_base(adapter: Path | str | None, model: str) -> None:
    """Prints a line where an adapter was trained on another bundled model than `model`, which is one itself, or on
    other weights than those of `model`, which is on this machine.

    Names of folders and of the hub are not compared: copies, and copies in fewer bits, have other names and the same
    weights.
    """
    from gesso.cli.failure import remark
    from gesso.errors import HubError
    from gesso.models.adapter_files import WEIGHTS, base_of
    from gesso.models.base_weights import differs
    from gesso.models.hub import bundled, resolve

    if adapter is None:
        return
    names, base = bundled(), base_of(Path(adapter))
    if model in names and not Path(model).is_dir() and base in names and base != model:
        remark(f"gesso: warning: {adapter} was trained on {base}, and {model} is another model: --model {base}")
        return
    try:
        folder = resolve(model, offline=True, progress=False)
    except HubError:
        return
    if differs(Path(adapter) / WEIGHTS, folder):
        named = f" ({base})" if base and base != model else ""
        remark(f"gesso: warning: {adapter} was trained on other weights{named} than those of {model}")
