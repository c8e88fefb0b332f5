"""Makes a page on which a canvas resolves again, step by step: one self-contained HTML string that asks no network.

The page holds the trace and the studio's own modules that show one, as one script. Texts reach the page as text nodes
only. In a notebook it stands in a frame of its own without the notebook's origin, so that nothing a model wrote can
reach the notebook. Without scripts it shows the final text.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gesso.display.html import escape
from gesso.studio import page_files
from gesso.studio.bundle import script_of, styles_of

TEMPLATE, SCRIPT = "replay/page.html", "replay/main.js"
STYLES = ("style/base.css", "style/canvas.css", "replay/replay.css")

BANDS = (0.05, 0.5, 1.5)
"""Nats of entropy below which a token is sure, likely, and open; the rest is noise."""
LINE_HEIGHT, LINE_WIDTH = 20, 90
"""Height of a line of text in the frame, in pixels, and its width, in characters."""
LEAST_HEIGHT, MOST_HEIGHT, AROUND = 460, 800, 420
"""Height of the frame, in pixels: at least, at most, and what stands around the text."""


@dataclass(frozen=True, slots=True)
class Frame:
    """Holds one denoising step. Sequences have an entry for each position of the canvas."""

    blocks: int
    """Canvases that were committed before it."""
    pieces: Sequence[str | None]
    """Text of the tokens; None for a special token."""
    entropy: Sequence[float]
    """Nats."""
    accepted: Sequence[bool]
    """Whether the token stays for the next step."""
    status: str


def replay_page(rows: Iterable[Mapping[str, Any]], *, answer: str = "", note: str = "") -> str:
    """Returns the page.

    Args:
        rows: of a trace, the header first; see `gesso.engine.trace`.
        answer: what is shown where no script runs.
        note: what went wrong, or nothing.
    """
    parts = {
        "%STYLE%": styles_of(STYLES),
        "%ANSWER%": escape(answer),
        "%NOTE%": escape(note),
        "%TRACE%": "".join(f"{_script_json(row)}\n" for row in rows),
        "%SCRIPT%": script_of(SCRIPT),
    }
    page = page_files()[TEMPLATE].content.decode()
    return re.sub("|".join(parts), lambda found: parts[found[0]], page)


def in_frame(page: str, lines: int) -> str:
    """Embeds a page in another one, with room for so many lines of text."""
    height = min(MOST_HEIGHT, max(LEAST_HEIGHT, AROUND + LINE_HEIGHT * lines))
    style = f"width: 100%; height: {height}px; border: 1px solid #80808040"
    return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{escape(page)}"></iframe>'


def lines_of(text: str) -> int:
    """Estimates the lines that a text takes in the frame."""
    return sum(1 + len(line) // LINE_WIDTH for line in text.split("\n"))


def _script_json(data: Any) -> str:
    """JSON that can stand in a script element: nothing in it ends the element or begins a comment."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
