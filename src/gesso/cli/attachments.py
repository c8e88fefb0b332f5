"""Holds the images and clips that a conversation in the terminal attaches to its next message."""

import base64
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gesso.engine.engine import Engine

COMMANDS = {"/image": "image", "/video": "video"}


class Attachments:
    """Holds files that wait for the next message, as parts of its content.

    They are read when they are attached: for a model that is loaded here they are resized and cut at once, so that no
    turn does it again; for one behind a server they become data URLs.
    """

    def __init__(self, engine: "Engine | None", options: dict[str, Any]) -> None:
        """
        Args:
            engine: the model that is loaded here; None for one behind a server.
            options: of the request, the budgets among them.
        """
        self._engine = engine
        self._options = options
        self._parts: list[dict[str, Any]] = []

    def add(self, kind: str, name: str) -> str:
        """Attaches a file; returns what there is to say of it.

        Raises:
            UserError: it cannot be read, or the model takes none.
        """
        from gesso.errors import ImageError

        if not name:
            raise ImageError(f"/{kind} needs the name of a file: /{kind} FILE")
        path = written_out(name)
        self._parts.append(self._url(kind, path) if self._engine is None else self._prepared(kind, path))
        return f"{kind} {path!r} goes with your next message"

    def take(self, text: str) -> str | list[dict[str, Any]]:
        """Returns the content of a message: what was attached, then its text."""
        parts, self._parts = self._parts, []
        return [*parts, {"type": "text", "text": text}] if parts else text

    def clear(self) -> None:
        """Attaches nothing after all."""
        self._parts = []

    def _prepared(self, kind: str, path: str) -> dict[str, Any]:
        from gesso.engine.media import Media, Source, media_options

        assert self._engine is not None
        source = [Source(path)]
        media = Media(images=source) if kind == "image" else Media(videos=source)
        images, clips = media.prepare(self._engine.runner.vision, media_options(self._options))
        return {"type": kind, kind: (images or clips)[0]}

    def _url(self, kind: str, path: str) -> dict[str, Any]:
        import mimetypes

        from gesso.vision.limits import LIMITS, VIDEO_LIMITS
        from gesso.vision.source import read_bytes

        data, _ = read_bytes(path, LIMITS if kind == "image" else VIDEO_LIMITS.frame, kind)
        media_type = mimetypes.guess_type(path)[0] or ""
        if not media_type.startswith(("image/", "video/")):
            media_type = "image/png" if kind == "image" else "video/mp4"
        url = f"data:{media_type};base64,{base64.b64encode(data).decode()}"
        return {"type": f"{kind}_url", f"{kind}_url": {"url": url}}


def _unquoted(name: str) -> str:
    """`name` as a shell reads it, if that is one word and no file is called so with its quotes; else as it is."""
    if not any(mark in name for mark in "'\"\\"):
        return name
    words = shlex.shlex(name, posix=True)
    words.whitespace_split, words.commenters = True, ""
    if os.name == "nt":
        words.escape = ""
    try:
        found = [name] if Path(name).exists() else list(words)
    except (OSError, ValueError):  # a name that is too long, or a quote that is not closed
        return name
    return found[0] if len(found) == 1 and found[0] else name


def written_out(name: str) -> str:
    """Returns the file that is meant, a home folder at its beginning written out; an address as it is.

    Quotes and backslashes are taken off, which a terminal writes around a file that is dropped onto it.

    Raises:
        OptionError: nobody has that home folder.
    """
    from gesso.errors import OptionError

    name = _unquoted(name)
    try:
        return str(Path(name).expanduser()) if name.startswith("~") else name
    except RuntimeError as error:
        raise OptionError(f"{name!r} cannot be found: {error}") from None
