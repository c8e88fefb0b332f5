"""Places texts beside requests to change them."""

import re
from collections.abc import Mapping

from gesso.tasks.skills.patterns import Phrasings
from gesso.tasks.skills.placing import placed_request
from gesso.tasks.skills.slots import Slots

_WIDE_SHARE = 0.6
_BARE_SHARE = 0.5
TRIES = 5
_MARKS = ".?!:"
"""What requests lose at their end before the text."""
_IN_THIS = ' in this "{}"'
_LABELS = ("Sentence", "Text", "Line", "text", "sentence", "String", "Original", "Draft", "Here it is", "Note")


def asked(
    slots: Slots,
    phrasings: Phrasings,
    text: str,
    names: Mapping[str, str],
    *,
    loose: bool = False,
    wide: bool = False,
    without: str = "",
) -> str:
    """Draws a whole message; where everybody sees how far the words go that the request names, the text stands in more
    places now and then.

    Args:
        names: what goes and what comes.
        loose: the text could be taken for words of the request.
        wide: whether it may stand at the further places.
        without: a regular expression of what no pattern may have.
    """
    for _ in range(TRIES):
        prompt = _drawn(slots, phrasings, text, names, loose=loose, wide=wide, without=without)
        if not any(_is_recased(name, prompt) or is_cut(name, prompt, text) for name in names.values()):
            break
    return prompt


def _drawn(
    slots: Slots, phrasings: Phrasings, text: str, names: Mapping[str, str], *, loose: bool, wide: bool, without: str
) -> str:
    if wide and slots.rng.random() < _WIDE_SHARE:
        labels = _LABELS if loose else ()
        return placed_request(slots, phrasings, text, loose=loose, without=without, labels=labels, names=names)
    prompt = slots.request(phrasings, text, loose=loose, without=without, **names)
    if prompt.endswith(_IN_THIS.format(text)) and slots.rng.random() < _BARE_SHARE:
        return prompt.removesuffix(f'"{text}"') + text
    return prompt


def is_cut(name: str, prompt: str, text: str) -> bool:
    """Says whether a name that ends in a mark has lost it at the end of the request, or a bare mark stands nowhere as a
    word of its own."""
    core, rest = name.rstrip(_MARKS), prompt.replace(text, " ")
    if not name or core == name:
        return False
    if core:
        return name not in rest and core in rest
    return re.search(rf"(?<![^\s(/]){re.escape(name)}(?=[\s,:/)]|$)", rest) is None


def _is_recased(name: str, prompt: str) -> bool:
    """Says whether a name that begins the prompt or a line has got another first letter there."""
    other = name[:1].swapcase() + name[1:]
    return other != name and f"\n{other} " in f"\n{prompt}"
