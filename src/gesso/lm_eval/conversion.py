"""Converts what the harness asks into an engine's options and tokens; it needs no harness."""

import logging
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import torch

from gesso.errors import OptionError
from gesso.generation import PENALTIES

LOG = logging.getLogger(__name__)
NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "do_sample": (True,),
    "early_stopping": (False,),
    "length_penalty": (1,),
    "n": (1,),
    "no_repeat_ngram_size": (0,),
    "num_beams": (1,),
    "num_return_sequences": (1,),
    "typical_p": (1,),
    "use_cache": (True, False),
}
"""Settings that gesso has not, and the values of each that leave the answer as it is."""


def usable_device(device: str) -> str:
    """Returns the device to load on: `auto` in place of a CUDA device where there is none, with a notice.

    The harness says `cuda:0` where its user said nothing.
    """
    if device.startswith("cuda") and not torch.cuda.is_available():
        LOG.warning("gesso: PyTorch finds no CUDA device here; device auto in place of %s", device)
        return "auto"
    return device


def generation_options(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the engine's options for the harness's `gen_kwargs`.

    Raises:
        OptionError: sampling in a way that canvases have not.
    """
    left = {name: value for name, value in asked.items() if value is not None}
    until = left.pop("until", ())
    options: dict[str, Any] = {"stop": tuple(text for text in ((until,) if isinstance(until, str) else until) if text)}
    for name in ("max_gen_toks", "max_tokens", "max_new_tokens"):
        if name in left:
            options["max_new_tokens"] = int(left.pop(name))
    if left.get("do_sample") is False:
        del left["do_sample"]
        left["temperature"] = 0.0
    for name in ("seed", "temperature", "top_p", "top_k", "min_p", *PENALTIES, "penalty_window", "min_new_tokens"):
        if name in left:
            options[name] = left.pop(name)
    for name, value in left.items():
        if value not in NEUTRAL.get(name, ()):
            raise OptionError(f"gen_kwargs: {name} {value!r} is not known here", option=name)
    return options


def fit_to_context(
    before: Sequence[int], max_new_tokens: int | None, *, longest: int, width: int
) -> tuple[list[int], int | None]:
    """Cuts a prompt from the left to what fits, behind its first token; and the answer where it leaves nothing of it.

    An answer that does not fit behind the whole prompt keeps half of the context, and one whose length is not given a
    canvas.

    Args:
        longest: tokens of the context, for both.
        width: tokens of a canvas, of which an answer takes whole ones.
    """
    answer = width
    if max_new_tokens is not None:
        room = max(longest - len(before), longest // 2) // width * width
        answer = -(-max_new_tokens // width) * width
        if answer > max(room, width):
            answer = max_new_tokens = max(room, width)
    return cut_left(before, longest - answer), max_new_tokens


def cut_left(before: Sequence[int], longest: int) -> list[int]:
    """Returns the first token, bos, and of the others the last ones, so many that they are `longest` together."""
    over = max(0, len(before) - max(1, longest))
    return [*before[:1], *before[1 + over :]]


def split_spaces(context: str, continuation: str) -> tuple[str, str]:
    """Gives spaces at a context's end to the continuation, which tokenizers take for the beginning of its word."""
    kept = context.rstrip()
    return kept, context[len(kept) :] + continuation


def distinct_seeds(seeds: Sequence[int], questions: Sequence[Hashable]) -> list[int]:
    """Returns the seed of each question: the one given, or where the same question comes again the next one up."""
    seen: Counter[Hashable] = Counter()
    found = []
    for seed, question in zip(seeds, questions, strict=True):
        found.append(seed + seen[question])
        seen[question] += 1
    return found
