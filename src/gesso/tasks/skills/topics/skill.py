"""Asks which of the topics that the request names a text is about, or whether it is about one; of several, too."""

from typing import ClassVar

from gesso.tasks.base import Example
from gesso.tasks.skills.labelled_texts import SEVERAL, differing, draw_marks, place, same_labels, several, with_list
from gesso.tasks.skills.layouts import Layout
from gesso.tasks.skills.patterns import read_phrasings, says_below
from gesso.tasks.skills.skill import Skill
from gesso.tasks.skills.slots import Slots
from gesso.tasks.skills.topics.texts import PHRASINGS, draw_text
from gesso.tasks.skills.topics.words import Topic, apart

_ASK = read_phrasings("topics", "ask")
_YES = read_phrasings("topics", "yes")
_INSIDE = read_phrasings("topics", "inside")
_CODES = read_phrasings("topics", "codes")
_WHICH, _WHICH_MARK = read_phrasings("topics", "which"), read_phrasings("topics", "which by mark")
_KIND_SHARES = {"asked": 0.5, "yes": 0.1, "several": 0.12, "which": 0.08, "inside": 0.14, "codes": 0.06}
_DESK_SHARE = 0.12
_COUNTS, _COUNT_SHARES = (2, 3, 4), (0.55, 0.3, 0.15)
_TEXTS_SHARES = (0.55, 0.33, 0.12)
"""Shares of two, three and four texts, where there are several."""
_PLACED_SHARE = 0.35
"""Share of the texts that stand as `place` puts them."""
_CODE_PAIRS = (("1", "2"), ("1", "2"), ("1", "0"), ("0", "1"), ("A", "B"), ("A", "B"), ("a", "b"), ("x", "y"))
_USUAL = (Layout(", ", last=" or "), Layout(", "))
_PAIRED = (Layout(" or ", item='"{}"'), Layout(" or ", item="'{}'"))
"""Layouts of two topics."""
_CHOICES = (
    Layout(", "), Layout(" / "), Layout("/"), Layout("/"), Layout(" | "), Layout(" vs "), Layout(", ", whole="[{}]"),
    Layout(", ", whole="({})"), Layout(", ", whole="{{{}}}"), Layout(", ", whole="[{}]", item="'{}'"), *_PAIRED,
)  # fmt: skip


