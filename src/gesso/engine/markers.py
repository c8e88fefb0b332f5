"""Markers in prompts: those that a template writes are tokens, those that a user types are text.

Special tokens in what users and tools say would end their turn and begin another's: they are letters there. Images have
markers, too: a template writes `<|image|>` where an image part stands. In the ids it becomes `<|image>`, as many
soft tokens as the image has, and `<image|>`; the soft tokens are a span of the prompt. What is typed passes the
template in disguise, each marker as one character that occurs nowhere in the prompt, and is encoded in two pieces, so
that no tokenizer takes it for the marker.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, groupby
from typing import Any

from gesso.errors import TextError
from gesso.runner.prompt_input import EmbeddingSpan, PromptInput
from gesso.text.tokenizer import Tokenizer
from gesso.vision.preprocess import PreparedImage
from gesso.vision.video import PreparedFrame

VIDEO = "<|video|>"
"""What a template writes for a clip."""
AUDIO = ("<|audio>", "<|audio|>", "<audio|>")
"""What it would write for sound, which no model of this family hears."""
_PRIVATE = range(0xF0000, 0xFFFFE)
"""Code points that no text gives a meaning to."""


@dataclass(frozen=True, slots=True)
class Markers:
    """Names the tokens around images of one model."""

    image: int | None
    """The id of a soft token, which stands for a whole image until its size is known; None where there is none."""
    around: tuple[int, ...]
    """The ids before and after an image."""
    text: str
    """How a template writes `image`; empty where the tokenizer has no such token."""
    reserved: frozenset[str]
    """All around images that nobody's text may become a token of."""

    @classmethod
    def of(cls, tokenizer: Tokenizer, image_token_ids: Sequence[int], *, sees: bool) -> "Markers":
        """Returns the markers of a model whose config names the ids before, of and after an image.

        Args:
            sees: whether it takes images; to one that does not, a marker that is no token is text already.
        """
        names = {index: name for name, index in tokenizer.special.items()}
        known = {names[index] for index in image_token_ids if index in names}
        known |= {VIDEO} if sees else set()
        known |= {marker for marker in (VIDEO, *AUDIO) if marker in tokenizer.special}
        image, around = None, tuple(image_token_ids)
        if len(image_token_ids) == 3:
            begin, image, end = image_token_ids
            around = (begin, end)
        return cls(image, around, names.get(image, "") if image is not None else "", frozenset(known))

    def mark(self, text: str, images: Sequence[PreparedImage], videos: Sequence[Sequence[PreparedFrame]]) -> "Marked":
        """Returns a rendered text with the frames of its clips written out, each behind its time.

        Raises:
            TextError: it has more or fewer places than there are images or clips.
        """
        if not images and not videos and VIDEO not in text and not (self.text and self.text in text):
            return Marked(text, ())
        parts = re.split(f"({'|'.join(re.escape(marker) for marker in (self.text, VIDEO) if marker)})", text)
        _check_places("image", parts.count(self.text) if self.text else 0, len(images))
        _check_places("video", parts.count(VIDEO), len(videos))
        pictures, clips, found = iter(images), iter(videos), list[PreparedImage]()
        for number, part in enumerate(parts):
            if part == VIDEO:
                clip = next(clips)
                found += [frame.image for frame in clip]
                parts[number] = " ".join(f"{frame.timestamp} {self.text}" for frame in clip)
            elif part == self.text:
                found.append(next(pictures))
        return Marked("".join(parts), tuple(found))

    def place(self, ids: Sequence[int], images: Sequence[PreparedImage]) -> PromptInput:
        """Returns the prompt whose images take the places that are marked in `ids`.

        Raises:
            TextError: more or fewer places than images, or a marker that only this function writes.
        """
        if (stray := next((token for token in ids if token in self.around), None)) is not None:
            raise TextError(
                f"the prompt holds token {stray}, which is written around images here: give images as `images`, and "
                f"{self.text or self.image} where each belongs"
            )
        _check_places("image", sum(token == self.image for token in ids), len(images))
        if not images:
            return PromptInput(tuple(ids))
        whole, spans, left = list[int](), list[EmbeddingSpan](), iter(images)
        for token in ids:
            if token != self.image:
                whole.append(token)
                continue
            image = next(left)
            spans.append(EmbeddingSpan(len(whole) + 1, image.soft_tokens, image.digest, image))
            whole += [self.around[0], *[token] * image.soft_tokens, self.around[1]]
        return PromptInput(tuple(whole), tuple(spans))


@dataclass(frozen=True, slots=True)
class Marked:
    """Holds a text with a marker for each of its images, in order, frames of clips among them."""

    text: str
    images: tuple[PreparedImage, ...]


def _check_places(kind: str, places: int, given: int) -> None:
    if places != given:
        raise TextError(
            f"the prompt has {places} place{'s' * (places != 1)} for {kind}s, and {given} "
            f"{kind}{'s are' if given != 1 else ' is'} given",
            option=f"{kind}s",
        )


