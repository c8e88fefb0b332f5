"""Draws texts for a change of case: words, sentences, lists, names, codes, words with accents."""

import re

from gesso.tasks.skills.entries import draw_entries
from gesso.tasks.skills.layouts import draw_layout
from gesso.tasks.skills.lexicon import is_unseen
from gesso.tasks.skills.slots import Slots

_KINDS = ("words", "plain", "prose", "list", "accents", "codes", "people")
_WEIGHTS = (0.34, 0.17, 0.21, 0.12, 0.06, 0.05, 0.05)
_ACCENTS = {
    "a": "áàâäãå", "e": "éèêë", "i": "íìîï", "o": "óòôöõø", "u": "úùûü", "n": "ñ", "c": "ç", "s": "š", "z": "ž",
    "l": "ł", "y": "ý",
}  # fmt: skip
_TITLES = ("dr.", "mr", "mrs", "ms.", "prof.", "captain", "sir", "aunt")
_CODES = (
    "{0}_{n}", "{0}-{n}", "{0}{n}", "{0}.{1}@{2}.com", "{0}@{1}.org", "www.{0}.com", "{0}/{1}/{2}", "{0}.{1}",
    "{0}_{1}_{n}", "{0}-{n}-{1}", "#{0}{n}", "{0}_{1}.txt",
)  # fmt: skip


def draw_text(slots: Slots) -> str:
    """Draws one to five words, a plain sentence, prose with its marks, a list, a name, a code or an address, some with
    accents."""
    rng = slots.rng
    kind = rng.choices(_KINDS, _WEIGHTS)[0]
    if kind == "plain":
        return " ".join(slots.plain_sentence())
    if kind == "prose":
        return slots.prose()
    if kind == "list":
        return draw_layout(rng).answer(draw_entries(slots, rng.randint(2, 5)))
    if kind == "accents":
        return " ".join(accented(slots, word) for word in slots.words(rng.randint(1, 4)))
    if kind == "codes":
        return draw_code(slots)
    if kind == "people":
        title = f"{rng.choice(_TITLES)} " if rng.random() < 0.5 else ""
        return f"{title}{slots.name()}".lower()
    return " ".join(slots.sentence(slots.words(rng.randint(1, 5))))


def draw_code(slots: Slots) -> str:
    """Draws small letters with signs and digits among them."""
    return slots.rng.choice(_CODES).format(*slots.words(3), n=slots.number(3))


def accented(slots: Slots, word: str) -> str:
    """Returns the word with accents at one or two of its letters, where it has letters that take some."""
    rng = slots.rng
    letters = list(word)
    places = [place for place, letter in enumerate(letters) if letter in _ACCENTS]
    for place in rng.sample(places, min(len(places), rng.choice((1, 1, 2)))):
        letters[place] = rng.choice(_ACCENTS[letters[place]])
    found = "".join(letters)
    return found if slots.unseen or not is_unseen(found) else word


def draw_swapped(slots: Slots) -> str:
    """Draws letters of both cases: words, what comes of a caps lock that was on, letters by chance, codes."""
    rng = slots.rng
    kind = rng.choices(("words", "lock", "chance", "codes"), (0.3, 0.35, 0.2, 0.15))[0]
    if kind == "words":
        return " ".join(rng.choice((word, word.title(), word.upper())) for word in slots.words(rng.randint(1, 3)))
    if kind == "lock":
        text = rng.choice((" ".join(slots.plain_sentence()), " ".join(slots.words(rng.randint(1, 4)))))
        text = re.sub(r"\S+", lambda word: word[0].capitalize(), text) if rng.random() < 0.5 else text
        return (text[0].upper() + text[1:]).swapcase()
    text = draw_code(slots) if kind == "codes" else " ".join(slots.words(rng.choice((1, 1, 2))))
    return "".join(letter.upper() if rng.random() < 0.5 else letter for letter in text)
