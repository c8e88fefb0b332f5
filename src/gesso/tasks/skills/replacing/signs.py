"""Asks to replace or remove signs, letters and digits."""

import re
from collections.abc import Callable

from gesso.tasks.skills.entries import draw_entries
from gesso.tasks.skills.lexicon import is_unseen
from gesso.tasks.skills.patterns import Phrasings, read_phrasings
from gesso.tasks.skills.quotes import vary_quotes
from gesso.tasks.skills.replacing.placing import TRIES, is_cut
from gesso.tasks.skills.slots import Slots

CHARACTERS = read_phrasings("replacing", "characters")
DROP = read_phrasings("replacing", "drop")
KEEP = read_phrasings("replacing", "keep")
_SIGNS = {
    ",": "comma", ";": "semicolon", ":": "colon", ".": "full stop", "!": "exclamation mark", "?": "question mark",
    " ": "space", "_": "underscore", "-": "hyphen", "/": "slash", "&": "ampersand", "@": "at sign", "#": "hash sign",
    "|": "pipe", "*": "asterisk", "+": "plus sign", "=": "equals sign", "'": "apostrophe", "\\": "backslash",
}  # fmt: skip
_OTHER_NAMES = {"-": "dash", ".": "period", ":": "colon", "_": "underscore"}
_WORDS = {"&": "and", "+": "plus", "@": "at", "=": "equals", "/": "or", "%": "percent", "#": "number", "-": "to"}
_SIGNS_IN_PROSE = 0.35
_CALLS_SHARE = 0.15
_BARE_SIGNS = ('"{}"', '"{}"', "'{}'", "{}", "{}")
_JOINED = (", ", "; ", ": ", "_", "-", "/", " & ", " | ", "+", " - ", ".", "@", "#", "=", " ")
"""Ways of putting words together with a sign."""
_DOUBLED = re.compile(
    r"\b(?:all of the|all the|every single one of the|every one of the|the|any|all|these|its) the (letter|digit|word)\b"
)
_FEW = 4
"""Texts of more words could be taken for words of the request."""
_VOWEL = "[aeiou]"
_CLASSES = {"digit": "[0-9]", "number": "[0-9]", "vowel": _VOWEL, "letter": "[A-Za-z]", "space": " "}


class _Called:
    """Holds what a request calls a sign: one of them, all of them."""

    def __init__(self, one: str, every: str, single: str) -> None:
        self.one, self.every, self.single = one, every, single


def ask_signs(slots: Slots) -> tuple[str, str, str]:
    """Asks to replace or remove a sign, a letter or all digits: the prompt, the answer and the kind."""
    rng = slots.rng
    kinds: tuple[Callable[[Slots], tuple[str, str, str]], ...] = (_signs, _letters, _forms, _spelled, _class)
    return rng.choices(kinds, (0.34, 0.3, 0.17, 0.06, 0.13))[0](slots)


def _signs(slots: Slots) -> tuple[str, str, str]:
    rng = slots.rng
    joint = rng.choice(_JOINED)
    old = joint.strip() or " "
    text = joint.join(draw_entries(slots, rng.randint(2, 5), spaced=False))
    if rng.random() < _CALLS_SHARE:
        old = rng.choice(".!.!?")
        text = _calls(slots, old)
    elif rng.random() < _SIGNS_IN_PROSE:
        prose = slots.prose()
        signs = [sign for sign in _SIGNS if sign in prose and sign != "'"]
        marks = [sign for sign in signs if sign in "!?;,"]
        if signs and len(prose) < 90:
            text, old = prose, rng.choice(marks if marks and rng.random() < 0.6 else signs)
    return _changed(slots, text, old)


def _calls(slots: Slots, mark: str) -> str:
    """Two to four sentences of a word or two, all of which end in the same mark."""
    rng = slots.rng
    words = [rng.choice((" ".join(slots.words(2)), slots.word(), slots.word())) for _ in range(rng.randint(2, 4))]
    return " ".join(f"{word.capitalize()}{mark}" for word in words)