class Disguise:
    """Names characters that stand for the markers in what users wrote.

    Of a marker that lies over several text parts of a message, which a template puts together, one stands for the first
    character.
    """

    def __init__(self, markers: Set[str], *values: Any) -> None:
        """
        Args:
            values: all of a prompt: texts, and lists and mappings of them.
        """
        self._markers = markers
        texts = list(_texts(values))
        typed = sorted({marker for text in texts for _, marker in _find(text, markers)})
        splits = ((run, split) for run in _runs(values) for split in _split_places(run, markers))
        starts = sorted({run[number][place] for run, (number, place) in splits})
        used = {character for text in texts for character in text} if typed or starts else set()
        free = (chr(code) for code in _PRIVATE if chr(code) not in used)
        self._typed = dict(zip(free, typed, strict=False)) if typed else {}
        self._starts = dict(zip(starts, free, strict=False)) if starts else {}
        self._stands_for = self._typed | {character: start for start, character in self._starts.items()}

    def put_on(self, value: Any, among: Set[str] | None = None) -> Any:
        """Returns the same with its markers in disguise: all, or those `among` which they are looked for."""
        markers = self._markers if among is None else among
        return self._put_on(value, markers) if self._stands_for else value

    def _put_on(self, value: Any, markers: Set[str]) -> Any:
        if isinstance(value, str):
            for character, marker in self._typed.items():
                value = value.replace(marker, character) if marker in markers else value
            return value
        if isinstance(value, Mapping):
            return {self._put_on(key, markers): self._put_on(inner, markers) for key, inner in value.items()}
        if not isinstance(value, list | tuple):
            return value
        parts = self._put_on_parts(value, markers) if self._starts else value
        return [self._put_on(inner, markers) for inner in parts]

    def _put_on_parts(self, parts: Sequence[Any], markers: Set[str]) -> list[Any]:
        """The same parts of a message, with markers that lie over several in disguise."""
        made = list(parts)
        for run in _runs_of(parts):
            for number, place in _split_places([parts[number]["text"] for number in run], markers):
                text = made[run[number]]["text"]
                text = text[:place] + self._starts[text[place]] + text[place + 1 :]
                made[run[number]] = {**made[run[number]], "text": text}
        return made

    def pieces(self, text: str) -> list[str]:
        """Returns the text with its markers as they were typed, cut within each; pieces are encoded one by one."""
        pieces = [""]
        for part in re.split(f"([{''.join(self._stands_for)}])", text) if self._stands_for else [text]:
            marker = self._stands_for.get(part)
            if marker is None:
                pieces[-1] += part
            else:
                pieces[-1] += marker[0]
                pieces.append(marker[1:])
        return pieces


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _texts(key)
            yield from _texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)


def _runs(value: Any) -> Iterator[list[str]]:
    """Yields the texts of parts of a message that stand one behind the other, wherever in a value."""
    if isinstance(value, Mapping):
        for inner in value.values():
            yield from _runs(inner)
    elif isinstance(value, list | tuple):
        yield from ([value[number]["text"] for number in run] for run in _runs_of(value))
        for inner in value:
            yield from _runs(inner)


def _runs_of(parts: Sequence[Any]) -> list[list[int]]:
    """Returns the places of text parts that stand one behind the other, where there are several."""
    texts = [isinstance(part, Mapping) and isinstance(part.get("text"), str) for part in parts]
    runs = (list(run) for is_text, run in groupby(range(len(parts)), texts.__getitem__) if is_text)
    return [run for run in runs if len(run) > 1]


def _find(text: str, markers: Set[str]) -> Iterator[tuple[int, str]]:
    """Yields where markers begin in a text, and which; a tokenizer may have thousands, so it is read once for all."""
    lengths, begins = _shapes(frozenset(markers))
    for match in begins.finditer(text):
        start = match.start()
        for length in lengths:
            if (marker := text[start : start + length]) in markers:
                yield start, marker


@lru_cache(maxsize=16)
def _shapes(markers: frozenset[str]) -> tuple[list[int], re.Pattern[str]]:
    """Returns how long markers are, and what finds the characters that they begin with."""
    first = "".join(re.escape(character) for character in sorted({marker[0] for marker in markers}))
    return sorted(set(map(len, markers))), re.compile(f"[{first}]" if first else r"(?!)")


def _split_places(texts: Sequence[str], markers: Set[str]) -> set[tuple[int, int]]:
    """Returns where markers begin that lie over several texts: the text and the place in it.

    Templates put texts together as they are, or without the white space around them.
    """
    found = set()
    for bare in (list(texts), [text.strip() for text in texts]):
        begins = list(accumulate(map(len, bare), initial=0))
        whole = "".join(bare)
        for start, marker in _find(whole, markers):
            number = bisect_right(begins, start) - 1
            if start + len(marker) > begins[number + 1]:
                text = texts[number]
                lead = text.index(bare[number])
                found.add((number, start - begins[number] + lead))
    return found
