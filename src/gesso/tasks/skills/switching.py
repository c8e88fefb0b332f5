"""Asks something else: a request of another skill behind a conversation that has nothing to do with it."""

from collections.abc import Iterable
from typing import ClassVar

from gesso.tasks.base import Example
from gesso.tasks.skills.skill import Skill
from gesso.tasks.skills.slots import Slots

_TURNS, _TURN_SHARES = (1, 2, 3), (0.55, 0.3, 0.15)
_MOST_CHARACTERS = 600
"""Length of what was said before, where it is more than one request and its answer."""


class Switching(Skill):
    """Asks such as `Repeat: grelt, fig` - `grelt, fig` - `How many m are 35 km?` -> `35000 m`."""

    name = "switching"
    phrasings: ClassVar = {}

    def __init__(self, skills: Iterable[Skill]) -> None:
        """
        Args:
            skills: whose examples are one request without functions; those of conversations only come before.
        """
        self._skills = {skill.name: skill for skill in skills}
        self._alone = tuple(skill for skill in self._skills.values() if skill.name != "dialogues")

    def draw(self, slots: Slots) -> Example:
        """Draws one to three requests with their answers, and then one that is asked."""
        rng = slots.rng
        history: list[str] = []
        for _ in range(rng.choices(_TURNS, _TURN_SHARES)[0]):
            before = rng.choice(tuple(self._skills.values())).draw(slots)
            history += [*before.history, before.prompt, before.answer]
        while len(history) > 2 and sum(map(len, history)) > _MOST_CHARACTERS:
            del history[:2]
        asked = rng.choice(self._alone).draw(slots)
        return Example(self.name, asked.prompt, asked.answer, kind=f"{asked.task}/{asked.kind}", history=tuple(history))

    def grade(self, example: Example, text: str) -> bool:
        """Grades as the skill that is asked does."""
        skill, _, kind = example.kind.partition("/")
        return self._skills[skill].grade(Example(skill, example.prompt, example.answer, kind=kind), text)

    def group(self, example: Example) -> str:
        """Returns the skill that is asked, and whether in a held-out phrasing."""
        skill, _, kind = example.kind.partition("/")
        return f"{skill}, reworded" if kind.endswith(", reworded") else skill