class Topics(Skill):
    """Asks such as `Is this about sports or food? Grelmo asked for a bowl of soup.` -> `food`."""

    name = "topics"
    shouted = True
    phrasings: ClassVar = {
        "ask": _ASK, "yes": _YES, "several": SEVERAL, "inside": _INSIDE, "codes": _CODES, "which": _WHICH,
        "which by mark": _WHICH_MARK, **PHRASINGS,
    }  # fmt: skip

    def draw(self, slots: Slots) -> Example:
        """Draws a sentence with words of a topic, or a plain one, and two to four topics to choose from; or several."""
        rng = slots.rng
        kind = rng.choices(tuple(_KIND_SHARES), tuple(_KIND_SHARES.values()))[0]
        topics = apart(rng, rng.choices(_COUNTS, _COUNT_SHARES)[0], at_desk=rng.random() < _DESK_SHARE)
        about = rng.choice(topics)
        names = {topic.names[0]: topic.names[0] if rng.random() < 0.5 else rng.choice(topic.names) for topic in topics}
        if (drawn := rng.random()) < 0.14:
            names = {topic: name.capitalize() if drawn < 0.1 else name.upper() for topic, name in names.items()}
        if kind == "several":
            return self._several(slots, topics if rng.random() < 0.5 else topics[:2], names)
        if kind == "which":
            return self._which(slots, topics[:2], names)
        if kind == "codes":
            return self._coded(slots, topics[:2], names)
        text = draw_text(slots, about, topics, distracted=kind != "yes")
        if kind == "yes":
            asked = rng.choice(topics[:2])
            answer = "yes" if asked == about else "no"
            ask = slots.choice(_YES, label=names[asked.names[0]])
        else:
            answer = names[about.names[0]]
            labels = _listed(slots, list(names.values()))
            if kind == "inside" and '"' not in text:
                prompt = slots.choice(_INSIDE, labels=labels, text=text)
                return Example(self.name, prompt, answer, kind=slots.kind("inside"))
            ask, kind = slots.choice(_ASK, labels=labels), str(len(topics))
        return Example(self.name, _put(slots, ask, text), answer, kind=slots.kind(kind))

    def grade(self, example: Example, text: str) -> bool:
        """Accepts the topic, or those of all lines, in whatever case, with or without a mark."""
        return same_labels(text, example.answer)

    def _coded(self, slots: Slots, topics: list[Topic], names: dict[str, str]) -> Example:
        """Which of two codes stands for the topic."""
        rng = slots.rng
        about = rng.choice(topics)
        codes = rng.choice(_CODE_PAIRS)
        first, second = (names[topic.names[0]] for topic in topics)
        ask = slots.choice(_CODES, l1=first, l2=second, c1=codes[0], c2=codes[1])
        prompt = _put(slots, ask, draw_text(slots, about, topics))
        return Example(self.name, prompt, codes[topics.index(about)], kind=slots.kind("codes"))

    def _several(self, slots: Slots, topics: list[Topic], names: dict[str, str]) -> Example:
        """The topic of each of several texts."""
        rng = slots.rng
        abouts = [rng.choice(topics) for _ in range(rng.choices(_COUNTS, _TEXTS_SHARES)[0])]
        texts = differing(lambda about: draw_text(slots, about, topics, short=True), abouts)
        ask = slots.choice(SEVERAL, labels=_listed(slots, [names[topic.names[0]] for topic in topics]))
        prompt, answer = several(slots, ask, texts, [names[about.names[0]] for about in abouts])
        return Example(self.name, prompt, answer, kind=slots.kind("several"))

    def _which(self, slots: Slots, topics: list[Topic], names: dict[str, str]) -> Example:
        """Which of two texts, or of three, is about a topic: by its mark, or the text itself."""
        rng = slots.rng
        about, other = topics
        count = 2 if rng.random() < 0.88 else 3
        place_of_it = rng.randrange(count)
        abouts = [about if i == place_of_it else other for i in range(count)]
        texts = differing(lambda topic: draw_text(slots, topic, [about], short=True), abouts)
        marks = draw_marks(rng, count, named=rng.random() < 0.8)
        named = Layout(", ", last=" or ").write(marks.names) if marks.names else ""
        asked = _WHICH_MARK if named and rng.random() < 0.5 else _WHICH
        ask = slots.choice(asked, label=names[about.names[0]], marks=named)
        answer = marks.names[place_of_it] if named else texts[place_of_it]
        return Example(self.name, with_list(slots, ask, marks.write(texts)), answer, kind=slots.kind("which"))


def _put(slots: Slots, ask: str, text: str) -> str:
    """The request with the text as people put it, or simply behind or before it, now and then in quotes."""
    rng = slots.rng
    if rng.random() < _PLACED_SHARE and "\n" not in ask:
        return place(slots, ask, text)
    if rng.random() < 0.15:
        text = f'"{text}"' if '"' not in text else text
    gap = rng.choice((" ", "\n", "\n\n")[("\n" in ask) :])
    if says_below(ask) or rng.random() < 0.6:
        ask = f"{ask[:-1]}:" if gap == " " and ask.endswith((".", "?")) and rng.random() < 0.15 else ask
        ends = gap != " " or ask[-1] in ".?!:|=>)]"
        return f"{ask}{'' if ends else ':'}{gap}{text}"
    return f"{text}{gap if text[-1] in '.?!' else chr(10)}{ask}"


def _listed(slots: Slots, labels: list[str]) -> str:
    rng = slots.rng
    if rng.random() < 0.25:
        layout = rng.choice(_CHOICES)
        if layout not in _PAIRED or len(labels) == 2:
            return layout.write(labels)
    return _USUAL[rng.random() >= 0.7].write(labels)
