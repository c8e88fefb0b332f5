"""Asks for two replacements at once, or for one of several places alone."""

from gesso.tasks.skills.articles import with_articles
from gesso.tasks.skills.entries import draw_entries, draw_numbers
from gesso.tasks.skills.layouts import COMMAS, LINES, SPACES, TIGHT, Layout, draw_layout
from gesso.tasks.skills.patterns import read_phrasings
from gesso.tasks.skills.quotes import vary_quotes
from gesso.tasks.skills.replacing.placing import asked
from gesso.tasks.skills.replacing.prose import draw_pairs, draw_places
from gesso.tasks.skills.replacing.texts import unfit
from gesso.tasks.skills.slots import Slots

TWO = read_phrasings("replacing", "two")
ONE = read_phrasings("replacing", "one")
REMOVE_ONE = read_phrasings("replacing", "remove one")
ONE_SIGN = read_phrasings("replacing", "one sign")
_QUOTES = ('"{}"', '"{}"', "{}", "{}", "'{}'")
_SHORT = 4
"""Words of fewer letters could be taken for words of the request."""
_PLACES = ("first",) * 5 + ("last",) * 5 + ("second",) * 3 + ("1st", "2nd", "final", "third")
_SECOND, _THIRD, _LAST = ("second", "2nd"), ("third",), ("last", "final")
_SIMPLE = (COMMAS, COMMAS, SPACES, SPACES, SPACES, LINES)
_SIMPLE_SHARE = 0.6
_MARKS = {
    ",": ("comma", ", "), ";": ("semicolon", "; "), "-": ("hyphen", "-"), "_": ("underscore", "_"),
    "/": ("slash", "/"), ".": ("dot", "."), ":": ("colon", ":"),
}  # fmt: skip


def ask_two(slots: Slots) -> tuple[str, str]:
    """Asks to put two other things in the places of two, once or twice each, in a list, a sentence or prose."""
    rng = slots.rng
    form = rng.choices(("items", "sentence", "prose"), (0.55, 0.2, 0.25))[0]
    if form == "prose":
        text, answer, pairs = draw_pairs(slots)
    else:
        text, answer, pairs = (_items if form == "items" else _sentence)(slots)
    running = form != "items"
    quote = rng.choice(_QUOTES) if not running or rng.random() < 0.5 else '"{}"'
    if running and (min(len(old) for old, _ in pairs) < _SHORT or any(" " in new for _, new in pairs)):
        quote = '"{}"'
    (a, b), (c, d) = ((quote.format(old), quote.format(new)) for old, new in pairs)
    wide = quote != "{}" or not running
    names, without = {"a": a, "b": b, "c": c, "d": d}, unfit(a + c, running=running)
    prompt = asked(slots, TWO, text, names, loose=running, wide=wide, without=without)
    return vary_quotes(slots, prompt, text), answer


def _items(slots: Slots) -> tuple[str, str, list[tuple[str, str]]]:
    """Two to six items, most often words with commas or blanks between them, two of which are to go."""
    rng = slots.rng
    layout = _layout(slots)
    spaced = layout.separator != SPACES.separator and rng.random() < 0.3
    if rng.random() < 0.12:
        found = [text for _, text in draw_numbers(slots, 6, spaced=False)]
    else:
        found = draw_entries(slots, 6, spaced=spaced, copied=True)
    *pair, first, second, third, fourth = found
    given = (
        pair + rng.choices(pair, k=rng.choice((0, 0, 1, 1, 2))) + rng.sample([third, fourth], rng.choice((0, 1, 1, 2)))
    )
    rng.shuffle(given)
    turned = dict(zip(pair, (first, second), strict=True))
    return layout.answer(given), layout.answer([turned.get(word, word) for word in given]), list(turned.items())


def _sentence(slots: Slots) -> tuple[str, str, list[tuple[str, str]]]:
    """A plain sentence of which two words are to go, one of them twice now and then."""
    rng = slots.rng
    given = slots.plain_sentence()
    lowered = [word.lower() for word in given]
    alone = [word for word in given if lowered.count(word.lower()) == 1]
    if len(alone) < 2:
        given = alone = slots.words(4)
    long = [word for word in alone if len(word) >= _SHORT]
    pair = rng.sample(long if len(long) > 1 and rng.random() < 0.7 else alone, 2)
    if rng.random() < 0.2:
        given.insert(rng.randint(1, len(given)), rng.choice(pair))
    entries = slots.words(2)
    if set(entries) & set(map(str.lower, given)):
        return _sentence(slots)
    turned = dict(zip(pair, entries, strict=True))
    return " ".join(given), " ".join(turned.get(word, word) for word in given), list(turned.items())


