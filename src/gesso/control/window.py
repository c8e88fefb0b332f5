"""Lays out what a request about a hole sees: how wide the hole is, and how prompt and canvas are shared out around
it."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from gesso.control.holes import Document
from gesso.control.job import MOST_REQUESTS
from gesso.engine.engine import Engine
from gesso.errors import OptionError, TextError
from gesso.text.tokenizer import Tokenizer

BEGIN_OF_TEXT = "<bos>"

Tokens = Sequence[int | None]
"""Token ids of a document; None is a position of a hole."""


@dataclass(frozen=True, slots=True)
class HoleWindow:
    """Holds what all candidates of a hole share."""

    prompt: tuple[int, ...]
    near: tuple[int, ...]
    """Tokens before the hole, in the canvas."""
    after: tuple[int | None, ...]
    """Tokens after it; the canvas holds as many as there is room for."""
    scored: int
    """How many of them are in the canvas at every width."""

    def pins(self, width: int, canvas: int, pad_fill: int) -> list[int | None]:
        """Pins a canvas that has a hole of `width`."""
        pins = [*self.near, *(None for _ in range(width)), *self.after][:canvas]
        return pins + [pad_fill] * (canvas - len(pins))


class HoleWindows:
    """Makes the windows of one document."""

    def __init__(self, engine: Engine, message: str | None, canvas: int, limit: int) -> None:
        """
        Args:
            message: the user's; None does without the chat template.
            canvas: its length.
            limit: tokens of prompt and canvases.
        """
        self._engine = engine
        self._message = message
        self.canvas = canvas
        self.limit = limit
        self.truncated = False
        """Whether some text was left out."""

    def around(self, before: Sequence[int], after: Tokens, max_width: int, canvases: int = 1) -> HoleWindow:
        """Makes the window of a hole of up to `max_width` tokens.

        Of the room that the hole leaves in its canvas, a quarter is for the text before it, which can stand in the
        prompt as well; the rest is for the text after it, and what is left then for the text before it again.

        Args:
            canvases: how many the answer may take.

        Raises:
            OptionError: the user's message is too long.
        """
        room = self.canvas - max_width
        scored = min(len(after), room - min(len(before), room // 4))
        near = min(len(before), room - scored)
        space = self.limit - canvases * self.canvas
        if self._message is None:
            begin = self._engine.tokenizer.special.get(BEGIN_OF_TEXT)
            head = [] if begin is None else [begin]
            # A prompt has one token at least.
            near = min(near, len(before) - (begin is None))
            self.truncated |= scored + 1 < len(after)
        else:
            head = self._ask(self._message, after[scored:], space)
        if near < 0:
            raise TextError("the prompt is empty: there is no text before the hole")
        if len(head) > space:
            raise OptionError(
                f"instruction: the prompt has {len(head)} tokens with it, there is room for {space}",
                option="instruction",
            )
        far = before[: len(before) - near]
        kept = far[max(0, len(far) - (space - len(head))) :]
        self.truncated |= len(kept) < len(far)
        return HoleWindow((*head, *kept), tuple(before[len(far) :]), tuple(after), scored)

    def _ask(self, message: str, far: Tokens, space: int) -> list[int]:
        """The prompt up to the answer. `far` is what the canvas has no room for: a quarter of `space` tells of it."""
        engine = self._engine
        quoted = far[: space // 4]
        self.truncated |= len(quoted) + 1 < len(far)
        if text := self._write([token for token in quoted if token != engine.end_of_turn]).strip():
            message += f"\n\nLater the text goes on:\n\n{text}"
        return list(engine.prompts.read(message, max_tokens=self.limit).ids)

    def _write(self, tokens: Tokens) -> str:
        """Text of what comes after a hole; a later hole shows as one."""
        parts = groupby(tokens, lambda token: token is None)
        decode = self._engine.tokenizer.decode
        return "".join("{{ }}" if free else decode([t for t in part if t is not None]) for free, part in parts)


def spread_widths(least: int, most: int) -> list[int]:
    """Picks at most `MOST_REQUESTS` widths from `least` to `most`, in equal ratios; small ones make up for those that
    coincide."""
    steps = MOST_REQUESTS - 1
    widths = {round(least * (most / least) ** (step / steps)) for step in range(MOST_REQUESTS)}
    for width in range(least, most + 1):
        if len(widths) < MOST_REQUESTS:
            widths.add(width)
    return sorted(widths)


def widths_between(tried: Sequence[int], best: int) -> list[int]:
    """Picks the widths between the best one and its neighbours."""
    low = max((width for width in tried if width < best), default=best)
    high = min((width for width in tried if width > best), default=best)
    return sorted({*range(low + 1, high)} - {best}, key=lambda width: abs(width - best))[:MOST_REQUESTS]


def leading_space(text: str) -> str:
    """Returns the end of a text before a hole that a token of the hole may begin with: a single space or line break."""
    alone = text[-1:] in {" ", "\n"} and not text[-2:-1].isspace()
    return text[-1:] if alone else ""


def check_exact(document: Document, tokenizer: Tokenizer) -> None:
    """Refuses texts that the tokenizer does not give back as they are.

    Raises:
        TextError: with the line.
    """
    line = 1
    for text in document.texts:
        ids = tokenizer.encode(text)
        if (piece := tokenizer.special_piece(ids)) is not None:
            raise TextError(f"the text has {piece}, which is no text to this model")
        if tokenizer.decode(ids) != text:
            rows = text.split("\n")
            row = next((i for i, row in enumerate(rows) if tokenizer.decode(tokenizer.encode(row)) != row), 0)
            odd = next((c for c in rows[row] if tokenizer.decode(tokenizer.encode(c)) != c), rows[row])
            raise TextError(f"line {line + row}: this model's tokenizer cannot write {odd!r} exactly")
        line += text.count("\n")
