"""Draws texts in which one thing stands once or several times, and what is to stand there instead."""

import random
import re
from dataclasses import dataclass

from gesso.tasks.skills.lexicon import is_unseen
from gesso.tasks.skills.patterns import expand, read_phrasings
from gesso.tasks.skills.slots import Slots
from gesso.tasks.skills.things import is_mixed
from gesso.tasks.words import words_of

_KINDS = (
    "names", "words", "phrases", "places", "times", "numbers", "codes", "identifiers", "people", "pronouns", "rooms",
    "short forms",
)  # fmt: skip
_WEIGHTS = (0.16, 0.18, 0.13, 0.06, 0.07, 0.09, 0.07, 0.07, 0.04, 0.04, 0.05, 0.04)
_TEXTS = {kind: read_phrasings("replacing_texts", kind) for kind in _KINDS}
_NOUNS = {
    "names": ("name", "name", "first name", "person"), "words": ("word", "word", "term", "noun"),
    "phrases": ("phrase", "phrase", "expression", "wording"), "places": ("city", "place name", "place", "town"),
    "times": ("word", "word", "time"), "numbers": ("number", "number", "figure", "value"),
    "codes": ("code", "part number", "reference", "ID"), "pronouns": ("word", "pronoun"),
    "identifiers": ("variable", "identifier", "name", "column", "field"), "people": ("phrase", "person"),
    "rooms": ("place", "place", "label"), "short forms": ("title", "form of address"),
}  # fmt: skip
"""What a request may call the thing."""
_MASKS = ("XXXX", "XXX", "***", "___", "[NAME]", "[name]", "NN", "N.N.", "Person A", "Mr X", "{{name}}")
_TIMES = (
    words_of("Monday Tuesday Wednesday Thursday Friday Saturday Sunday"),
    words_of("January February March April May June July August September October November December"),
    words_of("spring summer autumn winter"),
    words_of("morning afternoon evening weekend"),
)
_PEOPLE = tuple(
    f"{whose} {who}"
    for whose in words_of("my your his her our their")
    for who in words_of("""
        sister brother uncle aunt cousin mother father son daughter boss neighbour teacher friend landlord nephew
        niece grandmother grandfather dentist colleague
    """)
)
_PRONOUNS = words_of("he she we they I you")
_ROOMS = words_of("Room Table Gate Line Platform Group Team Bus Shelf Box Hall Stage Level Unit Floor Door Desk Zone")
_SHORT_FORMS = words_of("Mr. Mrs. Ms. Dr. Prof. Mister Doctor Professor Miss Sir Captain Capt. Madam Rev. St. Saint")
_ARTICLES = ("the", "the", "the", "my", "our")
_OF_LISTS = "list|items?|entry|entries|guests|cupboard|menu|who('s| is| got| stays)"
_FILLERS = (
    "um", "uh", "er", "like", "just", "really", "very", "basically", "actually", "literally", "honestly", "simply",
    "you know", "kind of", "sort of", "well", "hmm", "quite", "please", "totally",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Replacement:
    """Holds a text, what goes, what comes, the text then, and what a request may call the thing."""

    given: str
    old: str
    new: str
    answer: str
    noun: str


def draw_replacement(slots: Slots) -> Replacement:
    """Draws a text in which a name, a word, a phrase, a place, a time, a number, a code or an identifier stands, most
    often twice. What begins a sentence in the text has a capital before and after."""
    rng = slots.rng
    while True:
        kind = rng.choices(_KINDS, _WEIGHTS)[0]
        old, new = _pair(slots, kind)
        pattern = expand(rng.choice(_TEXTS[kind].unseen if slots.reworded else _TEXTS[kind].seen), rng)
        given, answer = _filled(slots, pattern, old, new)
        if occurrences(old, given) != pattern.count("{x}") + pattern.count("{X}") or occurrences(new, given):
            continue
        if not is_mixed(given + new, slots):
            called = "words" if kind == "phrases" and " " not in old else kind
            return Replacement(given, old, new, answer, rng.choice(_NOUNS[called]))


def draw_filler(slots: Slots) -> tuple[str, str, str]:
    """Draws a sentence with a word too many, once to three times, that word, and the sentence without it."""
    rng = slots.rng
    while True:
        words = slots.plain_sentence()
        filler = rng.choice(_FILLERS) if rng.random() < 0.7 else slots.word()
        text = " ".join(words)
        known = slots.unseen or not any(map(is_unseen, filler.split()))
        if not known or occurrences(filler, text):
            continue
        end = rng.choice(("", "", ".", "!", "?"))
        first = 0 if words[0].islower() else 1
        places = rng.sample(range(first, len(words)), min(rng.choice((1, 2, 2, 3)), len(words) - first))
        given = [f"{filler} {word}" if place in places else word for place, word in enumerate(words)]
        return " ".join(given) + end, filler, text + end


def unfit(old: str, *, running: bool) -> str:
    """Returns a regular expression of what no request may say: "sentence" before a list, "list" or "guests" before
    running text, and "word" of what has digits or is several words."""
    said = _OF_LISTS if running else "sentences?|passages?|messages?"
    return rf"\b({said}{'|words?' if ' ' in old or any(map(str.isdigit, old)) else ''})\b"


def misspell(rng: random.Random, word: str) -> str:
    """Returns the word with two letters in the wrong order, one too many or one too few."""
    while True:
        place = rng.randrange(len(word) - 1)
        found = rng.choice(
            (
                word[:place] + word[place + 1] + word[place] + word[place + 2 :],
                word[:place] + word[place] + word[place:],
                word[: place + 1] + word[place + 2 :],
            )
        )
        if found != word:
            return found


def occurrences(words: str, text: str) -> int:
    """Counts where the words stand in a text, in whatever case."""
    return len(re.findall(rf"(?<![\w-]){re.escape(words)}(?![\w-])", text, re.IGNORECASE))


def _filled(slots: Slots, pattern: str, old: str, new: str) -> tuple[str, str]:
    first, second = slots.words(2)
    values = {"w1": first, "w2": second, "name": slots.first_name(), "city": slots.city()}
    numbers = {"n": slots.number(3), "m": slots.number(2)}
    given, answer = (
        pattern.format(x=thing, X=thing[0].upper() + thing[1:], **values, **numbers) for thing in (old, new)
    )
    return given, answer


def _pair(slots: Slots, kind: str) -> tuple[str, str]:
    """Draws two different things of a kind."""
    rng = slots.rng
    while True:
        old, new = _drawn(slots, kind), _drawn(slots, kind)
        if kind == "names" and rng.random() < 0.12:
            new = rng.choice(_MASKS)
        if kind == "words" and rng.random() < 0.2 and len(new) > 3:
            old = misspell(rng, new)
        if kind == "codes" and rng.random() < 0.5:
            new = old[:-1] + str(rng.randint(0, 9))
        if kind in ("times", "short forms"):
            pool = rng.choice(_TIMES) if kind == "times" else _SHORT_FORMS
            old, new = rng.sample(pool, 2)
        if kind == "rooms" and rng.random() < 0.6:
            new = f"{old.split()[0]} {slots.number(2)}"
        if old.lower() != new.lower() and not (kind == "phrases" and _shared(old, new)):
            return old, new


def _shared(old: str, new: str) -> set[str]:
    """Returns the words that two phrases share, but for articles."""
    return set(old.split()) & set(new.split()) - set(_ARTICLES)


def _drawn(slots: Slots, kind: str) -> str:
    rng = slots.rng
    if kind == "names":
        return slots.first_name()
    if kind == "phrases":
        if rng.random() < 0.25:
            return f"{rng.choice(_ARTICLES)} {slots.word()}"
        return " ".join(slots.words(rng.choices((1, 2, 3), (0.25, 0.65, 0.1))[0]))
    if kind == "places":
        return slots.city()
    if kind == "rooms":
        return f"{rng.choice(_ROOMS)} {slots.number(2)}"
    if kind == "numbers":
        return str(rng.randint(1900, 2059) if rng.random() < 0.4 else slots.number(4))
    if kind == "codes":
        letters = "".join(rng.choices("ABCDEFGHJKLMNPRSTUVWXZ", k=rng.choice((1, 2, 2, 3))))
        return rng.choice(("{}-{}", "{}-{}", "{}{}", "{}_{}", "{}.{}")).format(letters, rng.randint(10, 9999))
    if kind == "identifiers":
        return slots.identifier(rng.choice((1, 2, 2, 2)))
    if kind == "people":
        return rng.choice(_PEOPLE)
    return rng.choice(_PRONOUNS) if kind == "pronouns" else slots.word()
