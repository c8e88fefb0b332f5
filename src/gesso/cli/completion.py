"""Completes what a shell is offered when somebody presses Tab: models, the words that options take, and files.

typer writes the scripts (`gesso --install-completion`) and offers commands and options by itself. Its scripts fall back
to file names where nothing is offered, which is what an argument that is a file needs.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

COMPLETE = "_GESSO_COMPLETE"
"""The variable with which a shell asks for completions."""

WORDS: dict[str, Sequence[str]] = {
    "dense": ("int8", "int4", "none"),
    "device": ("auto", "cpu", "cuda", "mps"),
    "dtype": ("auto", "float32", "bfloat16", "float16"),
    "embedding": ("int8", "int4", "none"),
    "experts": ("int8", "int4", "none"),
    "peer": ("transformers",),
    "quantize": ("int8", "int4", "fp8"),
    "quantize_embedding": ("int8", "int4"),
    "recipe": ("mini", "sight", "skills", "skills-gpu", "sql", "sudoku"),
    "to": ("int8", "int4"),
    "verify": ("auto", "exact", "0", "1", "2"),
}
"""What options and arguments take, by the names of their parameters, where no row of options says it. Of recipes those
that start from nothing: to list all of them takes PyTorch."""


@dataclass(frozen=True, slots=True)
class Item:
    """Holds one word that is offered, as typer's scripts want it."""

    value: str
    help: str | None = None
    type: str = "plain"


def offer_values(command: Any) -> None:
    """Lets every parameter of a command, and of the commands below it, offer its values."""
    for parameter in command.params:
        names = _known(parameter.name, getattr(parameter, "metavar", None) or "")
        own = parameter.shell_complete
        parameter.shell_complete = partial(_plain, own) if names is None else partial(_offered, names)
    for child in getattr(command, "commands", {}).values():
        offer_values(child)


def _offered(names: Callable[[], Sequence[str]], _context: Any, incomplete: str) -> list[Item]:
    return [Item(name) for name in names() if name.startswith(incomplete)]


def _plain(own: Callable[..., list[Any]], context: Any, incomplete: str) -> list[Any]:
    """What a parameter offers of its own; of a path nothing, so that the shell offers files."""
    return [item for item in own(context, incomplete) if item.type == "plain"]


def _known(name: str, metavar: str) -> Callable[[], Sequence[str]] | None:
    if name in ("model", "task"):
        return {"model": model_names, "task": _tasks}[name]
    if name in WORDS:
        return lambda: WORDS[name]
    if "|" in metavar:  # a command may take fewer words than the table has
        return lambda: [word for word in metavar.split("|") if word.islower()]
    return None


def _tasks() -> Sequence[str]:
    from gesso.tasks.registry import TASKS

    return tuple(TASKS)


def model_names() -> Sequence[str]:
    """Returns the models that are bundled, and those in the local Hugging Face cache that look like ours.

    A look at the folders: huggingface_hub takes longer to import than anybody waits for a Tab.
    """
    from gesso.models.hub import bundled

    names = bundled()
    try:
        folders = sorted(_hub_cache().glob("models--*--*"))
    except RuntimeError:  # nobody knows a home
        return names
    for folder in folders:
        configs = folder.glob("snapshots/*/config.json")
        if any(_is_ours(path) for path in configs):
            names.append(folder.name.removeprefix("models--").replace("--", "/", 1))
    return names


def _hub_cache() -> Path:
    """Where huggingface_hub keeps what it fetched."""
    if found := os.environ.get("HF_HUB_CACHE"):
        return Path(found).expanduser()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    return Path(os.environ.get("HF_HOME") or cache / "huggingface").expanduser() / "hub"


def _is_ours(config: Path) -> bool:
    from gesso.models.hub import MODEL_TYPES

    try:
        text = config.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return any(f'"{kind}"' in text for kind in MODEL_TYPES)
