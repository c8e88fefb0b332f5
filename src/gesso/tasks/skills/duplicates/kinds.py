"""Draws what is asked of repetitions beside their removal from a list: the last of each, whatever the case, words that
stand twice in a sentence, letters of a word, two lists, and lists in code."""

from itertools import groupby, pairwise

from gesso.tasks.skills.duplicates.letters import LETTER_SECTIONS, ask_letters
from gesso.tasks.skills.entries import draw_entries
from gesso.tasks.skills.layouts import COMMAS, LINES, SPACES, Layout
from gesso.tasks.skills.patterns import read_phrasings
from gesso.tasks.skills.placing import placed_request
from gesso.tasks.skills.slots import Slots
from gesso.tasks.skills.wide_layouts import draw_wide_layout

MORE_SECTIONS = {
    name: read_phrasings("duplicates", name)
    for name in ("last", "case", "exact", "doubled", "sorted words", "sorted numbers",
                 "neighbours", "several", "most", "both", "merge", "code")
} | LETTER_SECTIONS  # fmt: skip
_SMALL = ("the", "to", "a", "and", "of", "in", "is", "was", "it", "that", "on", "for")
_SIMPLE, _SIMPLE_SHARE = (COMMAS, COMMAS, SPACES, SPACES, LINES), 0.6
_TELLING_SHARE = 0.85
"""How often the last of each are asked for where they are not in the order of the first."""
_SIDES = (COMMAS, COMMAS, COMMAS, SPACES, Layout(", ", whole="[{}]"), Layout("; "))


def draw_words(slots: Slots, count: int) -> tuple[list[str], Layout]:
    """Draws distinct words, names or codes of one word each, and how they are written."""
    return draw_entries(slots, count, spaced=False, copied=True), draw_wide_layout(slots.rng, numbered=False)


def repeat(slots: Slots, distinct: list[str]) -> list[str]:
    """Returns the items in a random order, one to four of them again."""
    given = distinct + slots.rng.choices(distinct, k=slots.rng.randint(1, 4))
    slots.rng.shuffle(given)
    return given


def last_of_each(slots: Slots) -> tuple[str, str]:
    """Keeps the last of each item, not the first."""
    rng = slots.rng
    distinct, layout = draw_words(slots, rng.choice((2, 2, 3, 3, 4, 5)))
    if rng.random() < _SIMPLE_SHARE:
        layout = rng.choice(_SIMPLE)
    if rng.random() < 0.2:
        distinct = [str(n) for n in slots.numbers(len(distinct), 2)]
        layout = COMMAS if layout.separator not in (", ", " ", "\n") else layout
    given = distinct + rng.choices(distinct, k=rng.choice((1, 1, 2, 2, 3)))
    rng.shuffle(given)
    kept = list(dict.fromkeys(given[::-1]))[::-1]
    if kept == list(dict.fromkeys(given)) and rng.random() < _TELLING_SHARE:
        return last_of_each(slots)
    return _ask(slots, "last", given, layout), layout.answer(kept)


def any_case(slots: Slots) -> tuple[str, str]:
    """Takes a word in capitals and in small letters for the same."""
    rng = slots.rng
    layout = draw_wide_layout(rng, numbered=False)
    given = [
        rng.choice((word, word, word.capitalize(), word.capitalize(), word.upper()))
        for word in repeat(slots, slots.words(rng.randint(2, 4)))
    ]
    first: dict[str, str] = {}
    for word in given:
        first.setdefault(word.lower(), word)
    return _ask(slots, "case", given, layout), layout.answer(list(first.values()))


def exact(slots: Slots) -> tuple[str, str]:
    """Takes a word in capitals and in small letters for two."""
    rng = slots.rng
    layout = rng.choice(_SIMPLE) if rng.random() < _SIMPLE_SHARE else draw_wide_layout(rng, numbered=False)
    word, *others = slots.words(rng.choice((2, 2, 3)))
    forms = rng.sample((word, word.capitalize(), word.upper()), rng.choice((2, 2, 3)))
    given = forms + others + rng.choices(forms, k=rng.choice((1, 1, 2)))
    rng.shuffle(given)
    return _ask(slots, "exact", given, layout), layout.answer(list(dict.fromkeys(given)))


def doubled_words(slots: Slots) -> tuple[str, str]:
    """Draws a sentence in which words stand twice in a row, by mistake."""
    rng = slots.rng
    while True:
        words = slots.prose().split() if rng.random() < 0.7 else slots.plain_sentence()
        places = [place for place, word in enumerate(words) if word.isalpha()]
        if len(places) > 1 and all(one.lower() != two.lower() for one, two in pairwise(words)):
            break
    small = [place for place in places if words[place].lower() in _SMALL]
    chosen = set(rng.sample(places, min(len(places), rng.choice((1, 1, 2, 2, 3)))))
    if small and rng.random() < 0.5:
        chosen.add(rng.choice(small))
    given = []
    for place, word in enumerate(words):
        again = word.lower() if place == 0 and rng.random() < 0.8 else word
        given += [word, again] if place in chosen else [word]
    return placed_request(slots, MORE_SECTIONS["doubled"], " ".join(given), loose=True), " ".join(words)


