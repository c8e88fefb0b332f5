"""Asks which of the topics that the request names a text is about, or whether it is about one; of several, too."""

import random
import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import ClassVar

from gesso.tasks.base import Example
from gesso.tasks.skills.labelled_texts import SEVERAL, draw_marks, place, same_labels, several, with_list
from gesso.tasks.skills.layouts import Layout
from gesso.tasks.skills.patterns import read_phrasings, says_below
from gesso.tasks.skills.skill import Skill
from gesso.tasks.skills.slots import Slots

_ASK = read_phrasings("topics", "ask")
_YES = read_phrasings("topics", "yes")
_SENTENCES = read_phrasings("topics", "sentences")
_KEYWORDS, _DISTRACTED = read_phrasings("topics", "keywords"), read_phrasings("topics", "distracted")
_INSIDE = read_phrasings("topics", "inside")
_CODES = read_phrasings("topics", "codes")
_WHICH, _WHICH_MARK = read_phrasings("topics", "which"), read_phrasings("topics", "which by mark")
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
        "sports, sea",
        "sports, cars",
        "weather, agriculture, gardening",
        "health, family",
        "family, home",
        "military, sea, delivery",
        "work, construction",
        "work, politics",
        "money, politics, news",
        "law, money, real estate",
        "money, agriculture",
        "books, news",
        "films, news",
        "history, art",
        "history, travel",
        "travel, languages",
    )
)
"""Topics that come near each other: nobody is asked to choose between two of a set."""
_KIND_SHARES = {"asked": 0.63, "yes": 0.12, "several": 0.1, "which": 0.05, "inside": 0.07, "codes": 0.03}
_TEXT_SHARES = {"plain": 0.68, "sentence": 0.18, "keywords": 0.07, "distracted": 0.07}
_PLACED_SHARE = 0.35
"""Share of the texts that stand as `place` puts them."""
_CODE_PAIRS = (("1", "2"), ("1", "2"), ("1", "0"), ("0", "1"), ("A", "B"), ("A", "B"), ("a", "b"), ("x", "y"))
_USUAL = (Layout(", ", last=" or "), Layout(", "))
_PAIRED = (Layout(" or ", item='"{}"'), Layout(" or ", item="'{}'"))
"""Layouts of two topics."""
_CHOICES = (Layout(", "), Layout(" / "), Layout("/"), Layout("/"), Layout(" | "), Layout(" vs "), *_PAIRED)


@dataclass(frozen=True, slots=True)
class _Topic:
    """Holds what a topic is called, words that tell it, and those that fit it as well, but tell another."""

    names: tuple[str, ...]
    words: tuple[str, ...]
    fitting: frozenset[str]


@cache
def _topics() -> tuple[_Topic, ...]:
    text = resources.files("gesso.tasks.skills").joinpath("phrasings", "topic_words.txt").read_text("utf-8")
    found = []
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        names, listed = section.split("\n", 1)
        words, _, fitting = listed.partition("also:")
        told = tuple(words.split())
        found.append(_Topic(tuple(names.split("/")), told, frozenset((*told, *fitting.split()))))
    return tuple(found)


_PLAIN = {topic.names[0]: read_phrasings("topic_sentences", topic.names[0]) for topic in _topics()}


