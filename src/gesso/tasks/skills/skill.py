"""Defines what all skills share: training examples and evaluation examples differ in words and wording."""

import dataclasses
import random
from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from gesso.tasks.base import Example, Task
from gesso.tasks.skills.patterns import Phrasings
from gesso.tasks.skills.slots import Slots

_SHOUTED_SHARE = 0.02
REFUSAL = "That is outside my skills."


def abstains(text: str) -> bool:
    """Says whether an answer tells that the request is outside the skills."""
    return text.strip() == REFUSAL


def is_label(text: str, label: str) -> bool:
    """Says whether an answer is a label, in whatever case, with or without a full stop."""
    return text.strip().rstrip(".").lower() == label.lower()


class Skill(Task):
    """Draws the values of a task anew for every example. Subclasses define `draw`, and `phrasings` for the tests."""

    phrasings: ClassVar[Mapping[str, Phrasings]]
    shouted: ClassVar[bool] = False
    """Whether a few prompts stand in capitals, the answer too."""
    never_shouted: ClassVar[tuple[str, ...]] = ()
    """Kinds of which the capitals are what is asked about."""

    @abstractmethod
    def draw(self, slots: Slots) -> Example:
        """Draws one example; every value and wording comes from `slots`."""

    def sample(self, rng: random.Random) -> Example:
        """Draws a training example: no held-out word, no held-out phrasing."""
        return self._draw(Slots(rng))

    def sample_evaluation(self, rng: random.Random, index: int) -> Example:  # noqa: ARG002
        """Draws an example of held-out words; half of them in a held-out phrasing too."""
        return self._draw(Slots(rng, unseen=True))

    def _draw(self, slots: Slots) -> Example:
        example = self.draw(slots)
        if not self.shouted or slots.rng.random() >= _SHOUTED_SHARE:
            return example
        if example.kind.partition(",")[0] in self.never_shouted:
            return example
        return dataclasses.replace(example, prompt=example.prompt.upper(), answer=example.answer.upper())

    def counts(self, example: Example, text: str) -> Mapping[str, tuple[int, int]]:  # noqa: ARG002
        """Counts how often it says that a request is outside its skills, rightly or not."""
        return {"abstained": (int(abstains(text)), 1)}

    def group(self, example: Example) -> str:
        """Returns the kind that the example was drawn as."""
        return example.kind
