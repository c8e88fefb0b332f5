"""Draws texts about a topic: plain sentences, patterns with words that tell it, words alone, with others around."""

from gesso.tasks.skills.articles import with_articles
from gesso.tasks.skills.labelled_texts import draw_thing
from gesso.tasks.skills.patterns import read_phrasings
from gesso.tasks.skills.slots import Slots
from gesso.tasks.skills.topics.words import Topic, fits, telling, topics

_SENTENCES = read_phrasings("topics", "sentences")
_KEYWORDS, _DISTRACTED = read_phrasings("topics", "keywords"), read_phrasings("topics", "distracted")
_LEADS, _PLACES, _TAILS = (read_phrasings("topics", name) for name in ("lead", "place", "tail"))
_PLAIN = {topic.names[0]: read_phrasings("topic_sentences", topic.names[0]) for topic in topics()}
PHRASINGS = {
    "sentence": _SENTENCES, "keywords": _KEYWORDS, "distracted": _DISTRACTED, "lead": _LEADS, "place": _PLACES,
    "tail": _TAILS, **_PLAIN,
}  # fmt: skip
_SHARES = {"plain": 0.74, "sentence": 0.14, "keywords": 0.05, "distracted": 0.07}
_FILLED_SHARE, _SMALL_SHARE = 0.14, 0.12
_TRIES = 8


def draw_text(slots: Slots, about: Topic, offered: list[Topic], *, distracted: bool = True, short: bool = False) -> str:
    """Draws a text about one of the topics offered, without a word that fits another where that can be had; but such a
    word stands in it where the sentence says that it is not meant. With `short`, no words stand around it."""
    rng = slots.rng
    values = {"name": slots.first_name(), "city": slots.city(), "noun": draw_thing(slots), "number": slots.number(3)}
    kind = rng.choices(tuple(_SHARES), tuple(_SHARES.values()))[0]
    others = [topic for topic in offered if topic != about]
    if kind == "plain" or (kind == "distracted" and not (others and distracted)):
        for _ in range(_TRIES):
            text = slots.choice(_PLAIN[about.names[0]], **values)
            if not fits(text, others):
                break
            values["noun"] = draw_thing(slots)
    else:
        a, b, d = telling(rng, about, 3, others)
        (c,) = telling(rng, rng.choice(others), 1, [about]) if kind == "distracted" else ("",)
        patterns = {"sentence": _SENTENCES, "keywords": _KEYWORDS, "distracted": _DISTRACTED}[kind]
        text = slots.choice(patterns, a=a, b=b, d=d, c=c, **values)
    text = with_articles(text)
    if not short and rng.random() < _FILLED_SHARE:
        text = _filled(slots, text, placed=distracted)
    if rng.random() < _SMALL_SHARE:
        text = text.lower().rstrip(".") if rng.random() < 0.6 else text.rstrip(".")
    return text


def _filled(slots: Slots, text: str, *, placed: bool) -> str:
    """The text with a greeting, a source or a remark that tells no topic; with `placed`, where it was said, too."""
    patterns = slots.rng.choice((_LEADS, _LEADS, _PLACES if placed else _LEADS, _TAILS))
    if patterns is _TAILS and text[-1] not in ".!?":
        text = f"{text}."
    name, city, number = slots.first_name(), slots.city(), slots.number(2)
    return slots.choice(patterns, text=text, name=name, city=city, number=number)
