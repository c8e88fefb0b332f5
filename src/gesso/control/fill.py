"""Fills the holes of a document. What stands around them comes back byte for byte.

`gesso.control.filler` says how.
"""

import time
from dataclasses import replace
from typing import Any

from gesso.control.causal_filler import CAUSAL_SETTINGS, CausalFiller
from gesso.control.fill_result import FillCandidate, FilledHole, FillResult
from gesso.control.filler import Filler
from gesso.control.holes import Document, parse_document
from gesso.control.job import Job
from gesso.engine.engine import Engine
from gesso.errors import OptionError

__all__ = ["INSTRUCTION", "FillCandidate", "FillResult", "FilledHole", "fill"]

INSTRUCTION = "Fill in what is missing."
"""The user's message where no instruction is given."""


def fill(
    engine: Engine,
    document: Document | str,
    instruction: str = "",
    *,
    alternatives: int = 3,
    raw: bool = False,
    max_length: int | None = None,
    adapter: str | None = None,
    **settings: Any,
) -> Job[FillResult]:
    """Fills the holes of `document`.

    Args:
        document: as `gesso.control.holes` reads it.
        instruction: what the user asks for.
        alternatives: how many other texts are reported of each hole at most.
        raw: without the chat template; there is no place for an instruction, hints and what is far right then.
        max_length: tokens that prompt and canvas may have, where that is less than the model's limit.
        settings: `mode`, which is `canvas` or `ar` (`gesso.control.causal_filler`) and else the model's own, and those
            of `fill_settings`; see `GenerationConfig`. `max_new_tokens` is the most that a hole without a length of its
            own may have.

    Raises:
        TextError: a malformed document, one that the tokenizer changes, or no text was found.
        OptionError: an impossible setting, or a length that the canvas cannot hold.
    """
    started = time.monotonic()
    if isinstance(alternatives, bool) or not isinstance(alternatives, int) or alternatives < 0:
        raise OptionError(f"alternatives must be an integer of at least 0, got {alternatives!r}", option="alternatives")
    if not isinstance(instruction, str):
        raise OptionError(f"instruction must be a string, got {instruction!r}", option="instruction")
    if max_length is not None and not (type(max_length) is int and max_length > 0):
        raise OptionError(f"max_length must be an integer of at least 1, got {max_length!r}", option="max_length")
    if isinstance(document, str):
        document = parse_document(document)
    if not isinstance(document, Document):
        raise OptionError(f"the text with the holes must be a string, got {document!r:.60}", option="document")
    names = [hole.name for hole in document.holes if hole.name]
    if raw and (instruction or names):
        raise OptionError("raw leaves no place for an instruction or for hints", option="raw")
    message = instruction or INSTRUCTION
    if names:
        message += f"\n\nMissing, in this order: {'; '.join(names)}."
    given = {name: value for name, value in settings.items() if value is not None}
    kind = CausalFiller if _is_causal(engine, given) else Filler
    filler = kind(engine, document.as_read(), None if raw else message, max_length, adapter, given)
    holes = [_with_own_ends(hole, document) for hole in (yield from filler.run(alternatives))]
    return FillResult(
        text=document.filled([hole.text for hole in holes]),
        holes=tuple(holes),
        prompt_tokens=filler.prompt_tokens,
        denoising_steps=filler.steps,
        seed=filler.seed,
        truncated=filler.truncated,
        seconds=time.monotonic() - started,
    )


def _with_own_ends(hole: FilledHole, document: Document) -> FilledHole:
    others = (replace(other, text=document.own_line_ends(other.text)) for other in hole.alternatives)
    return replace(hole, text=document.own_line_ends(hole.text), alternatives=tuple(others))


def _is_causal(engine: Engine, given: dict[str, Any]) -> bool:
    """Says whether holes are filled token by token, and takes `mode` out of what is given. A model's own mode gives way
    to options of canvases."""
    mode = given.pop("mode", None)
    if mode not in (None, "canvas", "ar"):
        raise OptionError(f"mode {mode!r} does not go with a fill: canvas or ar", option="mode")
    return mode == "ar" or (mode is None and engine.defaults.mode == "ar" and given.keys() <= set(CAUSAL_SETTINGS))
