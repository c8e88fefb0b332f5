"""Asks which of the topics that the request names a plain sentence is about."""

from typing import ClassVar

from gesso.tasks.base import Example
from gesso.tasks.skills.skill import Skill
from gesso.tasks.skills.slots import Phrasings, Slots

_ASK = Phrasings(
    (
        "What is this about: {labels}?", "Is this about {labels}?", "Topic ({labels})?",
        "Which topic is it: {labels}?",
        "Classify as {labels}.", "Choose the topic: {labels}.", "Which of {labels} is this about?",
        "Label this as {labels}.",
        "Pick one: {labels}.", "What is the topic, {labels}?", "Give the topic. Choices: {labels}.",
        "Sort this into {labels}.",
        "Does this concern {labels}?", "Assign a topic ({labels}).", "Say if this is about {labels}.",
        "Topics: {labels}. Which one fits?",
        "Categorize: {labels}.", "Find the right category among {labels}.",
        "Under which heading does this go: {labels}?",
        "Tell me the category, {labels}.",
    ),
    (
        "Of {labels}, which one fits this?", "Into which of these would you file it: {labels}?",
        "Tag the text with {labels}.",
    ),
)  # fmt: skip
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
_SENTENCES = Phrasings(
    (
        "{name} talked about the {a} and the {b}.", "The {a} in {city} had a {b}.",
        "Yesterday the {a} and the {b} were discussed.",
        "The {a} was followed by the {b}.", "{name} asked for the {a} and a {b}.",
        "In {city} the {a} is all about the {b}.",
        "There was a {a} with a {b} and a {noun}.", "{name} wrote {number} pages on the {a}, and on the {b}.",
        "A {noun}, a {a} and a {b}.", "Without the {b}, the {a} is nothing, says {name}.",
        "The {a} came before the {b} in {city}.",
        "They saw the {a}. The {b} was next.",
    ),
    (
        "{name} remembers the {b} and then the {a}.", "Between the {a} and the {b} was a {noun}.",
        "Nobody in {city} forgot the {a} or the {b}.",
    ),
)  # fmt: skip


class Topics(Skill):
    """Asks such as `Is this about sports or food? Grelmo asked for the soup and a recipe.` -> `food`."""

    name = "topics"
    phrasings: ClassVar = {"ask": _ASK, "sentence": _SENTENCES}

    def draw(self, slots: Slots) -> Example:
        """Draws a sentence with two words of a topic, and two to four topics to choose from."""
        rng = slots.rng
        labels = rng.sample(sorted(_WORDS), rng.randint(2, 4))
        answer = rng.choice(labels)
        a, b = rng.sample(_WORDS[answer].split(), 2)
        text = slots.choice(
            _SENTENCES, a=a, b=b, name=slots.first_name(), city=slots.city(), noun=slots.word(), number=slots.number(3)
        )
        listed = ", ".join(labels[:-1]) + (" or " if rng.random() < 0.7 else ", ") + labels[-1]
        ask = slots.choice(_ASK, labels=listed)
        gap = rng.choice((" ", "\n", "\n\n"))
        prompt = f"{ask}{gap}{text}" if rng.random() < 0.6 else f"{text}{gap}{ask}"
        return Example(self.name, prompt, answer, kind=slots.kind(str(len(labels))))

    def grade(self, example: Example, text: str) -> bool:
        """Accepts the topic, in whatever case, with or without a mark."""
        return text.strip().rstrip(".").lower() == example.answer
