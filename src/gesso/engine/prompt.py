"""Turns a prompt (a string, chat messages or token ids) into the ids that are encoded and the images among them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gesso.config import ModelShape
from gesso.engine.markers import Disguise, Marked, Markers
from gesso.engine.media import Media, MediaOptions, take_out, with_media
from gesso.errors import OptionError, PromptLengthError, TextError
from gesso.options.kinds import is_integer
from gesso.runner.prompt_input import PromptInput
from gesso.runner.protocol import VisionInput
from gesso.text.chat_template import ChatTemplate
from gesso.text.tokenizer import Tokenizer
from gesso.text.tool_calls import with_read_arguments
from gesso.vision import NO_VISION

Prompt = str | Sequence[Mapping[str, Any]] | Sequence[int]
_NO_MEDIA = MediaOptions()
_TRUSTED = ("system", "developer", "assistant", "model")
"""Roles whose messages may hold special tokens, as `<|think|>` in a system message; in all others they are text."""


@dataclass(frozen=True, slots=True)
class PromptReader:
    """Reads the prompts of one model."""

    tokenizer: Tokenizer
    template: ChatTemplate | None
    config: ModelShape
    vision: VisionInput | None = None
    """How the model takes images; None where it reads text only."""

    def read(
        self,
        prompt: Prompt,
        *,
        raw: bool = False,
        thinking: bool = False,
        tools: Sequence[Mapping[str, Any]] = (),
        media: MediaOptions = _NO_MEDIA,
        max_tokens: int | None = None,
    ) -> PromptInput:
        """Returns the token ids of a prompt, and where its images are.

        A string is a user message (as it stands with `raw`), images and clips before its text; a list of mappings is a
        conversation; ids, in a list, an array or a tensor, are taken as they are. What users and tools say in messages,
        and declarations of tools, are text, whatever special tokens they spell; in raw texts and ids these are tokens,
        and each image takes the place of a marker.

        Args:
            media: images and clips beside the prompt.
            max_tokens: positions that there are; a text that cannot fit them is refused before it is tokenized.

        Raises:
            TextError: an empty, blank or misshapen prompt, one that is too long, ids outside the vocabulary, no chat
                template, or other places than there are images.
            ImageError: an image or a clip that cannot be read.
            OptionError: images for a model that reads text only; `thinking` or `tools` for a prompt that the chat
                template does not see.
        """
        if hasattr(prompt, "tolist") and not isinstance(prompt, memoryview):  # an array or a tensor of ids
            prompt = prompt.tolist()
        messages = _messages(prompt, media, raw=raw)
        if messages is None:
            found = self._as_it_is(prompt, media, max_tokens)
        else:
            found = self._conversation(messages, thinking, tools, media, max_tokens)
        if not found.ids:
            raise TextError("the prompt is empty: it has no tokens")
        if (thinking or tools) and messages is None:
            name, needs = ("thinking", "needs") if thinking else ("tools", "need")
            message = f"{name} {needs} the chat template: it goes with a string or chat messages, without raw"
            raise OptionError(message, option=name)
        for token in found.ids:
            if not 0 <= token < self.config.vocab_size:
                raise TextError(f"token id {token} is outside the vocabulary of {self.config.vocab_size}")
        return found

    def encode_typed(self, text: str, name: str, max_tokens: int | None, *, option: str | None = None) -> list[int]:
        """Encodes what a user wrote as `encode_text` does: markers of images in it are text."""
        disguise = Disguise(self._markers.reserved, text)
        return _encode_pieces(self.tokenizer, disguise.pieces(disguise.put_on(text)), name, max_tokens, option)

    @property
    def _markers(self) -> Markers:
        return Markers.of(self.tokenizer, self.config.image_token_ids, sees=self.vision is not None)

    def _as_it_is(self, prompt: Prompt, media: MediaOptions, max_tokens: int | None) -> PromptInput:
        """A raw text, or ids."""
        markers, given = self._markers, Media.beside(media)
        if not isinstance(prompt, str) and given.videos:
            raise OptionError("a clip needs a prompt of text: token ids have no place for its times", option="videos")
        images, videos = given.prepare(self.vision, media)
        marked = Marked(prompt if isinstance(prompt, str) else "", tuple(images))
        if isinstance(prompt, str):
            marked = markers.mark(prompt, images, videos) if self.vision is not None else marked
            ids = encode_text(self.tokenizer, marked.text, "the prompt", max_tokens)
        else:
            ids = [int(part) for part in prompt if is_integer(part)]
        if self.vision is None and not set(self.config.image_token_ids).isdisjoint(ids):
            raise TextError(f"the prompt holds the token of an image: {NO_VISION}")
        return markers.place(ids, marked.images)

    def _conversation(
        self,
        messages: Sequence[Mapping[str, Any]],
        thinking: bool,
        tools: Sequence[Mapping[str, Any]],
        media: MediaOptions,
        max_tokens: int | None,
    ) -> PromptInput:
        """Messages, as the chat template writes them."""
        if self.template is None:
            raise TextError("this checkpoint has no chat template; pass the prompt as it is with raw")
        bare, found = take_out([with_read_arguments(message) for message in messages], media)
        images, videos = found.prepare(self.vision, media)
        markers = self._markers
        try:
            disguise = Disguise(markers.reserved | self.tokenizer.special.keys(), bare, tools)
            said = [
                disguise.put_on(message, markers.reserved if message.get("role") in _TRUSTED else None)
                for message in bare
            ]
            text = self.template.render(said, thinking=thinking, tools=disguise.put_on(tools) if tools else None)
        except RecursionError:
            raise TextError("the messages are nested too deeply") from None
        marked = markers.mark(text, images, videos) if self.vision is not None else Marked(text, ())
        ids = _encode_pieces(self.tokenizer, disguise.pieces(marked.text), "the prompt", max_tokens)
        return markers.place(ids, marked.images)


def _messages(prompt: Prompt, media: MediaOptions, *, raw: bool) -> Sequence[Mapping[str, Any]] | None:
    """The conversation that a prompt stands for; None where it is taken as it is."""
    if isinstance(prompt, str):
        if not prompt and not (media.images or media.videos):
            raise TextError("the prompt is empty")
        if raw:
            return None
        if prompt.isspace():
            raise TextError("the prompt is blank: it holds nothing but white space")
        return with_media(prompt, media)
    if not isinstance(prompt, Sequence) or isinstance(prompt, bytes | bytearray | memoryview) or not prompt:
        wanted = "a string, a list of chat messages or a list of token ids, not empty"
        raise TextError(f"the prompt must be {wanted}; got {prompt!r:.60}")
    if all(is_integer(part) for part in prompt):
        return None
    if all(isinstance(part, str) for part in prompt):
        raise TextError("the prompt is a list of texts: one prompt is one text, and generate_batch takes several")
    if not all(isinstance(part, Mapping) for part in prompt):
        raise TextError("the prompt mixes kinds: it must be chat messages only or token ids only")
    if raw:
        raise TextError("raw takes a string or token ids, not chat messages")
    for number, message in enumerate(prompt):
        if isinstance(message, Mapping) and message.get("content") is None and not message.get("tool_calls"):
            raise TextError(f"message {number} of the prompt has no content")
    return [part for part in prompt if isinstance(part, Mapping)]


def encode_text(
    tokenizer: Tokenizer, text: str, name: str, max_tokens: int | None, *, option: str | None = None
) -> list[int]:
    """Tokenizes a text, unless its characters alone say that it has more than `max_tokens`.

    Args:
        name: what an error calls the text.
        max_tokens: None takes a text of any length.
        option: the option that the text is of, where it is not the prompt.

    Raises:
        PromptLengthError: the text is too long.
        TextError: it is no valid Unicode.
    """
    _check_length(tokenizer, len(text), name, max_tokens, option)
    return tokenizer.encode(text)


def _check_length(tokenizer: Tokenizer, characters: int, name: str, max_tokens: int | None, option: str | None) -> None:
    # A text of no more characters than tokens fits at any rate: nobody has to know how long tokens are.
    if max_tokens is None or characters <= max_tokens:
        return
    most = max_tokens * tokenizer.max_characters
    if characters > most:
        raise PromptLengthError(
            f"{name} is too long: it has {characters:,} characters, and no more than {most:,} can fit the "
            f"{max_tokens:,} tokens that there is room for",
            option=option,
        )


def _encode_pieces(
    tokenizer: Tokenizer, pieces: Sequence[str], name: str, max_tokens: int | None, option: str | None = None
) -> list[int]:
    """`encode_text` of a text that is cut into pieces, each of which is tokenized by itself."""
    if len(pieces) == 1:
        return encode_text(tokenizer, pieces[0], name, max_tokens, option=option)
    _check_length(tokenizer, sum(map(len, pieces)), name, max_tokens, option)
    return [token for piece in pieces for token in tokenizer.encode(piece)]
