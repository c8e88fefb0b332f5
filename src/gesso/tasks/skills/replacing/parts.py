"""Asks for two replacements at once, or for one of several places alone."""

from gesso.tasks.skills.entries import draw_entries
from gesso.tasks.skills.layouts import COMMAS, SPACES, TIGHT, draw_layout
from gesso.tasks.skills.patterns import read_phrasings
from gesso.tasks.skills.quotes import vary_quotes
from gesso.tasks.skills.replacing.texts import unfit
from gesso.tasks.skills.slots import Slots

TWO = read_phrasings("replacing", "two")
ONE = read_phrasings("replacing", "one")
REMOVE_ONE = read_phrasings("replacing", "remove one")
_QUOTES = ('"{}"', '"{}"', "{}", "{}", "'{}'")
_SHORT = 4
"""Words of fewer letters could be taken for words of the request."""
_PLACES = ("first", "first", "last", "last", "second", "1st")


def ask_two(slots: Slots) -> tuple[str, str]:
    """Asks to put two other things in the places of two, once or twice each, in a list or in a sentence."""
    rng = slots.rng
    layout = draw_layout(rng)
    sentence = layout == SPACES or rng.random() < 0.35
    if sentence:
        given = slots.plain_sentence()
        entries = slots.words(2)
        lowered = [word.lower() for word in given]
        alone = [word for word in given if lowered.count(word) == 1]
        if len(alone) < 2:
            given = alone = slots.words(4)
        pair = rng.sample(alone, 2)
        if rng.random() < 0.3:
            given.insert(rng.randint(0, len(given)), rng.choice(pair))
    else:
        layout = COMMAS if layout == TIGHT else layout
        *pair, first, second, third, fourth = draw_entries(slots, 6, copied=True)
        entries = [first, second]
        given = pair + rng.choices(pair, k=rng.randint(0, 2)) + rng.sample([third, fourth], rng.randint(0, 2))
        rng.shuffle(given)
    if set(entries) & set(given):
        return ask_two(slots)
    turned = dict(zip(pair, entries, strict=True))
    layout = SPACES if sentence else layout
    text, answer = layout.answer(given), layout.answer([turned.get(word, word) for word in given])
    quote = rng.choice(_QUOTES) if not sentence or rng.random() < 0.5 else '"{}"'
    if sentence and min(map(len, pair)) < _SHORT:
        quote = '"{}"'
    (a, b), (c, d) = ((quote.format(old), quote.format(turned[old])) for old in pair)
    prompt = slots.request(TWO, text, loose=sentence, without=unfit(a, running=sentence), a=a, b=b, c=c, d=d)
    return vary_quotes(slots, prompt, text), answer


def ask_one(slots: Slots) -> tuple[str, str]:
    """Asks to replace or remove the first, the second or the last of a thing that stands there twice or more."""
    rng = slots.rng
    layout = draw_layout(rng)
    sentence = layout == SPACES
    if sentence:
        old, new = slots.words(2)
        given = [word for word in slots.plain_sentence() if word.lower() not in (old, new)]
    else:
        layout = COMMAS if layout == TIGHT else layout
        old, new, *given = draw_entries(slots, rng.randint(4, 6), copied=True)
    which = rng.choice(_PLACES)
    for _ in range(rng.choice((2, 2, 3)) if which != "second" else 3):
        given.insert(rng.randint(0 if given[0].islower() or not sentence else 1, len(given)), old)
    places = [place for place, word in enumerate(given) if word == old]
    place = {"last": places[-1], "second": places[1]}.get(which, places[0])
    remove = rng.random() < 0.25
    kept = given[:place] + ([] if remove else [new]) + given[place + 1 :]
    quote = rng.choice(_QUOTES) if not sentence or rng.random() < 0.5 else '"{}"'
    text = layout.answer(given)
    names = {"old": quote.format(old), "new": quote.format(new), "which": which}
    ask = REMOVE_ONE if remove else ONE
    prompt = slots.request(ask, text, loose=sentence, without=unfit(old, running=sentence), **names)
    return vary_quotes(slots, prompt, text), layout.answer(kept)
