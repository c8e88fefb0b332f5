"""Tells what a run must have in common with the one that it goes on from: its steps would be others."""

import dataclasses
import hashlib
from pathlib import Path

from gesso.models.loading import weight_files
from gesso.models.run_folders import ADAPTER_CONFIG, ADAPTER_WEIGHTS
from gesso.train.recipe import Recipe
from gesso.train.text_files import CopiedText

WEIGHTS = "weights"
"""Name of the digest of the weights that a run starts from."""
STARTING_ADAPTER = "adapter_weights"
"""Name of the digest of the adapter that a run starts from; None stands there where it starts from none."""
ADAPTER = (ADAPTER_CONFIG, ADAPTER_WEIGHTS)
TEXTS = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
"""Files by which examples become tokens."""
_SETTINGS = (
    "optimizer",
    "momentum",
    "time_exponent",
    "source_probability",
    "prefix_probability",
    "self_conditioning_probability",
    "own_draft_probability",
    "own_draft_rounds",
    "on_policy",
    "batch_size",
    "canvases_per_example",
    "prompt_loss",
    "denoiser_loss_weight",
    "seed",
)
_WHOLE = 2**26
"""Bytes of a file up to which all of it is read."""
_STRIDE = 2**18
_SAMPLE = 2**12
"""Bytes that are read in each stride of a larger file, a 64th: every matrix of a large model is met many times."""


def identity_of(recipe: Recipe) -> dict[str, object]:
    """Returns the settings of a run, and digests of its data and of the weights that it starts from.

    Raises:
        CheckpointError: there are no weights to start from.
    """
    policy = None if recipe.policy is None else dataclasses.asdict(recipe.policy)
    found: dict[str, object] = {"recipe": recipe.name, "base": recipe.base, "data": recipe.data.fingerprint}
    found |= {name: getattr(recipe.train, name) for name in _SETTINGS}
    if recipe.train.evaluate_every:  # the best loss so far is that of these
        found["evaluation_examples"] = recipe.train.evaluation_examples
    if recipe.start is not None:
        found[WEIGHTS] = digest_weights(recipe.start)
    if recipe.teacher is not None:
        found["teacher"] = digest_weights(recipe.teacher)
    if recipe.adapter is not None:
        found["dropout"] = recipe.adapter.dropout
    found[STARTING_ADAPTER] = None if recipe.adapter_start is None else digest_files(recipe.adapter_start, ADAPTER)
    if isinstance(recipe.text, CopiedText):
        found["text"] = digest_files(recipe.text.source, TEXTS)
    if recipe.labels is not None:
        found["labels"] = recipe.labels.fingerprint
    return {**found, "vision": recipe.vision, "policy": policy, "distill": recipe.distill}


def digest_files(folder: Path, names: tuple[str, ...]) -> str:
    """Returns a digest of some files of a folder, wherever it lies; those that are not there count as well."""
    digest = hashlib.sha256()
    for name in names:
        path = folder / name
        held = path.read_bytes() if path.is_file() else b""
        digest.update(f"{name} {len(held)}\n".encode() + held)
    return digest.hexdigest()


def digest_weights(folder: Path) -> str:
    """Returns a digest of the weights in a folder, wherever it lies; of a file above 64 MiB a 64th is read.

    Raises:
        CheckpointError: there are no weights.
    """
    digest = hashlib.sha256()
    for path in sorted(set(weight_files(folder).values())):
        size = path.stat().st_size
        digest.update(f"{path.name} {size}\n".encode())
        with path.open("rb") as file:
            if size <= _WHOLE:
                digest.update(file.read())
                continue
            for place in range(0, size, _STRIDE):
                file.seek(place)
                digest.update(file.read(_SAMPLE))
    return digest.hexdigest()
