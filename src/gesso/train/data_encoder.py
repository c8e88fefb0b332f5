"""Encodes the texts of training data: how lines become examples, and the tokens of a text."""

import re
from collections.abc import Sequence

from gesso.config import ModelShape
from gesso.engine.markers import Markers
from gesso.errors import DataError, UserError
from gesso.runner.prompt_input import PromptInput
from gesso.runner.protocol import VisionInput
from gesso.text.chat_template import ChatTemplate
from gesso.text.tokenizer import Tokenizer
from gesso.train.data_config import FileDataConfig
from gesso.train.data_images import ImageReader
from gesso.vision.preprocess import PreparedImage


class DataEncoder:
    """Encodes texts for one model and one config. Its errors name neither file nor line."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        template: ChatTemplate | None,
        model: ModelShape,
        stop_token_ids: Sequence[int],
        config: FileDataConfig,
        vision: VisionInput | None = None,
    ) -> None:
        """
        Args:
            vision: how the model takes images; None where it has no eyes.
        """
        self.tokenizer = tokenizer
        self.template = template
        self.model = model
        self.stop_token_ids = frozenset(stop_token_ids)
        self.config = config
        self.images = ImageReader(vision, config.image_budget)
        self._markers = Markers.of(tokenizer, model.image_token_ids, sees=vision is not None)
        self._images = frozenset(model.image_token_ids)
        texts = filter(None, map(tokenizer.piece, sorted(self.stop_token_ids)))
        self.stop = re.compile("|".join(map(re.escape, texts)) or r"(?!)")
        """Matches the tokens that end an answer in a rendered chat."""

    def encode(self, text: str) -> list[int]:
        """Returns the token ids of a text that the model can be trained on.

        Raises:
            DataError: the text holds an image, or a token outside the vocabulary.
        """
        ids = self.tokenizer.encode(text)
        if not self._images.isdisjoint(ids):
            raise DataError("the text holds the token of an image, which stands for none")
        self._check_vocabulary(ids)
        return ids

    def encode_prompt(self, text: str, images: Sequence[PreparedImage]) -> PromptInput:
        """Returns the tokens of a rendered prompt, and where its images are: in the places that the template marked.

        Raises:
            DataError: as for `encode`, or the template has other places than there are images.
        """
        if not images:
            return PromptInput(tuple(self.encode(text)))
        try:
            prompt = self._markers.place(self.tokenizer.encode(text), images)
        except UserError as error:
            raise DataError(str(error)) from None
        self._check_vocabulary(prompt.ids)
        return prompt

    def refuse_markers(self, content: object) -> None:
        """Checks that no text of a message is taken for the place of an image.

        Raises:
            DataError: it holds such a marker.
        """
        texts = content if isinstance(content, list) else [{"text": content}]
        for part in texts:
            text = part.get("text") if isinstance(part, dict) else None
            if isinstance(text, str) and (marker := next((m for m in self._markers.reserved if m in text), None)):
                raise DataError(f"the text holds {marker}, which stands for none of the images")

    def _check_vocabulary(self, ids: Sequence[int]) -> None:
        if max(ids, default=0) >= self.model.vocab_size:
            raise DataError(f"token id {max(ids)} is outside the vocabulary of {self.model.vocab_size}")

    def encode_after_bos(self, text: str) -> list[int]:
        """Returns the token ids of a text that bos is put before: one that the text itself begins with is left out.

        Raises:
            DataError: as for `encode`, or the text has no tokens.
        """
        ids = self.encode(text)
        ids = ids[1:] if ids[:1] == [self.model.bos_token_id] else ids
        if not ids:
            raise DataError("the text has no tokens")
        return ids
