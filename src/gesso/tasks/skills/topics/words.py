"""Holds the topics: what each is called, the words that tell it, and which come too near each other to choose from."""

import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import combinations
from random import Random

NEAR_LINES = (
    "sea, fishing, nature, travel, hiking, weather, animals, military, birds, geography",
    "food, shopping, health, fishing, agriculture, gardening, drinks, baking",
    "money, billing, shopping, work, real estate, payroll, returns, insurance, charity",
    "computers, games, maths, science, energy, work, photography, cars, login, phones, programming, social media",
    "school, education, languages, books, science, maths, history, work, recruitment, geography, parenting",
    "school, education, physics, chemistry, biology, theatre, psychology",
    "music, dancing, art, films, theatre, parties",
    "art, photography, films, fashion, jewellery, marketing",
    "home, cleaning, sleep, real estate, construction, hotels, repairs, insurance, returns, cats",
    "family, weddings, toys, parties, parenting, jewellery, charity, psychology, dogs, cats",
    "books, films, games, theatre",
    "news, politics, law, military, history, religion, accidents",
    "delivery, shopping, travel, cars, law, returns",
    "toys, games, hobbies, sports, football",
    "gardening, agriculture, nature, animals, biology, birds",
    "fashion, cosmetics, shopping, hobbies, weddings, weather, jewellery, returns",
    "sports, games, hiking, dancing, health, fishing, football, fitness, bicycles",
    "hobbies, art, photography, gardening, birds, repairs, parties",
    "science, space, health, nature, energy, physics, chemistry, biology, psychology",
    "sleep, health, home, cosmetics, hotels, parenting, psychology",
    "weddings, religion, hotels",
    "nature, energy, cars",
    "sports, sea",
    "sports, cars, physics",
    "weather, agriculture, gardening",
    "health, family, fitness, accidents",
    "family, home",
    "military, sea, delivery",
    "work, construction",
    "work, politics",
    "money, politics, news",
    "law, money, real estate, insurance, jewellery, accidents",
    "money, agriculture",
    "books, news",
    "films, news, television, theatre",
    "history, art",
    "history, travel",
    "travel, languages, geography",
    "football, toys, television, fitness",
    "login, phones, programming, social media, games, money",
    "payroll, work, billing, politics, recruitment, insurance, law, charity",
    "returns, billing, cosmetics, toys, phones, computers, repairs, games",
    "trains, travel, toys, public transport, cars, construction, hobbies, delivery, accidents, history",
    "hotels, travel, cleaning, food, drinks, fitness",
    "drinks, baking, parties, agriculture, weddings",
    "baking, shopping, home, parties, weddings",
    "dogs, cats, animals, agriculture, nature, toys",
    "cats, birds, animals, hobbies",
    "birds, animals, weather",
    "parties, food, toys, games, shopping, weddings",
    "parenting, toys, health, food",
    "insurance, cars, health, billing, accidents, bicycles, weather, travel",
    "bicycles, cars, travel, toys, public transport, repairs, accidents, insurance",
    "phones, news, photography, music, travel, social media",
    "social media, news, films, music, marketing, television",
    "programming, languages, science",
    "physics, maths, space, chemistry, biology, energy",
    "chemistry, cleaning, cosmetics, biology, drinks",
    "biology, animals, agriculture",
    "geography, sea, politics, hiking, nature, history",
    "accidents, cars, weather, construction, trains, public transport, hiking, repairs, sea",
    "television, games, sports, books, music",
    "theatre, dancing, books",
    "jewellery, art, cosmetics, money",
    "repairs, construction, energy, cleaning, cars",
    "marketing, news, shopping, work, money, social media, television, cosmetics, politics, computers",
    "charity, politics, religion, sports, school, food",
    "public transport, travel, cars, work",
)
DESKS = ("delivery", "billing", "login", "returns", "recruitment", "payroll", "insurance", "hotels", "trains",
         "phones", "repairs", "accidents", "weather", "travel", "fashion")  # fmt: skip
"""Topics that those who answer mail tell apart."""


@dataclass(frozen=True, slots=True)
class Topic:
    """Holds what a topic is called, words that tell it, and all that fit it: these, its names, and words that tell
    another."""

    names: tuple[str, ...]
    words: tuple[str, ...]
    fitting: frozenset[str]


@cache
def topics() -> tuple[Topic, ...]:
    """Returns all topics."""
    text = resources.files("gesso.tasks.skills").joinpath("phrasings", "topic_words.txt").read_text("utf-8")
    found = []
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        names, listed = section.split("\n", 1)
        words, _, fitting = listed.partition("also:")
        told = tuple(words.split())
        called = tuple(names.split("/"))
        found.append(Topic(called, told, frozenset((*called, *told, *fitting.split()))))
    return tuple(found)


@cache
def _desks() -> tuple[Topic, ...]:
    return tuple(topic for topic in topics() if topic.names[0] in DESKS)


@cache
def _near() -> frozenset[tuple[str, str]]:
    """Pairs of topics that nobody is asked to choose between."""
    pairs = (pair for line in NEAR_LINES for pair in combinations(line.split(", "), 2))
    return frozenset(both for a, b in pairs for both in ((a, b), (b, a)))


def apart(rng: Random, count: int, *, at_desk: bool = False) -> list[Topic]:
    """Draws topics of which no two come near each other; with `at_desk`, of those that mail is sorted by."""
    among = _desks() if at_desk else topics()
    near = _near()
    while True:
        drawn = rng.sample(among, count)
        names = [topic.names[0] for topic in drawn]
        if not any(pair in near for pair in combinations(names, 2)):
            return drawn


def fits(text: str, others: list[Topic]) -> bool:
    """Says whether a word of a text fits one of the topics, in the singular or the plural."""
    words = set(re.findall(r"[a-z-]+", text.lower()))
    words.update([word[:-1] for word in words if word.endswith("s")])
    return not all(words.isdisjoint(other.fitting) for other in others)


def telling(rng: Random, about: Topic, count: int, others: list[Topic]) -> list[str]:
    """Draws words of a topic that fit none of the others."""
    while True:
        words = rng.sample(about.words, count)
        if not any(word in other.fitting for other in others for word in words):
            return words