def _forms(slots: Slots) -> tuple[str, str, str]:
    """Signs in dates, numbers, paths and names of files."""
    rng = slots.rng
    kind = rng.choice(("date", "phone", "file", "path", "number", "mail", "version"))
    sign = rng.choice("-./_ " if kind in ("date", "phone") else "-._")
    first, second, third = slots.words(3)
    if kind == "date":
        year = rng.choice((f"{rng.randint(0, 99):02}", str(rng.randint(1900, 2059))))
        parts = [f"{rng.randint(1, 28):02}", f"{rng.randint(1, 12):02}", year]
        text = sign.join(parts if rng.random() < 0.6 else parts[::-1])
    elif kind == "phone":
        text = sign.join(str(rng.randint(10, 9999)) for _ in range(rng.randint(3, 4)))
    elif kind == "file":
        text = sign.join((first, second, rng.choice((third, str(slots.number(3))))))
        text += rng.choice(("", ".txt", ".pdf", ".csv", ".jpg")) if sign != "." else ""
    elif kind == "path":
        sign = "/"
        text = rng.choice(("/{}/{}/{}", "{}/{}/{}", "/{}/{}", "{}/{}/{}.txt")).format(first, second, third)
    elif kind == "number":
        sign = rng.choice(",. ")
        text = sign.join([str(rng.randint(1, 99)), *(f"{rng.randint(0, 999):03}" for _ in range(rng.randint(1, 2)))])
    elif kind == "mail":
        sign = rng.choice("@.")
        text = f"{first}.{second}@{third}.com"
    else:
        sign = "."
        text = ".".join(str(rng.randint(0, 30)) for _ in range(3))
    return _changed(slots, text, sign)


def _changed(slots: Slots, text: str, old: str) -> tuple[str, str, str]:
    """One sign of the text for another, or none."""
    rng = slots.rng
    before = _called(slots, old)
    if rng.random() < 0.4:
        answer = re.sub(" +", " ", text.replace(old, "")).strip() if old != " " else text.replace(old, "")
        if answer:
            return _ask_drop(slots, text, before), answer, "drop"
    apart = f" {old}" in text or f"{old} " in text
    new = rng.choice([sign for sign in _SIGNS if sign != old and not (apart and sign == " ")])
    return _ask_change(slots, text, before, _called(slots, new)), text.replace(old, new).strip(), "signs"


def _letters(slots: Slots) -> tuple[str, str, str]:
    """A letter of a few words, replaced or removed; codes have digits that are replaced too."""
    rng = slots.rng
    text = " ".join(slots.words(rng.choice((1, 1, 1, 1, 2, 3))))
    digits = rng.random() < 0.2
    if digits:
        text = " ".join(draw_entries(slots, rng.choice((1, 1, 2)))) + str(rng.randint(100, 99999))
    found = [c for c in text if (c.isdigit() if digits else c in "abcdefghijklmnopqrstuvwxyz")]
    often = [c for c in found if found.count(c) > 1]
    old = rng.choice(often if often and rng.random() < 0.5 else found)
    new = rng.choice([c for c in ("0123456789" if digits else "abcdefghiklmnoprstuvwz") if c != old])
    if not digits and rng.random() < 0.15:
        new = rng.choice("0134578*#@_")
    what = "digit" if digits else "letter"
    before = rng.choice(
        (
            _Called(f"{what} {old}", f"the {what} {old}", old),
            _Called(f'"{old}"', f'"{old}"', old),
            _Called(old, f"{old}'s", old),
        )
    )
    if rng.random() < 0.25 and (answer := re.sub(" +", " ", text.replace(old, "")).strip()):
        return _ask_drop(slots, text, before), answer, "drop"
    quoted = before.one.startswith('"')
    after = f'"{new}"' if quoted else new
    prompt = _ask_change(slots, text, before, _Called(after, after, after), without="separat")
    return prompt, text.replace(old, new), "letters"


def _spelled(slots: Slots) -> tuple[str, str, str]:
    """A word for a sign between words, or a sign for the word."""
    rng = slots.rng
    sign = rng.choice(sorted(_WORDS))
    word = _WORDS[sign]
    entries = draw_entries(slots, rng.randint(2, 4), spaced=False)
    if word in (entry.lower() for entry in entries) or any(sign in entry for entry in entries):
        return _spelled(slots)
    quote = rng.choice(('"{}"', '"{}"', "{}")) if word not in ("to", "or", "at") else '"{}"'
    name = "percent sign" if sign == "%" else _SIGNS[sign]
    called = rng.choice((_Called(sign, sign, sign), _Called(f'"{sign}"', f'"{sign}"', sign)))
    if rng.random() < 0.4:
        called = _Called(name, f"{name}s" if not name.endswith("sh") else f"{name}es", sign)
    spelled = quote.format(word)
    as_word = rng.choice(
        (_Called(spelled, spelled, spelled), _Called(f"word {spelled}", f"the word {spelled}", spelled))
    )
    with_sign, with_word = f" {sign} ".join(entries), f" {word} ".join(entries)
    if rng.random() < 0.65:
        return _ask_change(slots, with_sign, called, _Called(spelled, as_word.every, spelled)), with_word, "signs"
    return _ask_change(slots, with_word, as_word, _Called(f'"{sign}"', f'"{sign}"', sign)), with_sign, "signs"


