"""Asks any other skill in the context that a chat has: under a system message, behind turns about something else."""

from collections.abc import Iterable
from typing import ClassVar

from gesso.tasks.base import Example
from gesso.tasks.skills.patterns import read_phrasings
from gesso.tasks.skills.skill import Skill
from gesso.tasks.skills.slots import Slots

_SYSTEM = read_phrasings("contexts", "system")
_TURNS, _TURN_SHARES = (1, 2, 3), (0.55, 0.3, 0.15)
_KIND_SHARES = {"turns": 0.45, "system": 0.25, "both": 0.3}
_FIRST_TURN_SHARE = 0.6
_MOST_CHARACTERS = 600
"""Length of what was said before, where it is more than one request and its answer."""


class Contexts(Skill):
    """Asks such as `Repeat: grelt, fig` - `grelt, fig` - `How many m are 35 km?` -> `35000 m`."""

    name = "contexts"
    phrasings: ClassVar = {"system": _SYSTEM}

    def __init__(self, skills: Iterable[Skill]) -> None:
        """
        Args:
            skills: whose examples have no functions. A conversation is asked whole, or its first turn alone.
        """
        self._skills = {skill.name: skill for skill in skills}

    def draw(self, slots: Slots) -> Example:
        """Draws a request, and a system message, one to three other requests with their answers, or both."""
        rng = slots.rng
        kind = rng.choices(tuple(_KIND_SHARES), tuple(_KIND_SHARES.values()))[0]
        system = ""
        if kind != "turns":
            values = {"name": slots.first_name(), "city": slots.city(), "number": slots.number(2)}
            system = slots.choice(_SYSTEM, **values).strip()
        before = [] if kind == "system" else self._turns(slots)
        asked = rng.choice(tuple(self._skills.values())).draw(slots)
        turns = (*asked.history, asked.prompt, asked.answer)
        if asked.history and rng.random() < _FIRST_TURN_SHARE:
            turns = turns[:2]
        *history, prompt, answer = (*before, *turns)
        return Example(
            self.name, prompt, answer, kind=f"{kind}/{asked.task}/{asked.kind}", history=tuple(history), system=system
        )

    def _turns(self, slots: Slots) -> list[str]:
        history: list[str] = []
        for _ in range(slots.rng.choices(_TURNS, _TURN_SHARES)[0]):
            before = slots.rng.choice(tuple(self._skills.values())).draw(slots)
            history += [*before.history, before.prompt, before.answer]
        while len(history) > 2 and sum(map(len, history)) > _MOST_CHARACTERS:
            del history[:2]
        return history

    def grade(self, example: Example, text: str) -> bool:
        """Grades as the skill that is asked does."""
        _, skill, kind = example.kind.split("/", 2)
        return self._skills[skill].grade(Example(skill, example.prompt, example.answer, kind=kind), text)

    def group(self, example: Example) -> str:
        """Returns what there is beside the request, and whether it is in a held-out phrasing."""
        context = example.kind.partition("/")[0]
        return f"{context}, reworded" if example.kind.endswith(", reworded") else context
