"""Reads the index of a checkpoint in several files: which of them holds which tensor."""

from pathlib import Path

from gesso.errors import CheckpointError
from gesso.json_files import read_json

SINGLE = "model.safetensors"
"""The file of all weights, where there is one."""
INDEX = "model.safetensors.index.json"
"""The index, where there are several."""


def read_index(folder: Path) -> dict[str, str]:
    """Returns the name of each tensor's file, by the tensor's Hugging Face name.

    Raises:
        CheckpointError: the folder has no index, or it names no files.
    """
    weight_map = read_json(folder / INDEX).get("weight_map")
    if not isinstance(weight_map, dict) or not all(isinstance(file, str) for file in weight_map.values()):
        raise CheckpointError(f"{INDEX} in {folder} has no weight_map from tensors to file names")
    return weight_map