class Topics(Skill):
    """Asks such as `Is this about sports or food? Grelmo asked for a bowl of soup.` -> `food`."""

    name = "topics"
    shouted = True
    phrasings: ClassVar = {
        "ask": _ASK, "yes": _YES, "several": SEVERAL, "inside": _INSIDE, "codes": _CODES, "which": _WHICH,
        "which by mark": _WHICH_MARK, "sentence": _SENTENCES, "keywords": _KEYWORDS, "distracted": _DISTRACTED,
        **_PLAIN,
    }  # fmt: skip

    def draw(self, slots: Slots) -> Example:
        """Draws a sentence with words of a topic, or a plain one, and two to four topics to choose from; or several."""
        rng = slots.rng
        kind = rng.choices(tuple(_KIND_SHARES), tuple(_KIND_SHARES.values()))[0]
        topics = _apart(slots, rng.choices((2, 3, 4), (0.55, 0.3, 0.15))[0])
        about = rng.choice(topics)
        names = {topic.names[0]: topic.names[0] if rng.random() < 0.5 else rng.choice(topic.names) for topic in topics}
        if rng.random() < 0.1:
            names = {topic: name.capitalize() for topic, name in names.items()}
        if kind == "several":
            return self._several(slots, topics, names)
        if kind == "which":
            return self._which(slots, topics[:2], names)
        text = _text(slots, about, topics, distracted=kind != "yes")
        if kind == "yes":
            asked = rng.choice(topics[:2])
            answer = "yes" if asked == about else "no"
            ask = slots.choice(_YES, label=names[asked.names[0]])
        elif kind == "codes":
            about = rng.choice(topics[:2])
            text = _text(slots, about, topics[:2])
            codes = rng.choice(_CODE_PAIRS)
            first, second = (names[topic.names[0]] for topic in topics[:2])
            ask = slots.choice(_CODES, l1=first, l2=second, c1=codes[0], c2=codes[1])
            answer = codes[topics.index(about)]
        else:
            answer = names[about.names[0]]
            labels = _listed(slots, list(names.values()))
            if kind == "inside" and '"' not in text:
                prompt = slots.choice(_INSIDE, labels=labels, text=text)
                return Example(self.name, prompt, answer, kind=slots.kind("inside"))
            ask, kind = slots.choice(_ASK, labels=labels), str(len(topics))
        prompt = (
            place(slots, ask, text) if rng.random() < _PLACED_SHARE and "\n" not in ask else _beside(slots, ask, text)
        )
        return Example(self.name, prompt, answer, kind=slots.kind(kind))

    def grade(self, example: Example, text: str) -> bool:
        """Accepts the topic, or those of all lines, in whatever case, with or without a mark."""
        return same_labels(text, example.answer)

    def _several(self, slots: Slots, topics: list[_Topic], names: dict[str, str]) -> Example:
        """The topic of each of several texts."""
        rng = slots.rng
        abouts = [rng.choice(topics) for _ in range(rng.choices((2, 3, 4), (0.4, 0.4, 0.2))[0])]
        texts = [_text(slots, about, topics) for about in abouts]
        ask = slots.choice(SEVERAL, labels=_listed(slots, list(names.values())))
        prompt, answer = several(slots, ask, texts, [names[about.names[0]] for about in abouts])
        return Example(self.name, prompt, answer, kind=slots.kind("several"))

    def _which(self, slots: Slots, topics: list[_Topic], names: dict[str, str]) -> Example:
        """Which of two texts, or of three, is about a topic: by its mark, or the text itself."""
        rng = slots.rng
        about, other = topics
        count = rng.choice((2, 2, 2, 3))
        place_of_it = rng.randrange(count)
        texts = [_text(slots, about if i == place_of_it else other, [about]) for i in range(count)]
        marks = draw_marks(rng, count, named=rng.random() < 0.8)
        named = Layout(", ", last=" or ").write(marks.names) if marks.names else ""
        asked = _WHICH_MARK if named and rng.random() < 0.5 else _WHICH
        ask = slots.choice(asked, label=names[about.names[0]], marks=named)
        answer = marks.names[place_of_it] if named else texts[place_of_it]
        return Example(self.name, with_list(slots, ask, marks.write(texts)), answer, kind=slots.kind("which"))


def _text(slots: Slots, about: _Topic, topics: list[_Topic], *, distracted: bool = True) -> str:
    """A text about one of the topics; a word of another stands in it where the sentence says that it is not meant."""
    rng = slots.rng
    values = {"name": slots.first_name(), "city": slots.city(), "noun": slots.word(), "number": slots.number(3)}
    kind = rng.choices(tuple(_TEXT_SHARES), tuple(_TEXT_SHARES.values()))[0]
    others = [topic for topic in topics if topic != about]
    if kind == "plain" or (kind == "distracted" and not (others and distracted)):
        text = slots.choice(_PLAIN[about.names[0]], **values)
    else:
        a, b, d = _telling(rng, about, 3, others)
        (c,) = _telling(rng, rng.choice(others), 1, [about]) if kind == "distracted" else ("",)
        patterns = {"sentence": _SENTENCES, "keywords": _KEYWORDS, "distracted": _DISTRACTED}[kind]
        text = slots.choice(patterns, a=a, b=b, d=d, c=c, **values)
    if rng.random() < 0.12:
        text = text.lower().rstrip(".") if rng.random() < 0.6 else text.rstrip(".")
    return text


def _telling(rng: random.Random, about: _Topic, count: int, others: list[_Topic]) -> list[str]:
    """Words of a topic that fit none of the others."""
    while True:
        words = rng.sample(about.words, count)
        if not any(word in other.fitting for other in others for word in words):
            return words


def _beside(slots: Slots, ask: str, text: str) -> str:
    """The request with the text behind or before it, now and then in quotes."""
    rng = slots.rng
    if rng.random() < 0.15:
        text = f'"{text}"' if '"' not in text else text
    gap = rng.choice((" ", "\n", "\n\n")[("\n" in ask) :])
    if says_below(ask) or rng.random() < 0.6:
        ask = f"{ask[:-1]}:" if gap == " " and ask.endswith((".", "?")) and rng.random() < 0.15 else ask
        return f"{ask}{gap}{text}"
    return f"{text}{gap if text[-1] in '.?!' else chr(10)}{ask}"


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
