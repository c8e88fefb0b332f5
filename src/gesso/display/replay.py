"""Makes a page on which a canvas resolves again, step by step: one self-contained HTML string that asks no network.

The page holds the steps as JSON and a few lines of script that draw one of them. Texts reach the page as text nodes
only. In a notebook it stands in a frame of its own without the notebook's origin, so that nothing a model wrote can
reach the notebook. Without scripts it shows the final text.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from gesso.display.html import clean, escape

BANDS = (0.05, 0.5, 1.5)
"""Nats of entropy below which a token is sure, likely, and open; the rest is noise."""
LINE_HEIGHT, LINE_WIDTH = 20, 90
"""Height of a line of text in the frame, in pixels, and its width, in characters."""
LEAST_HEIGHT, MOST_HEIGHT, AROUND = 220, 640, 140
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


def replay_page(
    frames: Sequence[Frame], blocks: Sequence[tuple[str, str]], *, prompt: str = "", answer: str = "", summary: str = ""
) -> str:
    """Returns the page.

    Args:
        frames: one at least.
        blocks: reasoning and text of each committed canvas.
        answer: what is shown where no script runs.
        summary: stands behind the status of the last step.
    """
    known: dict[str, int] = {}
    data = {
        "prompt": clean(prompt),
        "summary": clean(summary),
        "blocks": [{"reasoning": clean(reasoning), "text": clean(text)} for reasoning, text in blocks],
        "frames": [_frame(frame, known) for frame in frames],
        "pieces": list(known),
    }
    template = (files("gesso.display") / "replay.html").read_text(encoding="utf-8")
    before, rest = template.split("%ANSWER%")
    between, after = rest.split("%DATA%")
    return before + escape(answer) + between + _script_json(data) + after


def in_frame(page: str, lines: int) -> str:
    """Embeds a page in another one, with room for so many lines of text."""
    height = min(MOST_HEIGHT, max(LEAST_HEIGHT, AROUND + LINE_HEIGHT * lines))
    style = f"width: 100%; height: {height}px; border: 1px solid #80808040"
    return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{escape(page)}"></iframe>'


def lines_of(text: str) -> int:
    """Estimates the lines that a text takes in the frame."""
    return sum(1 + len(line) // LINE_WIDTH for line in text.split("\n"))


def _frame(frame: Frame, known: dict[str, int]) -> dict[str, Any]:
    tokens = [-1 if piece is None else known.setdefault(clean(piece), len(known)) for piece in frame.pieces]
    return {
        "blocks": frame.blocks,
        "tokens": tokens,
        "bands": "".join(str(sum(entropy >= bound for bound in BANDS)) for entropy in frame.entropy),
        "entropy": [round(entropy, 3) for entropy in frame.entropy],
        "accepted": "".join("1" if accepted else "0" for accepted in frame.accepted),
        "status": frame.status,
    }


def _script_json(data: Any) -> str:
    """JSON that can stand in a script element: nothing in it ends the element or begins a comment."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