def sorted_once(slots: Slots) -> tuple[str, str]:
    """Asks for each once, and in order."""
    rng = slots.rng
    layout = rng.choice((COMMAS, COMMAS, SPACES, LINES))
    if rng.random() < 0.5:
        given = repeat(slots, slots.words(rng.randint(2, 5)))
        kept, asked = sorted(set(given)), "sorted words"
    else:
        given = repeat(slots, [str(n) for n in slots.numbers(rng.randint(2, 5), rng.choice((1, 2, 3)))])
        kept, asked = sorted(set(given), key=int), "sorted numbers"
    return _ask(slots, asked, given, layout), layout.answer(kept)


def neighbours(slots: Slots) -> tuple[str, str]:
    """Removes only what stands behind its like."""
    distinct, layout = draw_words(slots, slots.rng.randint(2, 3))
    given = []
    for item in repeat(slots, distinct):
        given += [item] * slots.rng.choice((1, 1, 2, 2, 3))
    return _ask(slots, "neighbours", given, layout), layout.answer([item for item, _ in groupby(given)])


def several_repeated(slots: Slots) -> tuple[str, str]:
    """Asks which items are there more than once: two of them, now and then one or three."""
    rng = slots.rng
    distinct, layout = draw_words(slots, rng.randint(3, 6))
    again = rng.sample(distinct, min(len(distinct) - 1, rng.choices((1, 2, 3), (0.15, 0.6, 0.25))[0]))
    given = distinct + again + (rng.choices(again) if rng.random() < 0.3 else [])
    rng.shuffle(given)
    return _ask(slots, "several", given, layout), _few([item for item in dict.fromkeys(given) if item in again], layout)


def most_often(slots: Slots) -> tuple[str, str]:
    """Asks which item is there most often."""
    rng = slots.rng
    distinct, layout = draw_words(slots, rng.randint(2, 5))
    most = rng.randint(2, 4)
    given = [distinct[0]] * most
    for item in distinct[1:]:
        given += [item] * rng.randint(1, most - 1)
    rng.shuffle(given)
    return _ask(slots, "most", given, layout), distinct[0]


def two_lists(slots: Slots) -> tuple[str, str]:
    """Asks what two lists have in common, or what both together have."""
    rng = slots.rng
    layout = rng.choice(_SIDES)
    words = slots.items(rng.randint(4, 7))
    common = words[: rng.randint(1, 3)]
    own = words[len(common) :]
    cut = rng.randint(1, len(own) - 1) if len(own) > 1 else 1
    one, two = common + own[:cut], common + own[cut:]
    rng.shuffle(one)
    rng.shuffle(two)
    asked = "both" if rng.random() < 0.6 else "merge"
    prompt = slots.choice(MORE_SECTIONS[asked], one=layout.answer(one), two=layout.answer(two)).lstrip("~")
    if asked == "both":
        return prompt, _few([item for item in one if item in two], layout)
    return prompt, layout.answer(list(dict.fromkeys(one + two)))


def code(slots: Slots) -> tuple[str, str]:
    """Draws a list in Python, whose different values are asked for."""
    rng = slots.rng
    if rng.random() < 0.5:
        given = repeat(slots, [str(n) for n in slots.numbers(rng.randint(2, 4), 2)])
    else:
        quote = rng.choice(("'", '"'))
        given = [f"{quote}{word}{quote}" for word in repeat(slots, slots.words(rng.randint(2, 4)))]
    joint = "," if rng.random() < 0.2 else ", "
    text = slots.choice(MORE_SECTIONS["code"], list=f"[{joint.join(given)}]", name=slots.identifier(1))
    return text, f"[{joint.join(dict.fromkeys(given))}]"


def _ask(slots: Slots, asked: str, given: list[str], layout: Layout) -> str:
    """Draws a prompt about a list."""
    return placed_request(
        slots, MORE_SECTIONS[asked], layout.write(given), count=len(given), loose=layout == SPACES,
        joint=layout.separator,
    )  # fmt: skip


def _few(found: list[str], layout: Layout) -> str:
    """Writes one item alone, several as the list is written."""
    return layout.answer(found) if len(found) > 1 else found[0]


MORE_KINDS = {
    "last": last_of_each,
    "case": any_case,
    "exact": exact,
    "doubled": doubled_words,
    "letters": ask_letters,
    "sorted": sorted_once,
    "neighbours": neighbours,
    "several": several_repeated,
    "most": most_often,
    "two lists": two_lists,
    "code": code,
}
