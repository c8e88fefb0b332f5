"""Defines what all tasks with pictures share: which pictures are held out, and how the same is asked of another."""

import random
import zlib
from collections.abc import Sequence

from gesso.tasks.base import Example, Task

_TRIES = 20_000


class PictureTask(Task):
    """Asks about pictures that are drawn anew for every example. Held out is a picture, not a wording."""

    def grade(self, example: Example, text: str) -> bool:
        """Accepts the reference answer only; case, surrounding white space and a mark at the end aside."""
        return text.strip().rstrip(".").lower() == example.answer.lower()

    def split_key(self, example: Example) -> str:
        """Returns a text that the pictures alone decide."""
        return " ".join(f"{zlib.crc32(picture):08x}" for picture in (*example.images, *example.clip))

    def group(self, example: Example) -> str:
        """Returns the kind that the example was drawn as."""
        return example.kind

    def other_picture(self, example: Example, rng: random.Random) -> Example:
        """Returns an example with the same prompt and another answer: a model that looks must answer otherwise.

        Raises:
            ValueError: none was found.
        """
        for _ in range(_TRIES):
            other = self.sample(rng)
            if other.prompt == example.prompt and other.answer != example.answer:
                return other
        raise ValueError(f"task {self.name!r} found no other picture for {example.prompt!r}")


def pick(rng: random.Random, wordings: Sequence[str], **values: object) -> str:
    """Returns one of some wordings with its values in place."""
    return rng.choice(wordings).format(**values)
