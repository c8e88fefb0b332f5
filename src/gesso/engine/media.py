"""Reads the images and clips of a prompt out of content parts, joins those given beside the prompt, and prepares all.

A part is `{"type": "image"}`, which means the next of `images`, or names its own picture, as `transformers` writes it
(`image`, `path` or `url`) or as OpenAI's API does (`{"type": "image_url", "image_url": {"url": ...}}`); clips likewise.
Chat templates get the bare part: they know of an image that it is there, and nothing else.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from gesso.errors import ImageError, OptionError, TextError
from gesso.generation import MEDIA, RequestOptions
from gesso.options import options_of
from gesso.runner.protocol import VisionInput
from gesso.vision import NO_VISION
from gesso.vision.preprocess import PreparedImage, prepare_image
from gesso.vision.size import BUDGETS, VIDEO_BUDGET, check_budget
from gesso.vision.video import PreparedFrame, Sampling, prepare_video

Part = Mapping[str, Any]
DETAIL = {"low": BUDGETS[0], "high": BUDGETS[-1], "original": BUDGETS[-1], "auto": None}
"""Budgets of OpenAI's `detail`; None is the request's."""
_SOURCES = ("image", "video", "path", "url")
_KEYS = {
    "image": {"type", "budget", "image", "path", "url"},
    "video": {"type", "budget", "video", "path", "url"},
    "image_url": {"type", "image_url"},
    "video_url": {"type", "video_url"},
}


@dataclass(frozen=True, slots=True)
class MediaOptions:
    """Holds what a request says of its images and clips."""

    images: Sequence[Any] = ()
    """Images beside the prompt, in the order of their places."""
    videos: Sequence[Any] = ()
    image_budget: int | None = None
    """None is the model's own."""
    video_budget: int = VIDEO_BUDGET
    sampling: Sampling = field(default_factory=Sampling)


def media_options(options: Mapping[str, Any]) -> MediaOptions:
    """Returns the part of a request's keywords that is about images and clips.

    Raises:
        OptionError: an impossible value.
    """
    names = {row.name for row in options_of(RequestOptions).values() if row.group == MEDIA}
    return media_of(RequestOptions(**{name: value for name, value in options.items() if name in names}))


def media_of(asked: RequestOptions) -> MediaOptions:
    """Returns the part of a request's options that is about images and clips."""
    sampling = Sampling(asked.video_fps, asked.video_frames)
    return MediaOptions(asked.images, asked.videos, asked.image_budget, asked.video_budget, sampling)


@dataclass(frozen=True, slots=True)
class Source:
    """Holds a picture or a clip as the user named it."""

    content: Any
    budget: int | None = None
    """Most soft tokens of it, or of each of its frames; None is the request's."""


@dataclass(slots=True)
class Media:
    """Holds the images and clips of one prompt, in the order of their places."""

    images: list[Source] = field(default_factory=list)
    videos: list[Source] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.images or self.videos)

    @classmethod
    def beside(cls, options: MediaOptions) -> "Media":
        """Returns those that are given beside the prompt."""
        return cls([Source(image) for image in options.images], [Source(video) for video in options.videos])

    def prepare(
        self, vision: VisionInput | None, options: MediaOptions
    ) -> tuple[list[PreparedImage], list[list[PreparedFrame]]]:
        """Returns all of them, resized and cut.

        Raises:
            OptionError: the model takes none, or a budget that does not exist.
            ImageError: one cannot be read, or is too large or too long for the tower; with its number where there are
                several.
        """
        if self and vision is None:
            raise OptionError(NO_VISION, option="images" if self.images else "videos")
        if not self or vision is None:
            return [], []
        images, videos = [], []
        for number, source in enumerate(self.images, 1):
            with _named_in_errors("image", number, len(self.images)):
                images.append(_image(source, vision, options.image_budget))
        for number, source in enumerate(self.videos, 1):
            with _named_in_errors("video", number, len(self.videos)):
                videos.append(_video(source, vision, options))
        return images, videos


@contextmanager
def _named_in_errors(kind: str, number: int, count: int) -> Iterator[None]:
    """Lets an `ImageError` say which of several it was."""
    try:
        yield
    except ImageError as error:
        name = f"{kind} {number}: " if count > 1 else ""
        raise ImageError(f"{name}{error}", option=f"{kind}s") from None


def _image(source: Source, vision: VisionInput, budget: int | None) -> PreparedImage:
    content = source.content
    made = (
        content
        if isinstance(content, PreparedImage)
        else prepare_image(content, source.budget or budget or vision.budget, vision.layout)
    )
    return _checked(made, vision)


