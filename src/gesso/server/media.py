"""Reads the images and clips of a request: what its messages name, fetched where that is allowed, resized and cut."""

import asyncio
import weakref
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from gesso.engine.media import DETAIL, Media, MediaOptions, Source
from gesso.errors import ImageError, QueueFullError, UserError
from gesso.runner.protocol import VisionInput
from gesso.server.daemon_pool import DaemonPool
from gesso.server.errors import ApiError
from gesso.server.fetch import Fetcher
from gesso.vision import NO_VISION
from gesso.vision.limits import LIMITS, VIDEO_LIMITS

AT_ONCE, FETCHED_AT_ONCE = 2, 8
"""Pictures that are decoded at a time, each of which may take a dozen bytes a pixel, and that are fetched."""
HELD_BYTES = 4 << 30
"""Pixels of prepared pictures that all requests may hold, those that wait among them: a small file may have many."""


class MediaReader:
    """Reads the images of one server's requests."""

    def __init__(self, vision: VisionInput | None, fetcher: Fetcher, max_images: int) -> None:
        self._vision = vision
        self._fetcher = fetcher
        self._max_images = max_images
        self._decoding = DaemonPool(AT_ONCE, "gesso-decoding")
        self._fetching = DaemonPool(FETCHED_AT_ONCE, "gesso-fetching")
        self._held: dict[int, int] = {}
        """Bytes of what was prepared and is still there, by the identity of its array."""

    def close(self) -> None:
        """Reads no more: what is under way is given up, and requests that wait for it end with a `ClosingError`."""
        self._decoding.close()
        self._fetching.close()

    async def read(
        self, messages: Sequence[Mapping[str, Any]], options: MediaOptions, max_tokens: int, places: Sequence[str] = ()
    ) -> list[dict[str, Any]]:
        """Returns the messages, with pictures that are ready for the tower in the place of their addresses.

        Args:
            max_tokens: soft tokens that all of them may have.
            places: where each image stands in the body that the client sent, in order; those of `messages` without it.

        Raises:
            ApiError: one cannot be read or is not allowed, there are too many, or the model takes none.
            QueueFullError: requests hold too many pixels now.
            ClosingError: the reader is closed.
        """
        read, count, soft = [], 0, 0
        for number, message in enumerate(messages):
            content = message.get("content")
            parts: list[Any] = []
            for place, part in enumerate(content if isinstance(content, list) else ()):
                if part["type"] == "text":
                    parts.append(part)
                    continue
                kind = part["type"].removesuffix("_url")
                path = f"messages[{number}].content[{place}].{part['type']}"
                path = places[count] if places else path
                count += 1
                if self._vision is None:
                    raise ApiError(400, f"{path}: {NO_VISION}", param=path, code="unsupported_value")
                if count > self._max_images:
                    most = f"a request may have {self._max_images} images and clips"
                    raise ApiError(400, f"{path}: {most}", param=path)
                try:
                    made, tokens = await self._prepare(kind, part[part["type"]], options)
                except UserError as error:
                    raise ApiError(400, f"{path}: {error}", param=path) from None
                soft += tokens
                if soft > max_tokens:
                    raise ApiError(
                        400, f"{path}: its images alone are past this server's {max_tokens} tokens", param=path
                    )
                parts.append({"type": kind, kind: made})
            read.append({**message, "content": parts} if parts else dict(message))
        return read

    async def _prepare(self, kind: str, named: Mapping[str, Any], options: MediaOptions) -> tuple[Any, int]:
        """A picture, or the frames of a clip, and their soft tokens."""
        if sum(list(self._held.values())) > HELD_BYTES:
            raise QueueFullError("the pictures of other requests take all the room that there is", 1.0)
        url, budget = named["url"], DETAIL[named.get("detail") or "auto"]
        content: Any = url
        if url[:5].lower() != "data:":
            most = (LIMITS if kind == "image" else VIDEO_LIMITS).max_bytes
            content = await asyncio.wrap_future(self._fetching.submit(partial(self._fetcher.fetch, url, most)))
            if not content:
                raise ImageError("there is nothing at its address")
        source = [Source(content, budget)]
        media = Media(images=source) if kind == "image" else Media(videos=source)
        work = partial(media.prepare, self._vision, options)
        images, clips = await asyncio.wrap_future(self._decoding.submit(work))
        prepared = images[:1] or [frame.image for frame in clips[0]]
        for image in prepared:
            self._held[id(image.patches)] = image.patches.nbytes
            weakref.finalize(image.patches, self._held.pop, id(image.patches), None)
        return images[0] if images else clips[0], sum(image.soft_tokens for image in prepared)
