"""Draws the values and the wording of a skill.

`{data}` and `{quoted}` of a pattern (`gesso.tasks.skills.patterns`) say where in a request the data stand, which come
before or behind it otherwise.
"""

import random
import re
from collections.abc import Sequence
from functools import cache

from gesso.tasks.skills.lexicon import (
    RESERVED,
    SHORT_NAMES,
    TYPICAL_NAMES,
    common_words,
    draw_foreign,
    draw_pseudo_word,
    draw_word,
    is_unseen,
)
from gesso.tasks.skills.patterns import Phrasings, expand, pick, read_phrasings, says_below, with_small_letter
from gesso.tasks.words import CITIES, POOL, words_of

_KINDS = ("dictionary", "pseudo", "known", "common")
_KIND_WEIGHTS = (0.42, 0.18, 0.10, 0.30)
_UNSEEN_KIND_WEIGHTS = (0.65, 0.35, 0.0, 0.0)
_FIRST_NAMES = words_of("""
    Ada Alan Alice Amir Anna Ben Bruno Carla Chloe Clara Daniel David Diana Elena Emma Erik Eva Felix Fiona Frank
    Grace Hana Hugo Ida Igor Ines Ivan Jack Jane Jonas Julia Karl Kate Laura Leo Liam Lina Lucas Lucy Marco Maria
    Mark Marta Max Maya Mia Milo Mona Nadia Nina Noah Nora Olga Oscar Otto Paul Peter Petra Rita Robert Rosa Sam
    Sara Simon Sofia Tara Theo Thomas Tina Tom Ursula Vera Victor Wanda Yara Zoe
""")
_LAST_ENDINGS = ("son", "man", "berg", "er", "ez", "ini", "ova", "ski", "ton", "ley", "", "")
_CITY_ENDINGS = ("ton", "ville", "burg", "ford", "stad", "o", "a", "is", "", "")