def ask_one(slots: Slots) -> tuple[str, str]:
    """Asks to replace or remove the first, the second or the last of a thing that stands there twice or more."""
    rng = slots.rng
    form = rng.choices(("items", "prose", "sign"), (0.6, 0.25, 0.15))[0]
    if form == "sign":
        return _one_sign(slots)
    which = rng.choice(_PLACES)
    remove = form == "items" and rng.random() < 0.25
    if form == "prose":
        parts, old = draw_places(slots)
        which = "last" if which in _THIRD and len(parts) < 4 else which
        place = _place(which, len(parts) - 1)
        new = slots.word() if old[0].islower() else slots.first_name()
        new = str(slots.number(3)) if old.isdigit() else new
        if new == old:
            return ask_one(slots)
        text = old.join(parts)
        answer = old.join(parts[: place + 1]) + new + old.join(parts[place + 1 :])
        running = True
    else:
        text, answer, old, new, running = _one_item(slots, which, remove=remove)
    quote = rng.choice(_QUOTES) if not running or rng.random() < 0.5 else '"{}"'
    if running and " " in old:
        quote = '"{}"'
    names = {"old": quote.format(old), "new": quote.format(new), "which": which}
    without = unfit(old, running=running)
    ask, wide = REMOVE_ONE if remove else ONE, quote != "{}" or not running
    prompt = asked(slots, ask, text, names, loose=running, wide=wide, without=without)
    return vary_quotes(slots, prompt, text), answer


def _one_item(slots: Slots, which: str, *, remove: bool) -> tuple[str, str, str, str, bool]:
    """Items or a plain sentence with one of them two to four times: the text, the answer, what goes, what comes, and
    whether it is running text."""
    rng = slots.rng
    layout = _layout(slots)
    running = layout == SPACES and rng.random() < 0.3
    if running:
        old, new = slots.words(2)
        given = [word for word in slots.plain_sentence() if word.lower() not in (old, new)]
    else:
        spaced = layout.separator != SPACES.separator and rng.random() < 0.3
        old, new, *given = draw_entries(slots, rng.choice((3, 3, 4, 4, 5)), spaced=spaced, copied=True)
        if rng.random() < 0.12:
            given = []
    least = 3 if which in (*_SECOND, *_THIRD) or not given else 2
    for _ in range(rng.choice((least, least, least + 1))):
        first = 1 if running and given and not given[0].islower() else 0
        given.insert(rng.randint(first, len(given)), old)
    places = [place for place, word in enumerate(given) if word == old]
    place = places[_place(which, len(places))]
    kept = given[:place] + ([] if remove else [new]) + given[place + 1 :]
    return layout.answer(given), layout.answer(kept), old, new, running or layout == SPACES


def _one_sign(slots: Slots) -> tuple[str, str]:
    """One of several letters of a word, or of several signs between words."""
    rng = slots.rng
    if rng.random() < 0.5:
        while True:
            text = slots.word()
            often = [letter for letter in set(text) if text.count(letter) > 1 and letter.isascii() and letter.isalpha()]
            if often:
                break
        old = rng.choice(sorted(often))
        new = rng.choice([letter for letter in "abcdefghiklmnoprstuvwz" if letter != old])
        called = rng.choice(((old, new), (f'"{old}"', f'"{new}"')))
    else:
        old, new = rng.sample(sorted(_MARKS), 2)
        name, joint = _MARKS[old]
        text = joint.join(slots.words(rng.choice((3, 3, 4))))
        called = rng.choice(((name, with_articles(f"a {_MARKS[new][0]}")), (f'"{old}"', f'"{new}"')))
    parts = text.split(old)
    which = rng.choice(("first", "first", "last", "last", "second"))
    place = _place(which, len(parts) - 1)
    answer = old.join(parts[: place + 1]) + new + old.join(parts[place + 1 :])
    prompt = asked(slots, ONE_SIGN, text, {"old": called[0], "new": called[1], "which": which}, wide=True)
    return vary_quotes(slots, prompt, text), answer


def _layout(slots: Slots) -> Layout:
    """Draws a layout, most often commas, blanks or lines."""
    rng = slots.rng
    layout: Layout = rng.choice(_SIMPLE) if rng.random() < _SIMPLE_SHARE else draw_layout(rng)
    return COMMAS if layout == TIGHT else layout


def _place(which: str, count: int) -> int:
    """Returns which of so many places is meant, from 0."""
    if which in _LAST:
        return count - 1
    return 1 if which in _SECOND else 2 if which in _THIRD else 0
