"""Defines what a line of training data can be: a chat, a pair of texts, a change or plain text. Each gives examples."""

import dataclasses
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from gesso.errors import DataError, OptionError, TextError
from gesso.text.chat_template import ChatTemplate, Message
from gesso.train.batch import Conversation
from gesso.train.data_encoder import DataEncoder
from gesso.train.data_fields import CLOSE_REASONING, EMPTY_REASONING, GENERATION_ONLY, OPEN_REASONING
from gesso.train.numbered_lines import told_with
from gesso.vision.preprocess import PreparedImage


class Record(Protocol):
    """Gives the examples of a line that was parsed."""

    @property
    def parts(self) -> Sequence[int]:
        """Returns the numbers of its examples, in order."""

    def conversation(self, part: int) -> Conversation:
        """Returns one of its examples.

        Raises:
            DataError: it cannot be trained on.
        """


@dataclass(frozen=True, slots=True)
class Text:
    """Cuts plain text after bos where a canvas ends if it is too long, so that no piece but the last has a gap."""

    encoder: DataEncoder
    ids: "array[int]"

    @property
    def _piece(self) -> int:
        """Returns the tokens of every piece but the last, which has up to `max_length` with bos and eos."""
        canvas, longest = self.encoder.model.canvas_length, self.encoder.config.max_length
        if longest < canvas + 2:
            raise OptionError(
                f"max_length {longest} is too short to cut text: {canvas + 2} holds one canvas, bos and eos",
                option="max_length",
            )
        return (longest - 2) // canvas * canvas

    @property
    def parts(self) -> Sequence[int]:
        over = len(self.ids) + 2 - self.encoder.config.max_length
        return range(1 + -(-over // self._piece)) if over > 0 else range(1)

    def conversation(self, part: int) -> Conversation:
        model = self.encoder.model
        if part < self.parts[-1]:
            piece = self.ids[part * self._piece : (part + 1) * self._piece]
            return Conversation([model.bos_token_id], piece.tolist(), ends=False)
        rest = self.ids[part * self._piece :] if part else self.ids
        ended = rest[-1:].tolist() == [model.eos_token_id]
        return Conversation([model.bos_token_id], rest.tolist() if ended else [*rest, model.eos_token_id])


@dataclass(frozen=True, slots=True)
class RawPair:
    """Encodes prompt and completion as they are, between bos and eos; a completion that ends itself gets no eos."""

    encoder: DataEncoder
    prompt: str
    completion: str

    @property
    def parts(self) -> Sequence[int]:
        return range(1)

    def conversation(self, part: int) -> Conversation:
        assert part == 0
        encoder, model = self.encoder, self.encoder.model
        prompt = [model.bos_token_id, *encoder.encode_after_bos(self.prompt)]
        answer = encoder.encode(self.completion)
        if not answer:
            raise DataError("the completion has no tokens")
        stops = [token in encoder.stop_token_ids for token in answer]
        if any(stops[:-1]):
            raise DataError(f"the completion goes on after {encoder.tokenizer.piece(answer[stops.index(True)])}")
        return Conversation(prompt, answer if stops[-1] else [*answer, model.eos_token_id])


@dataclass(frozen=True, slots=True)
class Change:
    """Pairs a text with its change: the completion of `new` changes that of `old`."""

    old: "Chat | RawPair"
    new: "Chat | RawPair"

    @property
    def parts(self) -> Sequence[int]:
        return self.new.parts

    def conversation(self, part: int) -> Conversation:
        try:
            source = self.old.conversation(part).answer
        except DataError as error:
            raise DataError(f"source: {error}") from None
        return dataclasses.replace(self.new.conversation(part), source=source)


@dataclass(frozen=True, slots=True)
class Chat:
    """Holds messages in the form the chat template takes; reasoning is in `reasoning`, and nowhere else."""

    encoder: DataEncoder
    template: ChatTemplate
    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None
    parts: Sequence[int]
    """Which messages are answers to train on."""
    images: Sequence[Sequence[PreparedImage]] = ()
    """Images of each message, in the places of its bare parts."""

    def conversation(self, part: int) -> Conversation:
        """Returns prompt and answer of message `part`.

        The prompt is the one the engine renders. The answer is what the template writes after it once the message is
        there, up to the token that ends it. A generation prompt may close or open reasoning, which history does not
        show: then the two are compared without it.

        Raises:
            DataError: the chat template does not write the message as an answer.
        """
        own = f"message {part + 1}"
        whole = f"the example of {own}"
        try:
            prompt, written = self._texts(part)
        except DataError as error:
            raise DataError(f"{own}: {error}") from None
        except TextError as error:
            raise DataError(f"{self._refused(part) or whole}: {error}") from None
        with told_with(own):
            answer = self.encoder.encode(written)
        with told_with(whole):
            images = [image for message in self.images[:part] for image in message]
            seen = self.encoder.encode_prompt(prompt, images)
        return Conversation(seen.ids, answer, images=seen.spans)

    def _refused(self, part: int) -> str | None:
        """Returns the message from which on the template refuses what it is given for answer `part`; None where it does
        not."""
        refused, last = None, part + 1
        last += last < len(self.messages) and self.messages[last]["role"] == "tool"
        for end in range(last, 0, -1):
            try:
                self._render(self.messages[:end], self.messages[part].get("reasoning", ""))
            except TextError:
                refused = f"message {end}"
            else:
                break
        return refused

    def _texts(self, part: int) -> tuple[str, str]:
        before, message = self.messages[:part], self.messages[part]
        reasoning = message.get("reasoning", "")
        bare = {name: value for name, value in message.items() if name != "reasoning"}
        prompt = self._render(before, reasoning, add_generation_prompt=True)
        shown = self._render([*before, bare], reasoning)
        common = next(
            (prompt.removesuffix(end) for end in GENERATION_ONLY if shown.startswith(prompt.removesuffix(end))), None
        )
        if common is None:
            raise DataError("the chat template does not write it where its generation prompt ends")
        body, end = self._split(shown[len(common) :])
        if part + 1 < len(self.messages) and self.messages[part + 1]["role"] == "tool":
            # A result goes on in the turn of its call: the call ends with what the result begins with.
            followed = self._render([*before, bare, self.messages[part + 1]], reasoning)
            begun = self.encoder.stop.match(followed, len(common + body))
            end = begun[0] if begun and followed.startswith(common + body) else end
        return prompt, self._opening(reasoning, prompt) + body + end

    def _render(self, messages: Sequence[Message], reasoning: str, add_generation_prompt: bool = False) -> str:
        return self.template.render(
            messages, thinking=bool(reasoning), tools=self.tools, add_generation_prompt=add_generation_prompt
        )

    def _split(self, written: str) -> tuple[str, str]:
        """Splits what the template wrote of a message into its text, and the token that ends it."""
        stop = self.encoder.stop.search(written)
        if stop is None:
            raise DataError("the chat template ends it with no token that stops generation")
        if written[stop.end() :].strip():
            raise DataError(f"it goes on after {stop[0]}, which ends an answer")
        if not stop.start():
            raise DataError("the chat template writes nothing of it")
        return written[: stop.start()], stop[0]

    def _opening(self, reasoning: str, prompt: str) -> str:
        """Returns what an answer has before its content: the part of its reasoning that the prompt does not hold."""
        opened = prompt.endswith(OPEN_REASONING)
        if not reasoning and opened:
            raise DataError("the chat template asks for reasoning that it does not have")
        if not reasoning:
            return ""
        if prompt.endswith(EMPTY_REASONING):
            raise DataError("the chat template leaves no room for its reasoning; strip the reasoning")
        if stop := self.encoder.stop.search(reasoning):
            raise DataError(f"its reasoning goes on after {stop[0]}, which ends an answer")
        return f"{'' if opened else OPEN_REASONING}{reasoning}{CLOSE_REASONING}"
