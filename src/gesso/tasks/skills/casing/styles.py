"""Asks to change the style of identifiers: one, a list of them, the keys of an object, or into words."""

import json
from collections.abc import Callable, Sequence

from gesso.tasks.skills.casing.style_names import ask_named
from gesso.tasks.skills.layouts import COMMAS, LINES, TIGHT, Layout
from gesso.tasks.skills.lexicon import is_unseen
from gesso.tasks.skills.patterns import Phrasings, read_phrasings
from gesso.tasks.skills.slots import Slots
from gesso.tasks.words import words_of

STYLE = read_phrasings("casing", "style")
STYLES = read_phrasings("casing", "styles")
KEYS = read_phrasings("casing", "keys")
SPLIT = read_phrasings("casing", "split")
_KINDS = ("style", "styles", "keys", "split")
_WEIGHTS = (0.76, 0.12, 0.07, 0.05)
_PARTS = words_of("""
    access account action active add address admin age agent alert alpha amount api app archive area array async auth
    author backup badge balance banner base batch beta bill body border box buffer build button byte cache call cart
    cell chart check child city class clear click client clock close cloud code color column command comment config
    content cookie copy cost count country create credit current customer data date day debug default delete delivery
    detail device dialog disk display domain draft email end entry env error event export fetch field file filter find
    first flag folder footer form from frame full get grid group handler has hash header height hidden home host http
    icon id image import index info init input invoice ip is item job join json key label last layout left length level
    limit line link list load local lock log login logo mail main map max media member menu message meta min mode
    model month move name nav new next node note number object of on open option order owner page parent parse pass
    path payment phone pixel player point post price print product profile queue quota rate raw read record refresh
    region remote remove report request reset response result role room root row rule run sale save scan score screen
    scroll search section select send server session set shape ship shop show side sign site size sort source speed
    stack start state status step stock stop store stream style submit sum sync tab table tag target task tax team temp
    test text theme time timeout title to token tool top total track tree type unit update upload uri url user valid
    value vector version view visible web week width window with word worker write year zip zone ms uuid pdf html css
    xml sql csv utf8 md5 sha256 v2 x1 y2 h1
""")
_LOOSE_SHARE = 0.5
"""Words with spaces between them that stand in quotes within a request."""
_NAMED_SHARE = 0.22
"""Styles that are not called by their full name."""
_Write = Callable[[Sequence[str]], str]


def _pascal(words: Sequence[str]) -> str:
    return "".join(word.capitalize() for word in words)


def _camel(words: Sequence[str]) -> str:
    return words[0] + _pascal(words[1:])


_STYLES: dict[str, tuple[float, str, _Write]] = {
    "snake": (0.2, "[snake_case|snake_case|snake case|snake case|lower_snake_case|lower snake case]", "_".join),
    "camel": (0.2, "[camelCase|camelCase|camel case|camel case|lowerCamelCase|lower camel case]", _camel),
    "pascal": (0.18, "[PascalCase|PascalCase|Pascal case|pascal case|UpperCamelCase|upper camel case]", _pascal),
    "kebab": (0.16, "[kebab-case|kebab-case|kebab case|kebab case|dash-case|spinal-case]", "-".join),
    "constant": (
        0.14,
        "[CONSTANT_CASE|constant case|SCREAMING_SNAKE_CASE|screaming snake case|SCREAMING_SNAKE|UPPER_SNAKE_CASE]",
        lambda words: "_".join(words).upper(),
    ),
    "dot": (0.06, "[dot.case|dot case]", ".".join),
    "train": (0.06, "[Train-Case|Train-Case|train case]", lambda words: "-".join(map(str.capitalize, words))),
}
"""How often each is asked for, what it is called, and how it is written."""
_APART = ("snake", "kebab", "constant", "dot", "train")
"""Styles that show where a number begins."""
_LAYOUTS = (LINES, LINES, LINES, COMMAS, COMMAS, TIGHT, Layout("\n", item="- {}"), Layout("; "), Layout(" "))


def ask_style(slots: Slots) -> tuple[str, str, str]:
    """Asks for identifiers in another style: the prompt, the answer and the kind."""
    kind = slots.rng.choices(_KINDS, _WEIGHTS)[0]
    asks: dict[str, Callable[[Slots], tuple[str, str]]] = {
        "style": _one,
        "styles": _several,
        "keys": _keys,
        "split": _split,
    }
    return *asks[kind](slots), kind