_POLITE = read_phrasings("slots", "polite")
_PLAIN = ("{Ask}",) * (len(_POLITE.seen) // 2)
"""A third of the requests are put without politeness."""
_PLAIN_SENTENCES = read_phrasings("sentences", "plain")
_PROSE = read_phrasings("sentences", "prose")
_FIRST_PERSON = re.compile(r"\b(me|I)\b")
"""Words after which nobody puts "I need to" before a request."""
_A_UPPER = re.compile(r"\b([Aa]) (?=upper)", re.IGNORECASE)
"""Is wrong before the name of a style, as `UpperCamelCase`."""
_PLEASE_TWICE = re.compile(r"\b(please),? please\b", re.IGNORECASE)
_QUESTIONS = ("How ", "Which ", "What ")
_MARKS = ".?!:"
"""Marks that a request may end with."""
_LAYOUTS = ("{ask}: {data}", "{ask}:\n{data}", "{ask}\n{data}", "{ask}\n\n{data}", "{data}\n{ask}", "{data}\n\n{ask}")
_LAYOUT_WEIGHTS = (0.5, 0.14, 0.08, 0.12, 0.08, 0.08)
_BEHIND = 4
"""Layouts that have the data behind the request."""
_DATA = "{data}"
_ALONE = re.compile(r":\s*\{data\}$|[\"'`]\{data\}[\"'`]")
"""Places where everybody sees what the data are."""
_INSIDE = 0.4
_QUOTES = ("{}", "{}", '"{}"', "'{}'", "`{}`")
_SMALL_WORDS = words_of(
    "a an the this my his her its of in on at to by and or is are was not with for from no two one "
    "i you he she it we they our your their very see saw has have had new old some all but so if"
)
"""Are in most sentences."""
_FOREIGN_SHARE = 0.06
_TYPICAL_SHARE = 0.4


@cache
def _placed(patterns: tuple[str, ...], without: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Patterns with a place for the data, and those without, as far as they have not what `without` finds."""
    if without:
        fitting = tuple(pattern for pattern in patterns if not re.search(without, pattern, re.IGNORECASE))
        patterns = fitting or patterns
    held = re.compile(r"\{(data|quoted)\}")
    inside = tuple(pattern for pattern in patterns if held.search(pattern))
    return inside, tuple(pattern for pattern in patterns if not held.search(pattern))


class Slots:
    """Draws values and wordings from `rng`; with `unseen`, from the side of the split that training never sees."""

    def __init__(self, rng: random.Random, *, unseen: bool = False) -> None:
        self.rng = rng
        self.unseen = unseen
        self.reworded = unseen and rng.random() < 0.5
        """Whether the wording is unseen too, not the values alone."""

    def word(self) -> str:
        """Draws a lower-case word: of the dictionary, of random syllables, one of the tasks with fixed pools, or one of
        the common words, which have tokens of their own."""
        kind = self.rng.choices(_KINDS, _UNSEEN_KIND_WEIGHTS if self.unseen else _KIND_WEIGHTS)[0]
        if kind in ("known", "common"):
            return self.rng.choice(POOL if kind == "known" else common_words())
        draw = draw_word if kind == "dictionary" else draw_pseudo_word
        return draw(self.rng, unseen=self.unseen)

    def words(self, count: int) -> list[str]:
        """Draws distinct words."""
        found: dict[str, None] = {}
        while len(found) < count:
            found[self.word()] = None
        return list(found)

    def items(self, count: int) -> list[str]:
        """Draws distinct words of which a few, in training, are not of plain letters: for what only copies them."""
        found = self.words(count)
        if self.unseen:
            return found
        foreign = [draw_foreign(self.rng) if self.rng.random() < _FOREIGN_SHARE else word for word in found]
        return foreign if len(set(foreign)) == count else found

    def sentence(self, words: Sequence[str]) -> list[str]:
        """Returns the words with small ones between them now and then, as sentences have; most often as they are."""
        if self.rng.random() < 0.65:
            return list(words)
        found = []
        for word in words:
            if self.rng.random() < 0.5:
                found.append(self.rng.choice(_SMALL_WORDS))
            found.append(word)
        return found

    def plain_sentence(self) -> list[str]:
        """Draws the words of a sentence as people write them, most of them common, without marks; a third begin
        with a capital."""
        while True:
            words = self._filled(_PLAIN_SENTENCES).split()
            if self.rng.random() < 0.3 and words[0] not in words[1:]:
                words[0] = words[0].capitalize()
            if any(is_unseen(word) and len(word) > 2 for word in words) == self.unseen:
                return words

    def prose(self) -> str:
        """Draws one or two sentences as people write them, with capitals and marks."""
        while True:
            text = self._filled(_PROSE)
            if self.unseen or not any(is_unseen(word) and len(word) > 2 for word in re.findall(r"[^\W\d_]+", text)):
                return text

    def _filled(self, phrasings: Phrasings) -> str:
        """Draws one of the sentences, with words, names and numbers in its places."""
        pattern = self.rng.choice(phrasings.unseen if self.reworded else phrasings.seen)
        first, second, third = self.words(3)
        values = {"w1": first, "w2": second, "w3": third, "name": self.first_name(), "city": self.city()}
        return expand(pattern, self.rng).format(**values, n=self.number(3), m=self.number(2))

    def stem(self) -> str:
        """Draws a short word, as parts of identifiers and keys are."""
        while True:
            word = self.word()
            if len(word) <= 8:
                return word

    def identifier(self, parts: int | None = None) -> str:
        """Draws a `snake_case` name of one to three words, one letter or what people use."""
        typical = self.rng.random()
        if typical < _TYPICAL_SHARE and parts in (None, 1):
            return self.rng.choice(SHORT_NAMES if typical < _TYPICAL_SHARE / 2 and parts else TYPICAL_NAMES)
        count = parts or self.rng.choices((1, 2, 3), (0.3, 0.55, 0.15))[0]
        while True:
            name = "_".join(self.stem() for _ in range(count))
            if name not in RESERVED:
                return name

    def identifiers(self, count: int, parts: int | None = None) -> list[str]:
        """Draws distinct identifiers."""
        found: dict[str, None] = {}
        while len(found) < count:
            found[self.identifier(parts)] = None
        return list(found)

    def first_name(self) -> str:
        """Draws a person's first name; most often a made-up one."""
        if not self.unseen and self.rng.random() < 0.35:
            return self.trained(_FIRST_NAMES)
        return draw_pseudo_word(self.rng, unseen=self.unseen).capitalize()

    def name(self) -> str:
        """Draws a person's first name, or first and last name."""
        if self.rng.random() < 0.5:
            return self.first_name()
        last = self._with_ending(_LAST_ENDINGS)
        return f"{self.first_name()} {last.capitalize()}"

    def city(self) -> str:
        """Draws a city; most often a made-up one."""
        if not self.unseen and self.rng.random() < 0.3:
            return self.rng.choice(CITIES)
        return self._with_ending(_CITY_ENDINGS).capitalize()

    def _with_ending(self, endings: Sequence[str]) -> str:
        """Draws a made-up word with an ending; with it, too, none that is held out of training."""
        while True:
            word = draw_pseudo_word(self.rng, unseen=self.unseen) + self.rng.choice(endings)
            if self.unseen or not is_unseen(word):
                return word

    def number(self, digits: int = 6) -> int:
        """Draws a number of one to `digits` digits, each length equally likely; never 0 but for one digit."""
        length = self.rng.randint(1, digits)
        return self.rng.randint(0 if length == 1 else 10 ** (length - 1), 10**length - 1)

    def numbers(self, count: int, digits: int = 6) -> list[int]:
        """Draws distinct numbers."""
        found: dict[int, None] = {}
        while len(found) < count:
            found[self.number(digits)] = None
        return list(found)

    def choice(self, phrasings: Phrasings, **values: object) -> str:
        """Draws one of the patterns, expanded, with its values in place."""
        return self._worded(phrasings.unseen if self.reworded else phrasings.seen, **values)

    def request(
        self, phrasings: Phrasings, data: str = "", *, loose: bool = False, without: str = "", **values: object
    ) -> str:
        """Draws a whole message: an imperative request, put politely or not, and the data it is about. Where there are
        patterns with a place for the data, `{data}`, or `{quoted}` for data in quotes or not, two in five are of these,
        but for data of several lines.

        Args:
            loose: the data could be taken for words of the request: within it they are in quotes.
            without: a regular expression of what no pattern may have.
        """
        inside, apart = _placed(phrasings.unseen if self.reworded else phrasings.seen, without)
        one_line = inside and "\n" not in data
        patterns = inside if one_line and self.rng.random() < _INSIDE else apart or inside
        quotes = [quote for quote in _QUOTES if quote == "{}" or quote[0] not in data]
        if loose:
            quotes = [quote for quote in quotes if quote != "{}"] or ["{}"]
        quoted = self.rng.choice(quotes).format(_DATA)
        ask = self._worded(patterns, data=_DATA, quoted=quoted, **values)
        if '"' in data:
            ask = ask.replace(f'"{_DATA}"', _DATA)
        elif loose and not _ALONE.search(ask):
            ask = ask.replace(_DATA, f'"{_DATA}"')
        return self.frame(ask, data)

    def frame(self, ask: str, data: str = "") -> str:
        """Draws the same from a request that is already worded."""
        shell = self.rng.choice(_POLITE.unseen if self.reworded else _PLAIN + _POLITE.seen)
        if ask.startswith("~"):
            ask, shell = ask[1:], "{Ask}"
        small = with_small_letter(ask)
        bare_end = ask.rstrip(".?:").endswith(_DATA)  # words behind it would read as data
        if _FIRST_PERSON.search(ask) or (bare_end and not shell.rstrip("?.").lower().endswith("{ask}")):
            shell = "{Ask}"
        if self.rng.random() < 0.15:
            ask = small
        if not shell.endswith(("{Ask}", "{ask}")):
            ask, small = ask.rstrip(".?:"), small.rstrip(".?:")
        ask = _PLEASE_TWICE.sub(r"\1", shell.replace("{Ask}", ask).replace("{ask}", small))
        if _DATA in ask:
            if self.rng.random() < 0.2 and (ask[-1] == "?" or ask[-1].isalnum()):
                ask = ask.rstrip("?") if ask[-1] == "?" else f"{ask}."
            return ask.replace(_DATA, data)
        if data:
            return self._laid_out(ask, data)
        one_sentence = ask[-1] not in _MARKS and ". " not in ask and "? " not in ask
        if shell == "{Ask}" and ask.startswith(_QUESTIONS) and one_sentence:
            return f"{ask}?"
        return self._with_stop(ask, 0.3)

    def _laid_out(self, ask: str, data: str) -> str:
        """Puts the data before a request or behind it."""
        count = _BEHIND if says_below(ask) else len(_LAYOUTS)
        layout = self.rng.choices(_LAYOUTS[:count], _LAYOUT_WEIGHTS[:count])[0]
        if "\n" in data and layout == _LAYOUTS[0]:
            layout = _LAYOUTS[1]
        ask = ask.rstrip("?.:") if layout.startswith("{ask}:") else self._with_stop(ask, 0.4)
        return layout.replace("{ask}", ask).replace("{data}", data)

    def _with_stop(self, text: str, bare: float) -> str:
        """Ends a text with a full stop where it has no mark at its end, but for a share `bare` of the texts."""
        return text if text[-1] in _MARKS or self.rng.random() < bare else f"{text}."

    def question(self, phrasings: Phrasings, **values: object) -> str:
        """Draws a whole message that is a question already; sometimes without capital or mark."""
        text = self.choice(phrasings, **values)
        if self.rng.random() < 0.2:
            text = with_small_letter(text)
        if self.rng.random() < 0.2:
            text = text.rstrip("?.!")
        return text

    def kind(self, name: str) -> str:
        """Returns the group of an evaluation that an example belongs to."""
        return f"{name}, reworded" if self.reworded else name

    def _worded(self, patterns: Sequence[str], **values: object) -> str:
        text = expand(pick(patterns, self.rng), self.rng).format(**values)
        return _A_UPPER.sub(r"\1n ", text) if "upper" in text.lower() else text

    def trained(self, pool: Sequence[str]) -> str:
        """Draws one of the pool that training may see."""
        while True:
            word = self.rng.choice(pool)
            if not is_unseen(word):
                return word
