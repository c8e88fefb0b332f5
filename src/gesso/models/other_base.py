"""Tells in a sentence where an adapter was trained on another model than the one that it is put on."""

from pathlib import Path

from gesso.errors import HubError
from gesso.models.adapter_files import base_of
from gesso.models.base_weights import differs
from gesso.models.hub import bundled, resolve
from gesso.models.run_folders import ADAPTER_WEIGHTS


class OtherBaseWarning(UserWarning):
    """Warns that an adapter is put on another model than it was trained on."""


def other_base(adapter: Path, model: str) -> str:
    """Returns what there is to say where an adapter was trained on another bundled model than `model`, which is one
    itself, or on other weights than those of `model`, which is on this machine; else an empty text.

    Names of folders and of the hub are not compared: copies, and copies in fewer bits, have other names and the same
    weights.
    """
    names, base = bundled(), base_of(adapter)
    if model in names and not Path(model).is_dir() and base in names and base != model:
        return f"{adapter} was trained on {base}, and {model} is another model"
    try:
        folder = resolve(model, offline=True, progress=False)
    except HubError:
        return ""
    if not differs(adapter / ADAPTER_WEIGHTS, folder):
        return ""
    named = f" ({base})" if base and base != model else ""
    return f"{adapter} was trained on other weights{named} than those of {model}"
