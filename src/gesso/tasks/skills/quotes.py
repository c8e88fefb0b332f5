"""Varies the quotes that requests have around their data."""

import re

from gesso.tasks.skills.slots import Slots

_CURLY = (("“", "”"), ("“", "”"), ("‘", "’"), ("«", "»"))  # noqa: RUF001
_CURLY_SHARE = 0.08
_BARE_SHARE = 0.7
_SED = re.compile(r"""s/(["'])(.+?)\1/(["'])(.+?)\3/g""")
_BEHIND_FIRST = ("\n", " - ", " -- ", " -> ", " => ", " → ", " | ", " // ", " <- ")
"""What stands behind data at the beginning of a prompt, where everybody sees how far they go."""
_BEFORE_LAST = tuple(".?!:>→-\n")
"""What stands before data at the end, likewise."""


def vary_quotes(slots: Slots, prompt: str, data: str) -> str:
    """Returns the prompt with other quotes around its data now and then, and most often without those around data at
    its beginning or end that anybody tells from the request; what a command of `sed` finds and writes has none."""
    if "s/" in prompt:
        prompt = _SED.sub(r"s/\2/\4/g", prompt)
    quoted = f'"{data}"'
    if quoted not in prompt:
        return prompt
    if slots.rng.random() < _BARE_SHARE:
        if any(prompt.startswith(quoted + end) for end in _BEHIND_FIRST):
            return data + prompt[len(quoted) :]
        if prompt.endswith(quoted) and prompt[: -len(quoted)].rstrip(" ").endswith(_BEFORE_LAST):
            return prompt[: -len(quoted)] + data
    if slots.rng.random() < _CURLY_SHARE:
        first, last = slots.rng.choice(_CURLY)
        return prompt.replace(quoted, first + data + last)
    return prompt