def _video(source: Source, vision: VisionInput, options: MediaOptions) -> list[PreparedFrame]:
    content = source.content
    if isinstance(content, list | tuple) and content and all(isinstance(frame, PreparedFrame) for frame in content):
        frames = list(content)
    else:
        frames = prepare_video(content, source.budget or options.video_budget, options.sampling, vision.layout)
    for frame in frames:
        _checked(frame.image, vision)
    return frames


def _checked(image: PreparedImage, vision: VisionInput) -> PreparedImage:
    """The picture, if it is one for this tower."""
    side, pooling = vision.layout.patch_size, vision.layout.pooling
    if image.patches.shape[1] != 3 * side**2 or image.rows % pooling or image.columns % pooling:
        raise ImageError(f"the image was prepared for another model: this one's patches are {side} x {side} pixels")
    if (longest := max(image.rows, image.columns)) > vision.longest_side:
        raise ImageError(
            f"the image is too long and thin: it has {longest} patches along a side, this model knows "
            f"{vision.longest_side}"
        )
    return image


def take_out(messages: Sequence[Part], options: MediaOptions) -> tuple[list[Part], Media]:
    """Messages with bare parts, and what stood in them.

    Raises:
        TextError: a part that is no text, image or clip, a text part without text, or a bare one with nothing left to
            mean.
    """
    given, media = Media.beside(options), Media()
    left = {"image": iter(given.images), "video": iter(given.videos)}
    held = {"image": media.images, "video": media.videos}
    bare: list[Part] = []
    for message in messages:
        content = message.get("content")
        if not isinstance(content, list | tuple) or all(_kind(part) == "text" for part in content):
            bare.append(message)
            continue
        parts: list[Part] = []
        for part in content:
            kind = _kind(part)
            if kind == "text":
                parts.append(part)
                continue
            content_of, budget = _named(part)
            if content_of is None:
                if (beside := next(left[kind], None)) is None:
                    raise TextError(
                        f"a message has a part of type {kind} that names none, and {kind}s has none left for it",
                        option=f"{kind}s",
                    )
                content_of = beside.content
            source = Source(content_of, budget)
            held[kind].append(source)
            parts.append({"type": kind})
        bare.append({**message, "content": parts})
    for kind, rest in left.items():
        if next(rest, None) is not None:
            raise TextError(
                f"more {kind}s are given than the messages have places: put a part "
                f'{{"type": "{kind}"}} where each belongs',
                option=f"{kind}s",
            )
    return bare, media


def with_media(text: str, options: MediaOptions) -> list[Part]:
    """Returns the conversation of one user message: images and clips stand before the text."""
    if not options.images and not options.videos:
        return [{"role": "user", "content": text}]
    images: Iterator[Part] = ({"type": "image"} for _ in options.images)
    videos: Iterator[Part] = ({"type": "video"} for _ in options.videos)
    return [{"role": "user", "content": [*images, *videos, {"type": "text", "text": text}]}]


def _kind(part: Any) -> str:
    """`text`, `image` or `video`."""
    kind = part.get("type") if isinstance(part, Mapping) else None
    if kind == "text":
        if not isinstance(part.get("text"), str):  # a template writes one that is missing as nothing at all
            raise TextError(f'a part of type text must read {{"type": "text", "text": "..."}}, got {part!r:.100}')
        return "text"
    if not isinstance(kind, str) or kind not in _KEYS:
        raise TextError(f"a message holds a part of type {kind!r}; known: text, {', '.join(_KEYS)}")
    for key in part:
        if key not in _KEYS[kind]:
            raise TextError(f"a part of type {kind} has no {key!r}; known: {', '.join(sorted(_KEYS[kind]))}")
    return kind.removesuffix("_url")


def _named(part: Part) -> tuple[Any, int | None]:
    """The picture or clip that a part names, None where it is bare, and its budget."""
    kind = part["type"]
    if kind.endswith("_url"):
        named = part.get(kind)
        url = named.get("url") if isinstance(named, Mapping) else named
        if not isinstance(url, str):
            raise TextError(f'a part of type {kind} must read {{"type": "{kind}", "{kind}": {{"url": "..."}}}}')
        if url[:5].lower() != "data:":  # never a path: whoever sends such parts may be somebody else
            raise TextError(
                f"a part of type {kind} takes a data URL: nothing is fetched here; a file goes as "
                f'{{"type": "{kind.removesuffix("_url")}", "path": "..."}}'
            )
        detail = named.get("detail") if isinstance(named, Mapping) else None
        if detail is not None and not (isinstance(detail, str) and detail in DETAIL):
            raise TextError(f"detail must be one of {', '.join(DETAIL)}, got {detail!r}")
        return url, None if detail is None else DETAIL[detail]
    if (budget := part.get("budget")) is not None:
        check_budget(budget)
    named = [key for key in _SOURCES if part.get(key) is not None]
    if len(named) > 1:
        raise TextError(f"a part of type {kind} names two: {' and '.join(named)}")
    return part[named[0]] if named else None, budget
