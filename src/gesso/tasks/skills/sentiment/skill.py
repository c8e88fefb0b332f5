"""Asks whether a plain text praises, blames or neither, in labels that the request may name; of several texts, too."""

import re
from typing import ClassVar

from gesso.tasks.base import Example
from gesso.tasks.skills.labelled_texts import SEVERAL, differing, draw_marks, place, same_labels, several, with_list
from gesso.tasks.skills.layouts import Layout
from gesso.tasks.skills.patterns import read_phrasings
from gesso.tasks.skills.sentiment.texts import PHRASINGS, draw_text
from gesso.tasks.skills.skill import Skill
from gesso.tasks.skills.slots import Slots

_ASK = read_phrasings("sentiment", "ask")
_LABELS = read_phrasings("sentiment", "labels")
_YES = read_phrasings("sentiment", "yes")
_CODES = read_phrasings("sentiment", "codes")
_INSIDE = read_phrasings("sentiment", "inside")
_WHICH, _WHICH_MARK = read_phrasings("sentiment", "which"), read_phrasings("sentiment", "which by mark")
_MOODS = ("positive", "negative", "neutral")
_OTHER_LABELS = (("good", "bad"), ("happy", "unhappy"), ("praise", "complaint"), ("like", "dislike"),
                 ("satisfied", "dissatisfied"), ("favourable", "unfavourable"), ("pos", "neg"), ("pos", "neg"),
                 ("Positive", "Negative"), ("POSITIVE", "NEGATIVE"), ("thumbs up", "thumbs down"), ("happy", "angry"),
                 ("compliment", "complaint"), ("fan", "critic"), ("pleased", "annoyed"), ("happy", "sad"),
                 ("love", "hate"), ("glad", "upset"), ("content", "discontent"), ("approval", "disapproval"),
                 ("recommend", "avoid"), ("Good", "Bad"), ("plus", "minus"), ("thumbs up", "thumbs down"),
                 ("praise", "criticism"), ("pos", "neg"), ("good", "bad"))  # fmt: skip
_SIGNS = (("+", "-"), ("+", "-"), (":)", ":("))
_SIGNS_SHARE = 0.07
_ADJECTIVES = (("positive", "negative"), ("positive", "negative"), ("positive", "negative"), ("good", "bad"),
               ("favourable", "unfavourable"), ("happy", "unhappy"))  # fmt: skip
_CODE_PAIRS = (("1", "0"), ("1", "0"), ("1", "0"), ("1", "2"), ("+", "-"), ("+1", "-1"), ("1", "-1"), ("P", "N"),
               ("pos", "neg"), ("yes", "no"), ("A", "B"), ("up", "down"), ("thumbs up", "thumbs down"),
               ("true", "false"), ("good", "bad"), ("Y", "N"), ("T", "F"), ("p", "n"), ("like", "dislike"), ("0", "1"),
               ("green", "red"), ("happy", "sad"), (":)", ":("), ("x", "o"))  # fmt: skip
_WORD_CODE_SHARE = 0.25
"""Share of the codes that are any two words."""
_CODED = (
    ("positive", "negative"),
    ("positive", "negative"),
    ("positive", "negative"),
    ("good", "bad"),
    ("praise", "a complaint"),
    ("praise", "criticism"),
    ("happy", "unhappy"),
    ("a good review", "a bad one"),
)
_TOLD = re.compile(r"~(?:(?:I|I'm|My|We|Someone|A|Task|Job|Exercise|Not|idk|no clue|can't tell)\b|#)")
"""Requests that are no questions, though nothing to do either."""
_SHORTENED = re.compile(r"\bneg\b")
"""Requests that shorten the labels."""
_OR = Layout(", ", last=" or ")
_CHOICES = (_OR, _OR, Layout(", "), Layout("/"), Layout("/"), Layout(" / "), Layout(" | "), Layout(" vs "))
_SHARES = {"ask": 0.3, "labels": 0.2, "yes": 0.08, "several": 0.13, "which": 0.08, "codes": 0.08, "inside": 0.13}
_PLAIN_PAIR_SHARE = 0.4
"""Share of the choices of two that are positive and negative."""
_PLACED_SHARE = 0.4
"""Share of the texts that stand as `place` puts them."""


