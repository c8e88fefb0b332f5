"""Tells the keys of training data that are used from those that change nothing, and from those that may change what is
learned, which are refused by name."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

from gesso.errors import DataError

LINE_KEYS = ("messages", "tools", "parallel_tool_calls", "prompt", "completion", "source", "text")
MEANT_ELSEWHERE = (
    *("conversations", "instruction", "input", "output", "question", "answer", "response", "context", "history"),
    *("system", "system_prompt", "functions", "function_call", "tool_choice", "response_format", "documents"),
    *("chat_template_kwargs", "image", "images", "video", "videos", "audio", "audios", "input_ids", "labels", "label"),
    *("refusal", "thinking", "weight", "train", "prefix"),
)
"""Keys by which other programs change what is learned of a line or a message: refused, unless their value is empty."""
PREFERENCES = ("chosen", "rejected", "preferred_output", "non_preferred_output")
"""Keys of a better and a worse answer to one prompt."""
NEAR = 0.85
"""How alike two keys are, from 0 to 1, of which one is taken for a misspelling of the other."""
MOST_UNUSED = 20
"""Keys that are not used whose names are kept."""
OTHER_FORMATS = "docs/finetuning.md#from-other-formats: JSON lines from text, CSV, Parquet, Alpaca, ShareGPT"
"""What to do about a line that is of another format."""


def require_known(fields: Mapping[str, Any], known: Sequence[str], hint: str | None = None) -> None:
    """Refuses other keys by name, but for those of null: programs that write tables give every line every key.

    Raises:
        DataError: there is another key.
    """
    for name, value in fields.items():
        if name not in known and value is not None:
            raise DataError(f"unknown key {name[:80]!r}; known: {', '.join(known)}", hint=hint)


def used_fields(
    fields: Mapping[str, Any], known: tuple[str, ...], unused: set[str], place: str = "", hint: str | None = None
) -> dict[str, Any]:
    """Returns the fields of keys that are known, those of null left out, and notes the others, `place` before them.

    Raises:
        DataError: one of the others may change what is to be learned.
    """
    for name, value in fields.items():
        if name in known or value in (None, "", [], {}):
            continue
        if name.lower() in MEANT_ELSEWHERE:
            raise DataError(
                f"the key {name!r} may change what is learned, and is not supported; known: {', '.join(known)}",
                hint=hint,
            )
        if (meant := _misspelt(name, known)) is not None:
            raise DataError(f"unknown key {name!r}: did you mean {meant}?")
        note(unused, place + name)
    return {name: value for name, value in fields.items() if name in known and value is not None}


@lru_cache(1024)
def _misspelt(name: str, known: tuple[str, ...]) -> str | None:
    """Returns the known key that another one is nearly; None where it is none."""
    return next(iter(get_close_matches(name[:80].lower(), known, 1, cutoff=NEAR)), None)


def note(unused: set[str], name: str) -> None:
    """Adds the name of a key that is not used, of the first `MOST_UNUSED`."""
    if len(unused) < MOST_UNUSED:
        unused.add(name[:80])


def refuse_preferences(fields: Mapping[str, Any]) -> None:
    """Refuses a line of a better and a worse answer.

    Raises:
        DataError: it is one.
    """
    if found := next((name for name in PREFERENCES if fields.get(name) is not None), None):
        raise DataError(
            f"{found} belongs to a pair of a better and a worse answer, and preferences are not learned from",
            hint="the better answer can be learned by itself: give prompt and completion, or messages",
        )
