"""Asks which of the topics that the request names a plain sentence is about."""

from typing import ClassVar

from gesso.tasks.base import Example
from gesso.tasks.skills.skill import Skill
from gesso.tasks.skills.slots import Slots, read_phrasings

_ASK = read_phrasings("topics", "ask")
_WORDS = {
    "sports": "match goal team coach stadium referee player league tennis football race medal tournament",
    "weather": "rain snow storm sunshine clouds wind frost thunder temperature fog hail heat",
    "food": "soup recipe kitchen bread cheese restaurant cook dinner spices salad dessert flour",
    "music": "song concert guitar piano singer orchestra melody album drums violin choir rhythm",
    "travel": "flight hotel luggage airport passport train holiday tourist suitcase journey ticket border",
    "money": "bank loan price tax salary account budget invoice interest coin debt payment",
    "health": "doctor hospital fever medicine nurse pain vaccine clinic illness surgery cough patient",
    "school": "teacher pupil exam homework classroom lesson student grade textbook university lecture essay",
    "computers": "software keyboard program server browser file screen password network laptop code processor",
    "animals": "dog cat horse bird fish zoo lion elephant rabbit cow sheep tiger",
}
_SENTENCES = read_phrasings("topics", "sentences")
_PLAIN = {topic: read_phrasings("topic_sentences", topic) for topic in _WORDS}
_PLAIN_SHARE = 0.45


class Topics(Skill):
    """Asks such as `Is this about sports or food? Grelmo asked for the soup and a recipe.` -> `food`."""

    name = "topics"
    phrasings: ClassVar = {"ask": _ASK, "sentence": _SENTENCES, **_PLAIN}

    def draw(self, slots: Slots) -> Example:
        """Draws a sentence with two words of a topic, or a plain one, and two to four topics to choose from."""
        rng = slots.rng
        labels = rng.sample(sorted(_WORDS), rng.randint(2, 4))
        answer = rng.choice(labels)
        values = {"name": slots.first_name(), "city": slots.city(), "noun": slots.word(), "number": slots.number(3)}
        if rng.random() < _PLAIN_SHARE:
            text = slots.choice(_PLAIN[answer], **values)
        else:
            a, b = rng.sample(_WORDS[answer].split(), 2)
            text = slots.choice(_SENTENCES, a=a, b=b, **values)
        listed = ", ".join(labels[:-1]) + (" or " if rng.random() < 0.7 else ", ") + labels[-1]
        ask = slots.choice(_ASK, labels=listed)
        gap = rng.choice((" ", "\n", "\n\n"))
        prompt = f"{ask}{gap}{text}" if rng.random() < 0.6 else f"{text}{gap}{ask}"
        return Example(self.name, prompt, answer, kind=slots.kind(str(len(labels))))

    def grade(self, example: Example, text: str) -> bool:
        """Accepts the topic, in whatever case, with or without a mark."""
        return text.strip().rstrip(".").lower() == example.answer
