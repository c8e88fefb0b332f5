"""Says where the options of training stand: under which heading of a command's help, or in code alone."""

from typing import Any

IN_CODE: dict[str, Any] = {"field": None, "flag": None}
"""What rows have that no command shows."""
TRAINING: dict[str, Any] = {"field": None, "group": "Training"}
DATA: dict[str, Any] = {"field": None, "group": "Data"}
CANVASES: dict[str, Any] = {"field": None, "group": "Canvases"}
CHECKPOINTS: dict[str, Any] = {"field": None, "group": "Checkpoints and evaluation"}
REWARDS: dict[str, Any] = {"field": None, "group": "Prompts and rewards"}