class Sentiment(Skill):
    """Asks such as `Is this positive or negative: The grelt was dreadful.` -> `negative`."""

    name = "sentiment"
    phrasings: ClassVar = {
        "ask": _ASK, "labels": _LABELS, "yes": _YES, "codes": _CODES, "inside": _INSIDE, "which": _WHICH,
        "which by mark": _WHICH_MARK, "several": SEVERAL, **PHRASINGS,
    }  # fmt: skip

    def draw(self, slots: Slots) -> Example:
        """Draws a text about anything and a request for its label, or several texts."""
        rng = slots.rng
        kind = rng.choices(tuple(_SHARES), tuple(_SHARES.values()))[0]
        mood = rng.choice(_MOODS)
        if kind in ("yes", "which", "codes"):
            mood = rng.choice(_MOODS[:2])
        if kind == "ask":
            return self._asked(slots, mood)
        if kind == "several":
            return self._several(slots)
        if kind == "which":
            return self._which(slots, mood)
        text = draw_text(slots, mood)
        if kind == "codes":
            ask, answer = _coded(slots, mood)
        elif kind == "yes":
            label = rng.choice(_MOODS[:2])
            ask, answer = slots.choice(_YES, label=label), "yes" if label == mood else "no"
        else:
            labels, answer = _labels(slots, mood)
            listed = (rng.choice(_CHOICES) if labels[0][0].isalpha() else _OR).write(labels)
            if kind == "inside" and '"' not in text:
                prompt = slots.choice(_INSIDE, labels=listed, text=text)
                return Example(self.name, prompt, answer, kind=slots.kind("labels"))
            ask, kind = slots.choice(_LABELS, labels=listed), "labels"
        return Example(self.name, _placed(slots, ask, text), answer, kind=slots.kind(kind))

    def grade(self, example: Example, text: str) -> bool:
        """Accepts the label, or those of all lines, in whatever case, with or without a mark."""
        return same_labels(text, example.answer)

    def _asked(self, slots: Slots, mood: str) -> Example:
        """Positive, negative or neutral, whether the request says so or not."""
        rng = slots.rng
        ask, text = slots.choice(_ASK), draw_text(slots, mood)
        if mood == "neutral" and "neutral" not in ask and " or " in ask:
            ask = "~Is this positive, negative or neutral"
        if rng.random() < _PLACED_SHARE:
            prompt = place(slots, f"{ask}{'?' if _asks(ask) and rng.random() < 0.8 else ''}", text)
        elif rng.random() < 0.5:
            prompt = slots.frame(ask, text)
        else:
            prompt = f"{ask.removeprefix('~').rstrip('?:')}{rng.choice((': ', ': ', chr(10)))}{text}"
        answer = mood[:3] if mood != "neutral" and _SHORTENED.search(ask) else mood
        return Example(self.name, prompt, answer, kind=slots.kind(mood))

    def _several(self, slots: Slots) -> Example:
        """A label for each of several texts."""
        rng = slots.rng
        neutral = rng.random() < 0.15
        moods = [
            rng.choice(_MOODS if neutral else _MOODS[:2]) for _ in range(rng.choices((2, 3, 4), (0.55, 0.33, 0.12))[0])
        ]
        names = _MOODS if neutral else rng.choice((_MOODS[:2], _MOODS[:2], rng.choice(_OTHER_LABELS)))
        labels = list(names)
        if rng.random() < 0.25:
            labels.reverse()
        short = rng.random() < 0.6
        texts = differing(lambda mood: draw_text(slots, mood, short=short), moods)
        ask = slots.choice(SEVERAL, labels=rng.choice(_CHOICES).write(labels))
        prompt, answer = several(slots, ask, texts, [names[_MOODS.index(mood)] for mood in moods])
        return Example(self.name, prompt, answer, kind=slots.kind("several"))

    def _which(self, slots: Slots, mood: str) -> Example:
        """Which of two texts, or of three, is the one of a mood: by its mark, or the text itself."""
        rng = slots.rng
        count = 2 if rng.random() < 0.88 else 3
        place_of_it = rng.randrange(count)
        other = _MOODS[mood == "positive"]
        moods = [mood if i == place_of_it else other for i in range(count)]
        texts = differing(lambda mood: draw_text(slots, mood, short=rng.random() < 0.5), moods)
        marks = draw_marks(rng, count, named=rng.random() < 0.8)
        label = rng.choice(_ADJECTIVES)[mood == "negative"]
        if marks.names:
            named = _OR.write(marks.names)
            ask = slots.choice(_WHICH if rng.random() < 0.5 else _WHICH_MARK, label=label, marks=named)
        else:
            ask = slots.choice(_WHICH, label=label)
        answer = marks.names[place_of_it] if marks.names else texts[place_of_it]
        return Example(self.name, with_list(slots, ask, marks.write(texts)), answer, kind=slots.kind("which"))


def _asks(ask: str) -> bool:
    """Whether a request may end with a question mark."""
    return ask[0] == "~" and not _TOLD.match(ask)


def _labels(slots: Slots, mood: str) -> tuple[list[str], str]:
    """Labels to choose from that the request names, other words for both, or all three; and the right one."""
    rng = slots.rng
    if mood == "neutral":
        labels, answer = list(_MOODS), mood
    else:
        pair = _MOODS[:2] if rng.random() < _PLAIN_PAIR_SHARE else rng.choice(_OTHER_LABELS)
        pair = rng.choice(_SIGNS) if rng.random() < _SIGNS_SHARE else pair
        answer = pair[mood == "negative"]
        labels = [*pair, "neutral"] if pair == _MOODS[:2] and rng.random() < 0.3 else list(pair)
    if rng.random() < 0.3:
        labels.reverse()
    return labels, answer


def _coded(slots: Slots, mood: str) -> tuple[str, str]:
    """A request that says what to answer for each, and the answer."""
    rng = slots.rng
    codes = tuple(slots.words(2)) if rng.random() < _WORD_CODE_SHARE else rng.choice(_CODE_PAIRS)
    said = rng.choice(_CODED)
    order = rng.choice(((0, 1), (0, 1), (1, 0)))
    first, second = order
    ask = slots.choice(_CODES, c1=codes[first], c2=codes[second], l1=said[first], l2=said[second])
    return ask, codes[mood == "negative"]


def _placed(slots: Slots, ask: str, text: str) -> str:
    """The request with the text before or behind it, now and then in quotes."""
    if slots.rng.random() < _PLACED_SHARE:
        return place(slots, ask, text)
    if '"' not in text and slots.rng.random() < 0.15:
        text = f'"{text}"'
    return slots.frame(ask, text)
