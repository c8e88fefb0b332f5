"""Reads the bytes of an image from what a user names it by: a path, bytes, or a data URL. Nothing is fetched from
anywhere."""

import base64
import binascii
import re
from pathlib import Path

from gesso.errors import ImageError
from gesso.vision.limits import ImageLimits

_DATA_URL = re.compile(
    r"data:(?P<type>[\w.+-]+/[\w.+-]+)?(?P<parameters>(;[\w.+-]+=[^;,]*)*)(?P<base64>;base64)?,", re.IGNORECASE
)
_OTHER_URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+://")


def read_bytes(source: str | Path | bytes, limits: ImageLimits, kind: str = "image") -> tuple[bytes, str]:
    """Returns the bytes of an encoded file, and the words by which errors name it.

    Args:
        source: a path, the bytes themselves, or a `data:` URL in base64.
        kind: of media type that a data URL may hold: "image" or "video".

    Raises:
        ImageError: no such file, too many bytes, none at all, or a URL that is no data URL of this kind.
    """
    if isinstance(source, bytes):
        data, name = source, f"the {kind}"
        limits.check_bytes(len(data), name)
    elif isinstance(source, str) and source[:5].lower() == "data:":
        data, name = _from_url(source, limits, kind), f"the {kind} of the data URL"
    elif isinstance(source, str) and _OTHER_URL.match(source):
        raise ImageError(
            f"{source[:60]!r} is an address: nothing is fetched here; give a file, its bytes or a data URL"
        )
    else:
        data, name = _from_file(source, limits), f"{kind} {str(source)[:200]!r}"
    if not data:
        raise ImageError(f"{name} is empty")
    return data, name


def _from_file(source: str | Path, limits: ImageLimits) -> bytes:
    path, name = Path(source), f"{str(source)[:200]!r}"
    try:
        if not path.is_file():  # nor a pipe or a device, which may never end
            raise ImageError(f"{name} is no file")
        limits.check_bytes(path.stat().st_size, name)
        with path.open("rb") as file:
            data = file.read(limits.max_bytes + 1)
    except (OSError, ValueError) as error:  # ValueError: a null byte in the name
        if isinstance(error, ImageError):
            raise
        raise ImageError(f"{name} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    limits.check_bytes(len(data), name)
    return data


def _from_url(url: str, limits: ImageLimits, kind: str) -> bytes:
    match = _DATA_URL.match(url[:1000])
    if match is None or match["base64"] is None:
        raise ImageError("the data URL must read data:TYPE;base64,DATA")
    if match["type"] is not None and not match["type"].lower().startswith(f"{kind}/"):
        raise ImageError(f"the data URL holds {match['type'][:60]!r}, not {kind}/...")
    # Four characters hold three bytes; what is too long is refused before it is copied.
    breaks = url.count("\n") + url.count("\r")  # of lines, as `base64` and Python's `encodebytes` write them
    limits.check_bytes((len(url) - match.end() - breaks) * 3 // 4 - 2, f"the {kind} of the data URL")
    try:
        return base64.b64decode(url[match.end() :].replace("\n", "").replace("\r", ""), validate=True)
    except (binascii.Error, ValueError) as error:
        raise ImageError(f"the data URL is no base64: {error}") from None
