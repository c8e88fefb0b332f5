"""Asks for other values in settings and columns, and for other parts of names in code, paths and addresses."""

import re

from gesso.tasks.skills.patterns import read_phrasings
from gesso.tasks.skills.quotes import vary_quotes
from gesso.tasks.skills.replacing.placing import asked
from gesso.tasks.skills.slots import Slots
from gesso.tasks.skills.things import is_mixed

SETTINGS = read_phrasings("replacing", "settings")
CELLS = read_phrasings("replacing", "cells")
WITHIN = read_phrasings("replacing", "within")
_BETWEEN = ("=", "=", ": ", ": ", " = ", " ")
_KEYS = ("port", "host", "user", "mode", "timeout", "path", "level", "size", "color", "lang", "region", "name",
         "retries", "theme", "width", "height", "version", "env", "debug", "max", "speed", "city", "age",
         "price")  # fmt: skip
_WORDED = ("host", "user", "mode", "path", "lang", "region", "name", "theme", "env", "city", "color", "level")
_OF_SED = re.compile(r"s/`(.+?)`/`(.+?)`/g")
_EMPTY = ("N/A", "n/a", "NA", "null", "NULL", "None", "none", "nil", "NaN", "-", "?", "TBD", "missing", "unknown", "-1",
          "empty", "--", "x", "0", "no", "false", "FALSE", "yes", "true")  # fmt: skip
_FULL = ("0", "0", "0", "1", "-1", "none", "unknown", "missing", "n/a", "N/A", "-", "?", "null", "false", "true", "no",
         "yes", "TBD", "pending", "done", "99")  # fmt: skip
_NAMES = (
    "{x}_{w1} = make({x}_{w2})", "{x}_{w1}", "{w1}_{x}", "{x}.{w1}({w2})", "{w1}.{x}_{w2} = {n}", "get_{x}({w1})",
    "{x}_{n}.txt", "{x}-{w1}-{x}.png", "/{w1}/{x}/{w2}", "/home/{x}/{x}_{w1}.txt", "https://{x}.{w1}.com/{x}",
    "www.{x}.com/{w1}",
    "{w1}@{x}.com", "{x}@{w1}.org, {x}@{w2}.org", "{x}_{w1}.py {x}_{w2}.py", "import {x}_{w1} as {x}", "{x}{n}, {x}{m}",
    "{w1}-{x}-{n}", "print({x}_{w1}, {x}_{w2})", "def {x}_{w1}({x}):", "{x}/{w1}/{x}.csv", "{w1}_{x}_{w2}_{x}",
    "self.{x} = {x}_{w1}", "cp {x}_{m}.txt {x}_{n}.txt", "#{x}{w1} #{x}", "{x}.{w1} = {x}.{w2}", "ssh {w1}@{x}-{m}",
    "{w1}/{x}-{m}/{w2}", "{x}_{w1}, {x}_{w2}", "if {x}_{w1} > {n}: {x}_{w1} = {n}",
)  # fmt: skip


def ask_settings(slots: Slots) -> tuple[str, str]:
    """Asks for another value of a setting, of two to four."""
    rng = slots.rng
    keys = [rng.choice(_KEYS) if rng.random() < 0.7 else slots.stem() for _ in range(rng.randint(2, 4))]
    if len(set(keys)) < len(keys):
        return ask_settings(slots)
    values = [_value(slots, key) for key in keys]
    place = rng.randrange(len(keys))
    old, new = values[place], _value(slots, keys[place])
    if old.isdigit() != new.isdigit():
        new = str(slots.number(4)) if old.isdigit() else slots.word()
    if values.count(old) > 1 or new in values:
        return ask_settings(slots)
    between, apart = rng.choice(_BETWEEN), rng.choice(("\n", "\n", "\n", ", ", "; "))
    given, answer = (
        apart.join(f"{key}{between}{value}" for key, value in zip(keys, side, strict=True))
        for side in (values, [*values[:place], new, *values[place + 1 :]])
    )
    quote = rng.choice(("{}", "{}", "{}", '"{}"', "`{}`"))
    names = {"key": quote.format(keys[place]), "old": old, "new": new}
    return asked(slots, SETTINGS, given, names, wide=True, without=_without(given)), answer


def _value(slots: Slots, key: str) -> str:
    if key in _WORDED or (key not in _KEYS and slots.rng.random() < 0.5):
        return slots.word()
    return str(slots.number(4))


def ask_cells(slots: Slots) -> tuple[str, str]:
    """Asks for another value wherever a column says that there is none, or yes or no."""
    rng = slots.rng
    old, new = rng.choice(_EMPTY), rng.choice(_FULL)
    words = rng.random() < 0.4
    others = slots.words(4) if words else [str(n) for n in slots.numbers(4, 3)]
    if old.lower() == new.lower() or {old, new} & set(others):
        return ask_cells(slots)
    given = [old] * rng.randint(1, 3) + others[: rng.randint(1, 3)]
    rng.shuffle(given)
    joint = rng.choice(("\n", "\n", "\n", ", ", ",", "\t", " | ", "; "))
    joint = " | " if joint == "\t" or (joint == "," and "," in old) else joint
    text, answer = joint.join(given), joint.join(new if value == old else value for value in given)
    quote = rng.choice(("{}", "{}", '"{}"', "'{}'"))
    names = {"old": quote.format(old), "new": quote.format(new)}
    return vary_quotes(slots, asked(slots, CELLS, text, names, wide=True, without=_without(text)), text), answer


def ask_within(slots: Slots) -> tuple[str, str]:
    """Asks for another string in code, a path, an address or the name of a file, where it is a part of names."""
    rng = slots.rng
    pattern = rng.choice(_NAMES)
    old, new, first, second = (slots.stem() for _ in range(4))
    if rng.random() < 0.35:
        old = rng.choice(("tmp", "old", "test", "user", "data", "foo", "temp", "img", "src", "dev", "my", "http", "v1"))
    numbers = {"n": slots.number(2), "m": slots.number(2)}
    given, answer = (pattern.format(x=name, w1=first, w2=second, **numbers) for name in (old, new))
    if given.count(old) != pattern.count("{x}") or new in given or len(old) < 2 or is_mixed(given + new, slots):
        return ask_within(slots)
    quote = rng.choice(("{}", "{}", '"{}"', "'{}'", "`{}`"))
    names = {"old": quote.format(old), "new": quote.format(new)}
    prompt = _OF_SED.sub(r"s/\1/\2/g", asked(slots, WITHIN, given, names, wide=True))
    return vary_quotes(slots, prompt, given), answer


def _without(text: str) -> str:
    """Returns what no request may have: words for a file or a column where all stands in a line."""
    return "" if "\n" in text else r"\b(column|below|file)\b"
