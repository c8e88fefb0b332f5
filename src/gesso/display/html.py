"""Makes parts of an HTML page. What a model wrote may hold anything, so every text is escaped, in tags and attributes.

Styles are in the tags themselves: a notebook's own style sheet must not be changed, and some notebooks drop others.
"""

import html
import re
from collections.abc import Iterable, Sequence

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_HIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_FRAME = "font-family: system-ui, sans-serif; font-size: 14px; line-height: 1.45; max-width: 60em"
_PRE = "white-space: pre-wrap; overflow-wrap: anywhere; margin: 0.3em 0; unicode-bidi: isolate; text-align: left"
_MONO = "font-family: ui-monospace, monospace; font-size: 13px"
_DIM = "color: #808080"
_CELL = "text-align: {}; padding: 0 1em 0 0; border: none"


def clean(text: str) -> str:
    """Removes control characters and halves of characters, which have no place on a page."""
    return "".join(c if c in "\n\t" or not _HIDDEN.match(c) else REPLACEMENT for c in text)


def escape(text: str) -> str:
    """Cleans `text` and escapes it for HTML, between tags and in attributes."""
    return html.escape(clean(text), quote=True)


def block(parts: Iterable[str]) -> str:
    """Puts parts of HTML one below the other."""
    return f'<div style="{_FRAME}">{"".join(parts)}</div>'


def pre(text: str) -> str:
    """Shows a text as it stands, its line breaks kept."""
    return f'<pre style="{_PRE}; {_MONO}">{escape(text)}</pre>'


def pieces(texts: Iterable[tuple[str, str]]) -> str:
    """Shows texts that follow one another in a `pre`, each with a style of its own, or none."""
    spans = (f'<span style="{style}">{escape(text)}</span>' if style else escape(text) for text, style in texts)
    return f'<pre style="{_PRE}; {_MONO}">{"".join(spans)}</pre>'


def line(parts: Iterable[str]) -> str:
    """Shows a dim line of short facts."""
    return f'<div style="{_DIM}">{" &middot; ".join(escape(part) for part in parts)}</div>'


def warning(text: str) -> str:
    """Shows a warning."""
    return f'<div style="color: #b06000">{escape(text)}</div>'


def folded(title: str, inside: str) -> str:
    """Folds HTML away until its title is clicked."""
    return f'<details><summary style="{_DIM}">{escape(title)}</summary>{inside}</details>'


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Makes a table; all columns but the first are numbers."""

    def cells(tag: str, values: Sequence[str]) -> str:
        sides = ["left"] + ["right"] * (len(values) - 1)
        pairs = zip(values, sides, strict=True)
        return "".join(f'<{tag} style="{_CELL.format(side)}">{escape(value)}</{tag}>' for value, side in pairs)

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f'<table style="border-collapse: collapse"><tr>{cells("th", heads)}</tr>{body}</table>'


def count(number: int, one: str, many: str = "") -> str:
    """Writes a count with its noun: `1 canvas`, `2 canvases`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
