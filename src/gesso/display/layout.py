"""Lays a canvas out on a grid of columns, as pictures need it: where each stretch of text stands, and what it looks
like."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

from rich.cells import cell_len

from gesso.display.html import clean
from gesso.display.replay import BANDS, Frame
from gesso.errors import OptionError

Style = Literal["plain", "dim", "sure", "likely", "open", "noise"]
STYLES: tuple[Style, ...] = ("sure", "likely", "open", "noise")
"""Styles of a token, from the most certain to the least."""
COLUMNS = 72
LINE_BREAK = "\N{DOWNWARDS ARROW WITH CORNER LEFTWARDS}"
SPECIAL = "\N{MIDDLE DOT}"
TAB = 4
MOST_CHARACTERS = 20_000_000
"""Characters of all steps together: each has the whole text before it, and a file of more is of use to nobody."""


@dataclass(frozen=True, slots=True)
class Run:
    """Holds a stretch of one line that looks the same."""

    line: int
    column: int
    columns: int
    """Its width: a wide character takes two."""
    text: str
    style: Style
    accepted: bool
    """Whether its tokens stay for the next step."""


@dataclass(frozen=True, slots=True)
class Picture:
    """Holds one step, laid out."""

    runs: tuple[Run, ...]
    lines: int
    status: str
    """Where the canvas stands, in one line."""


def pictures(
    frames: Sequence[Frame], blocks: Sequence[tuple[str, str]], prompt: str, summary: str, columns: int = COLUMNS
) -> list[Picture]:
    """Lays out every step of a request, the prompt and what is committed before it.

    Args:
        frames: one at least.
        blocks: reasoning and text of each committed canvas.
        summary: stands behind the status of the last step.
        columns: of a line.

    Raises:
        OptionError: together they hold more than `MOST_CHARACTERS`.
    """
    _refuse_long(frames, blocks, prompt)
    made = []
    for number, frame in enumerate(frames):
        before = "".join(reasoning + text for reasoning, text in blocks[: frame.blocks])
        head = f"{clean(prompt)}\n\n" if prompt else ""
        runs, lines = _lay_out([(head, "dim", False), (clean(before), "plain", False), *_tokens(frame)], columns)
        last = number == len(frames) - 1 and summary
        made.append(Picture(runs, lines, f"{frame.status} {SPECIAL} {clean(summary)}" if last else frame.status))
    return made


def _refuse_long(frames: Sequence[Frame], blocks: Sequence[tuple[str, str]], prompt: str) -> None:
    committed = [0, *accumulate(len(reasoning) + len(text) for reasoning, text in blocks)]
    own = sum(len(piece or SPECIAL) for frame in frames for piece in frame.pieces)
    count = own + sum(len(prompt) + committed[min(frame.blocks, len(blocks))] for frame in frames)
    if count > MOST_CHARACTERS:
        raise OptionError(
            f"pictures of all {len(frames):,} steps would hold {count:,} characters, {MOST_CHARACTERS:,} at most: "
            "HTML has room for them"
        )


def style_of(entropy: float) -> Style:
    """Returns the look of a token of so many nats."""
    return STYLES[sum(entropy >= bound for bound in BANDS)]


def _tokens(frame: Frame) -> Iterator[tuple[str, Style, bool]]:
    for piece, entropy, accepted in zip(frame.pieces, frame.entropy, frame.accepted, strict=True):
        if piece is None:
            yield SPECIAL, "dim", False
        else:
            yield clean(piece).replace("\n", f"{LINE_BREAK}\n"), style_of(entropy), accepted


def _lay_out(parts: Iterable[tuple[str, Style, bool]], columns: int) -> tuple[tuple[Run, ...], int]:
    """The runs, and how many lines they take."""
    runs: list[Run] = []
    line = column = 0
    for text, style, accepted in parts:
        for character in text.replace("\t", " " * TAB):
            width = 0 if character == "\n" else cell_len(character)
            if character == "\n" or column + width > columns:
                line, column = line + 1, 0
            if character == "\n":
                continue
            last = runs[-1] if runs else None
            joins = last is not None and (last.line, last.column + last.columns) == (line, column)
            # What takes no room, such as an accent, belongs to the character before it.
            if last is not None and joins and (width == 0 or (last.style, last.accepted) == (style, accepted)):
                runs[-1] = Run(
                    line, last.column, last.columns + width, last.text + character, last.style, last.accepted
                )
            else:
                runs.append(Run(line, column, width, character, style, accepted))
            column += width
    return tuple(runs), line + 1
