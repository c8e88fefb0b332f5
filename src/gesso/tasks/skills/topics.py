"""Asks which of the topics that the request names a plain sentence is about, or whether it is about one."""

import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import ClassVar

from gesso.tasks.base import Example
from gesso.tasks.skills.layouts import Layout
from gesso.tasks.skills.patterns import read_phrasings, says_below
from gesso.tasks.skills.skill import Skill, is_label
from gesso.tasks.skills.slots import Slots

_ASK = read_phrasings("topics", "ask")
_YES = read_phrasings("topics", "yes")
_SENTENCES = read_phrasings("topics", "sentences")
_LIKE = tuple(
    frozenset(line.split(", "))
    for line in (
        "sea, fishing, nature, travel, hiking, weather, animals, military",
        "food, shopping, health, fishing, agriculture, gardening",
        "money, billing, shopping, work, real estate",
        "computers, games, maths, science, energy, work, photography, cars",
        "school, education, languages, books, science, maths, history, work",
        "music, dancing, art, films",
        "art, photography, films, fashion",
        "home, cleaning, sleep, real estate, construction",
        "family, weddings, toys",
        "books, films, games",
        "news, politics, law, military, history, religion",
        "delivery, shopping, billing, travel, cars, law",
        "toys, games, hobbies, sports",
        "gardening, agriculture, nature, animals",
        "fashion, cosmetics, shopping, hobbies, weddings, weather",
        "sports, games, hiking, dancing, health, fishing",
        "hobbies, art, photography, gardening",
        "science, space, health, nature, energy",
        "sleep, health, home, cosmetics",
        "weddings, religion",
        "nature, energy, cars",
    )
)
"""Topics that come near each other: nobody is asked to choose between two of a set."""
_PLAIN_SHARE, _YES_SHARE = 0.5, 0.1
_USUAL = (Layout(", ", last=" or "), Layout(", "))
_PAIRED = (Layout(" or ", item='"{}"'), Layout(" or ", item="'{}'"))
"""Layouts of two topics."""
_CHOICES = (Layout(", "), Layout(" / "), Layout("/"), Layout(" | "), *_PAIRED)


@dataclass(frozen=True, slots=True)
class _Topic:
    """Holds what a topic is called, and words that tell it."""

    names: tuple[str, ...]
    words: tuple[str, ...]


@cache
def _topics() -> tuple[_Topic, ...]:
    text = resources.files("gesso.tasks.skills").joinpath("phrasings", "topic_words.txt").read_text("utf-8")
    found = []
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        names, words = section.split("\n", 1)
        found.append(_Topic(tuple(names.split("/")), tuple(words.split())))
    return tuple(found)


_PLAIN = {topic.names[0]: read_phrasings("topic_sentences", topic.names[0]) for topic in _topics()}


class Topics(Skill):
    """Asks such as `Is this about sports or food? Grelmo asked for the soup and a recipe.` -> `food`."""

    name = "topics"
    shouted = True
    phrasings: ClassVar = {"ask": _ASK, "yes": _YES, "sentence": _SENTENCES, **_PLAIN}

    def draw(self, slots: Slots) -> Example:
        """Draws a sentence with two words of a topic, or a plain one, and two to four topics to choose from."""
        rng = slots.rng
        topics = _apart(slots, rng.choices((2, 3, 4), (0.5, 0.3, 0.2))[0])
        about = rng.choice(topics)
        values = {"name": slots.first_name(), "city": slots.city(), "noun": slots.word(), "number": slots.number(3)}
        if rng.random() < _PLAIN_SHARE:
            text = slots.choice(_PLAIN[about.names[0]], **values)
        else:
            a, b = rng.sample(about.words, 2)
            text = slots.choice(_SENTENCES, a=a, b=b, **values)
        if rng.random() < 0.15:
            text = f'"{text}"' if '"' not in text else text
        names = {topic.names[0]: topic.names[0] if rng.random() < 0.5 else rng.choice(topic.names) for topic in topics}
        if rng.random() < 0.1:
            names = {topic: name.capitalize() for topic, name in names.items()}
        if rng.random() < _YES_SHARE:
            asked = rng.choice(topics[:2])
            answer, kind = "yes" if asked == about else "no", "yes"
            ask = slots.choice(_YES, label=names[asked.names[0]])
        else:
            answer, kind = names[about.names[0]], str(len(topics))
            ask = slots.choice(_ASK, labels=_listed(slots, list(names.values())))
        gap = rng.choice((" ", "\n", "\n\n"))
        if says_below(ask) or rng.random() < 0.6:
            ask = f"{ask[:-1]}:" if gap == " " and ask.endswith((".", "?")) and rng.random() < 0.15 else ask
            prompt = f"{ask}{gap}{text}"
        else:
            prompt = f"{text}{gap if text[-1] in '.?!' else chr(10)}{ask}"
        return Example(self.name, prompt, answer, kind=slots.kind(kind))

    def grade(self, example: Example, text: str) -> bool:
        """Accepts the topic, in whatever case, with or without a mark."""
        return is_label(text, example.answer)


def _apart(slots: Slots, count: int) -> list[_Topic]:
    """Topics of which no two come near each other."""
    while True:
        topics = slots.rng.sample(_topics(), count)
        names = {topic.names[0] for topic in topics}
        if all(len(line & names) < 2 for line in _LIKE):
            return topics


def _listed(slots: Slots, labels: list[str]) -> str:
    rng = slots.rng
    if rng.random() < 0.25:
        layout = rng.choice(_CHOICES)
        if layout not in _PAIRED or len(labels) == 2:
            return layout.write(labels)
    return _USUAL[rng.random() >= 0.7].write(labels)
