"""Asks to change the case of a part of a text alone: one word of it, or its first letter."""

from gesso.tasks.skills.patterns import read_phrasings
from gesso.tasks.skills.slots import Slots

ONE_WORD = read_phrasings("casing", "one word")
THAT_WORD = read_phrasings("casing", "that word")
FIRST_LETTER = read_phrasings("casing", "first letter")
SMALL_LETTER = read_phrasings("casing", "small letter")
_PLACES = {"first": 0, "last": -1, "second": 1}
_NAMELESS = r"^(?!.*\bthe word\b)"
"""Requests that would take a word without quotes for one of their own."""
_QUOTES = ('"{}"', '"{}"', "'{}'", "{}")


def ask_part(slots: Slots) -> tuple[str, str, str]:
    """Asks for one word in capitals, by its place or by itself, or for a capital or a small letter at the beginning of
    a text that stays as it is otherwise: the prompt, the answer and the kind."""
    rng = slots.rng
    kind = rng.choices(("one word", "that word", "first letter", "small letter"), (0.34, 0.3, 0.22, 0.14))[0]
    words = slots.plain_sentence() if rng.random() < 0.6 else slots.words(rng.randint(2, 5))
    if kind == "first letter":
        words[0] = words[0][0].lower() + words[0][1:]
        text = " ".join(words) + rng.choice(("", "", ".", "!"))
        return slots.request(FIRST_LETTER, text, loose=True), text[0].upper() + text[1:], kind
    if kind == "small letter":
        text = " ".join(words) + rng.choice(("", "", ".", "!"))
        text = text[0].upper() + text[1:]
        return slots.request(SMALL_LETTER, text, loose=True), text[0].lower() + text[1:], kind
    which = rng.choice(("first", "first", "last", "last", "second"))
    place = _PLACES[which]
    if kind == "that word":
        lowered = [word.lower() for word in words]
        alone = [place for place, word in enumerate(words) if lowered.count(word) == 1 and word.islower()]
        place = rng.choice(alone) if alone else 0
    end = rng.choice(("", "", ".", "!")) if place != len(words) - 1 else ""
    text = " ".join(words) + end
    given = words[place]
    words[place] = given.upper()
    if kind == "one word":
        prompt = slots.request(ONE_WORD, text, loose=True, which=which)
    else:
        quote = rng.choice(_QUOTES)
        without = _NAMELESS if quote == "{}" else ""
        prompt = slots.request(THAT_WORD, text, loose=True, without=without, word=quote.format(given))
    return prompt, " ".join(words) + end, kind
