"""Holds the files of the studio, a page that shows canvases while they resolve; docs/studio.md.

The page is plain ES modules and style sheets without a build. It uses the public HTTP interface and nothing else.

Modules stand by concern: api, run, canvas, chat, edit, structure, compare, state, preview, settings and ui. `replay`
and `bundle.py` make the page of a replay from the same modules.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable

PAGE = "index.html"
PREVIEW = "preview/frame.html"
"""Shows HTML that a model wrote, in a frame without an origin."""
MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
"""What is served; other files of the package are not."""


@dataclass(frozen=True, slots=True)
class PageFile:
    """Holds one file of the page."""

    content: bytes
    media_type: str


def page_files() -> dict[str, PageFile]:
    """Returns the files by their path from the page, such as `canvas/view.js`."""
    found = {name: PageFile(file.read_bytes(), kind) for name, kind, file in _walk(files(__name__), "")}
    return dict(sorted(found.items()))


def _walk(folder: Traversable, prefix: str) -> Iterator[tuple[str, str, Traversable]]:
    for entry in folder.iterdir():
        name = f"{prefix}{entry.name}"
        if entry.is_dir():
            yield from _walk(entry, f"{name}/")
        elif kind := MEDIA_TYPES.get(f".{entry.name.rpartition('.')[2]}"):
            yield name, kind, entry