def _one(slots: Slots) -> tuple[str, str]:
    rng = slots.rng
    words = _words(slots, rng.choices((2, 3, 4), (0.4, 0.4, 0.2))[0])
    numbered = rng.random() < 0.14
    if numbered:
        words[rng.choice((-1, -1, -1, 1))] = str(slots.number(2))
    old, new = _two_styles(slots)
    spaced = rng.random() < 0.3 or (numbered and old not in _APART)
    if spaced:
        apart = " ".join(words)
        given = apart if rng.random() < 0.7 else apart.title() if not any(map(_mixed, words)) else apart.capitalize()
    else:
        given = _STYLES[old][2](words)
    loose = " " in given and rng.random() < _LOOSE_SHARE
    answer = _STYLES[new][2](words)
    if rng.random() < _NAMED_SHARE:
        example = _STYLES[new][2](_words(slots, 2))
        return ask_named(slots, given, "" if spaced else old, new, example, loose=loose), answer
    return slots.request(STYLE, given, loose=loose, style=_called(slots, new)), answer


def _several(slots: Slots) -> tuple[str, str]:
    """Two to five identifiers in one layout."""
    rng = slots.rng
    old, new = _two_styles(slots)
    layout = rng.choice(_LAYOUTS)
    # A single word among names with spaces between them could be a part of the name before it.
    shares = (0.1, 0.6, 0.3) if layout.separator != " " else (0, 0.7, 0.3)
    names = [_words(slots, rng.choices((1, 2, 3), shares)[0]) for _ in range(rng.randint(2, 5))]
    given, answer = (layout.answer([_STYLES[style][2](words) for words in names]) for style in (old, new))
    return slots.request(STYLES, given, style=_called(slots, new)), answer


def _keys(slots: Slots) -> tuple[str, str]:
    """The keys of an object, whose values stay as they are."""
    rng = slots.rng
    old, new = _two_styles(slots)
    while True:
        names = [_words(slots, rng.choices((1, 2, 3), (0.15, 0.65, 0.2))[0]) for _ in range(rng.randint(2, 4))]
        if len({tuple(words) for words in names}) == len(names) and any(len(words) > 1 for words in names):
            break
    values = [_value(slots) for _ in names]
    written = []
    form = rng.choices(("json", "indented", "lines"), (0.65, 0.15, 0.2))[0]
    for style in (old, new):
        keyed = {_STYLES[style][2](words): value for words, value in zip(names, values, strict=True)}
        if form == "lines":
            texts = {key: str(value).lower() if isinstance(value, bool) else value for key, value in keyed.items()}
            written.append("\n".join(f"{key}: {value}" for key, value in texts.items()))
        else:
            written.append(json.dumps(keyed, indent=2 if form == "indented" else None))
    return slots.request(KEYS, written[0], style=_called(slots, new)), written[1]


def _split(slots: Slots) -> tuple[str, str]:
    """The words of an identifier, with spaces between them."""
    words = _words(slots, slots.rng.randint(2, 4))
    return slots.request(SPLIT, _STYLES[slots.rng.choice(sorted(_STYLES))][2](words)), " ".join(words)


def _value(slots: Slots) -> str | int | bool:
    rng = slots.rng
    kind = rng.choices(("name", "number", "word", "city", "truth"), (0.3, 0.3, 0.2, 0.1, 0.1))[0]
    if kind == "number":
        return slots.number(3)
    if kind == "truth":
        return rng.random() < 0.5
    return {"name": slots.first_name, "word": slots.word, "city": slots.city}[kind]()


def _words(slots: Slots, count: int) -> list[str]:
    """Draws the parts of an identifier: most often what programs have, or any short words."""
    rng = slots.rng
    if slots.unseen or rng.random() < 0.45:
        return [slots.stem() for _ in range(count)]
    while True:
        words = [rng.choice(_PARTS) if rng.random() < 0.8 else slots.stem() for _ in range(count)]
        if len(set(words)) == count and not any(map(is_unseen, words)) and not _mixed(words[0]):
            return words


def _mixed(word: str) -> bool:
    return any(map(str.isdigit, word))


def _two_styles(slots: Slots) -> tuple[str, str]:
    """Draws the style of what is given, each equally often, and another one."""
    names = sorted(_STYLES)
    new = slots.rng.choices(names, [_STYLES[name][0] for name in names])[0]
    return slots.rng.choice([name for name in names if name != new]), new


def _called(slots: Slots, style: str) -> str:
    called = _STYLES[style][1]
    return slots.choice(Phrasings((called,), (called,)))
