"""Conversations about a list say what they mean at every turn."""

import random

from gesso.tasks.skills.dialogues import Dialogues
from gesso.tasks.skills.slots import Slots


class FewWords(Slots):
    """Knows so few words that it often draws one that is there already."""

    def word(self) -> str:
        return self.rng.choice(("pear", "fig", "plum", "kiwi", "grelt", "lime", "date"))


def test_no_list_has_the_same_item_twice() -> None:
    """Else nobody could say which of them is to go, or what "instead of pear" is about."""
    for seed in range(500):
        example = Dialogues().draw(FewWords(random.Random(seed)))
        for turn in example.history[1::2]:
            items = turn.lower().replace(", ", " ").split()
            assert len(set(items)) == len(items), example.history
