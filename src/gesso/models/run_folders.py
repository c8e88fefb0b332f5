"""Tells what a folder of a training run is, for who gave it where a checkpoint or an adapter belongs."""

from pathlib import Path

ADAPTER_CONFIG = "adapter_config.json"
ADAPTER_WEIGHTS = "adapter_model.safetensors"


def adapter_within(folder: Path) -> Path | None:
    """Returns the adapter that a run in this folder ended with; None where there is none."""
    found = folder / "adapter"
    return found if (found / ADAPTER_CONFIG).is_file() else None


def instead_of_checkpoint(folder: Path) -> str | None:
    """Returns what to do with a folder that is no checkpoint; None where it is nothing of a run."""
    if (folder / ADAPTER_CONFIG).is_file():
        return f"that is an adapter: give its base as the model, and --adapter {folder}"
    if (adapter := adapter_within(folder)) is not None:
        return f"that is the folder of a run: give its base as the model, and --adapter {adapter}"
    if (folder / "model" / "config.json").is_file():
        return f"that is the folder of a run; its model is {folder / 'model'}"
    return None


def instead_of_adapter(folder: Path) -> str | None:
    """Returns what to do with a folder that is no adapter; None where it is no run's."""
    adapter = adapter_within(folder)
    return None if adapter is None else f"that is the folder of a run; its adapter is {adapter}"