def _class(slots: Slots) -> tuple[str, str, str]:
    """All digits, letters, vowels or spaces of a text: removed, replaced by a sign, or kept alone."""
    rng = slots.rng
    name = rng.choices(("digit", "number", "vowel", "letter", "space"), (0.4, 0.15, 0.15, 0.1, 0.2))[0]
    if name in ("digit", "number", "letter"):
        texts = [_mixed(slots) for _ in range(rng.choice((1, 1, 1, 2, 3)))]
        text = rng.choice((", ", " ")).join(texts)
    else:
        text = " ".join(slots.words(rng.choice((2, 3, 4) if name == "space" else (1, 1, 2))))
        if name == "space" and rng.random() < 0.4:
            text = " ".join(str(rng.randint(10, 9999)) for _ in range(rng.randint(2, 4)))
    called = _Called(name, f"{name}s", name)
    members = _CLASSES[name]
    if name in ("digit", "letter") and "," not in text and " " not in text and rng.random() < 0.6:
        answer = "".join(re.findall(members, text))
        return vary_quotes(slots, slots.request(KEEP, text, every=called.every, one=name), text), answer, "keep"
    if rng.random() < (0.75 if name != "space" else 0.6):
        answer = re.sub(" +", " ", re.sub(members, "", text)).strip()
        if answer and not answer.startswith(","):
            return _ask_drop(slots, text, called), answer, "drop"
    if name == "number":
        called = _Called("digit", "digits", "digit")
    sign = rng.choice("#*_X-")
    after = _called(slots, sign) if sign != "X" else _Called("X", "X", "X")
    prompt = _ask_change(slots, text, called, after, without="" if name == "space" else "separat")
    return prompt, re.sub(members, sign, text), "signs"


def _mixed(slots: Slots) -> str:
    """Draws letters with digits among them, as codes and bad copies have."""
    rng = slots.rng
    while True:
        letters = list(slots.word()) if rng.random() < 0.6 else rng.choices("abcdefghijklmnopqrstuvwxyz", k=4)
        for _ in range(rng.randint(1, 4)):
            letters.insert(rng.randint(0, len(letters)), str(rng.randint(0, 9)))
        found = "".join(letters)
        if rng.random() < 0.2:
            found = found.upper()
        if slots.unseen or not any(is_unseen(part) for part in re.findall("[A-Za-z]{3,}", found)):
            return found


def _ask_drop(slots: Slots, text: str, called: _Called) -> str:
    return _asked(slots, DROP, text, {"old": called.every, "one": called.one}, called.every)


def _ask_change(slots: Slots, text: str, old: _Called, new: _Called, *, without: str = "") -> str:
    names = {"old": old.every, "one": old.one, "new": new.every, "single": new.single}
    return _asked(slots, CHARACTERS, text, names, old.every, new.every, without=without)


def _asked(slots: Slots, phrasings: Phrasings, text: str, names: dict[str, str], *signs: str, without: str = "") -> str:
    """Draws a request in which bare signs can be told from the marks of the request itself."""
    for _ in range(TRIES):
        prompt = slots.request(phrasings, text, loose=_is_loose(text), without=without, **names)
        if not any(is_cut(sign, prompt, text) for sign in signs) and ", , " not in prompt.replace(text, " "):
            break
    return _settled(slots, prompt, text)


def _is_loose(text: str) -> bool:
    """Says whether the text could be taken for words of the request: many words, or nothing but words."""
    return len(text.split()) > _FEW or text.replace(" ", "").isalpha()


def _settled(slots: Slots, prompt: str, text: str) -> str:
    """Returns the prompt with one article where a pattern and the name of a letter have one each."""
    before, given, behind = prompt.partition(text)
    prompt = _DOUBLED.sub(r"the \1", before) + given + _DOUBLED.sub(r"the \1", behind)
    return vary_quotes(slots, prompt, text)


def _called(slots: Slots, sign: str) -> _Called:
    """Signs by their name, now and then one by itself."""
    if sign != " " and slots.rng.random() < 0.38:
        signs = {"'": _BARE_SIGNS[:2], "?": _BARE_SIGNS[:3]}.get(sign, _BARE_SIGNS)
        written = slots.rng.choice(signs).format(sign)
        return _Called(written, written, written)
    name = _OTHER_NAMES[sign] if sign in _OTHER_NAMES and slots.rng.random() < 0.5 else _SIGNS[sign]
    article = "an" if name[0] in "aeu" else "a"
    return _Called(name, name + ("es" if name.endswith("sh") else "s"), f"{article} {name}")
