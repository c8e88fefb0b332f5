"""Asks what is outside the skills: facts, opinions, long texts, other languages, near misses; the answer says so
plainly."""

import math

from gesso.tasks.base import Example
from gesso.tasks.skills.patterns import read_phrasings
from gesso.tasks.skills.skill import REFUSAL, Skill, abstains
from gesso.tasks.skills.slots import Slots
from gesso.tasks.words import words_of

_FACTS = read_phrasings("abstention", "facts")
_OPINIONS = read_phrasings("abstention", "opinions")
_LONG = read_phrasings("abstention", "long")
_LANGUAGES = read_phrasings("abstention", "languages")
_NEAR = read_phrasings("abstention", "near")
_CLOSE = read_phrasings("abstention", "close")
_PASTED = read_phrasings("abstention", "pasted")
_KINDS = {
    "facts": _FACTS,
    "opinions": _OPINIONS,
    "long": _LONG,
    "languages": _LANGUAGES,
    "near": _NEAR,
    "close": _CLOSE,
    "pasted": _PASTED,
}
_PLACES = words_of("""
    France Germany Italy Spain Poland Norway Sweden Egypt Kenya Brazil Chile Peru Canada Mexico China Japan India
    Turkey Greece Ireland Iceland Portugal Denmark Finland Austria Hungary Cuba Iran Iraq Nepal
""")


class Abstention(Skill):
    """Asks such as `What is the capital of France?` -> one sentence that says that it cannot answer."""

    name = "abstention"
    phrasings = _KINDS

    def draw(self, slots: Slots) -> Example:
        """Draws a question of one of seven kinds."""
        rng = slots.rng
        kind = rng.choices(tuple(_KINDS), (0.24, 0.13, 0.14, 0.13, 0.17, 0.14, 0.05))[0]
        if kind == "pasted":
            text = " ".join(_sentence(slots) for _ in range(rng.randint(2, 5)))
            return Example(self.name, slots.request(_PASTED, text), REFUSAL, kind=slots.kind(kind))
        place = rng.choice(_PLACES) if rng.random() < 0.5 and not slots.unseen else slots.city()
        words = slots.words(3)
        prompt = slots.question(
            _KINDS[kind], place=place, name=slots.name(), thing=words[0], other=words[1], third=words[2],
            quality=slots.word(), id=slots.identifier(), year=rng.randint(1000, 2059), **_numbers(slots),
        )  # fmt: skip
        if rng.random() < 0.1:
            prompt = (
                f"{rng.choice(('Please tell me:', 'Hello,', 'Hi!', 'Question:', 'Tell me,', 'I wonder:'))} {prompt}"
            )
        return Example(self.name, prompt, REFUSAL, kind=slots.kind(kind))

    def grade(self, example: Example, text: str) -> bool:  # noqa: ARG002
        """Accepts the sentence that says so."""
        return abstains(text)


def _numbers(slots: Slots) -> dict[str, int]:
    """Draws two numbers of which none goes into the other, the first no square, as `sums` would answer those."""
    while True:
        n, m = slots.number(4), max(3, slots.number(2))
        if n % m and m % n and math.isqrt(n) ** 2 != n:
            return {"n": n, "m": m}


def _sentence(slots: Slots) -> str:
    words = slots.words(slots.rng.randint(3, 8))
    for place in range(1, len(words), 2):
        words[place] = slots.rng.choice(("the", "a", "and", "with", "of", "was", "in", "had", words[place]))
    return f"{' '.join(words).capitalize()}."
