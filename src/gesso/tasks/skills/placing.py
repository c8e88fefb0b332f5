"""Places data beside a request in more ways than behind a colon or on the next line: behind a full stop, a dash or an
arrow, between two sentences, after an introduction, with an aside."""

import random
import re
from collections.abc import Mapping
from functools import cache

from gesso.tasks.skills.patterns import Phrasings, expand, pick, read_phrasings, says_below, with_small_letter
from gesso.tasks.skills.slots import Slots

_LIST = read_phrasings("placing", "list")
_WORD = read_phrasings("placing", "word")
_ASIDE = read_phrasings("placing", "aside")
_CONTEXT = read_phrasings("placing", "context")
_COUNTS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_PLACE = re.compile(r"\{(data|quoted)\}")
_MARKS = ".?!: "
"""What a request loses at its end before data on the same line."""
_WIDE_SHARE = 0.35
_UNQUOTED_SHARE = 0.15
"""How often words in the middle of a request have no quotes that tell where they end."""
_SHORT = 8
"""Longer requests, in words, end with a mark before data on the same line."""
_BEHIND = (
    "{ask} {data}", "{ask} {data}", "{ask} {data}", "{ask} {data}", "{bare} {data}", "{bare} {data}", "{bare} {data}",
    "{bare} - {data}", "{bare} -- {data}", "{bare} -> {data}", "{bare} => {data}", "{bare} → {data}",
    "{bare} >> {data}", "{bare} — {data}", "{bare} = {data}", "{bare} ({data})", "{bare} : {data}", "{bare}:{data}",
    "{bare}... {data}", "{bare}; {data}", "{bare}, {data}", "{bare}{joint}{data}", "{bare}: {data}.",
    "{bare}: {data}. {aside}", "{bare}: {data}. {aside}", "{bare}: {data}\n{aside}", "{ask} {aside} {data}",
    "{ask} {aside}\n{data}", "{ask} {aside}\n\n{data}", "{context} {ask} {data}", "{context} {bare}: {data}",
    "{context} {bare}: {data}", "{context} {ask}\n\n{data}", "{ask} {intro}: {data}",
    "{ask} {intro}: {data}. {aside}", "{ask}\n{intro}: {data}", "{context} {ask} {intro}: {data}",
    "{bare}\n\nInput: {data}", "{ask}\n{label}: {data}", "{ask}\n{label}: {data}\nAnswer:",
    "Task: {bare}\n{label}: {data}", "Instruction: {ask}\nInput: {data}\nOutput:", "{ask}\n---\n{data}",
    "{ask}\n```\n{data}\n```", "{ask} <{tag}>{data}</{tag}>", "Q: {bare}: {data}\nA:",
)  # fmt: skip
_BEFORE = (
    "{data} - {bare}", "{data} -- {bare}", "{data} <- {bare}", "{data} <-- {bare}", "{data} <= {bare}",
    "{data} ← {bare}", "{data} -> {bare}", "{data} => {bare}", "{data} ({bare})", "{data}: {bare}", "{data}. {Ask}",
    "{data}. {Ask}", "{data}; {bare}", "{data} // {bare}", "{data} # {bare}", "{data}\n^ {bare}", "{data}\n^^ {bare}",
    "{data}\n({bare})", "{data}\n---\n{ask}", "{data}\n\n{ask} {aside}", "{data}. {Ask} {aside}",
    "{intro}: {data}. {Ask}", "{intro}: {data}. {Ask}", "{intro}: {data}. {Ask}", "{intro}: {data}\n{Ask}",
    "{intro}: {data}\n\n{Ask}", "{intro}: {data} - {bare}", "{intro}: {data} -> {bare}", "{intro}: {data}; {bare}",
    "{intro}: {data}. {Ask} {aside}", "{intro}, {bare}: {data}", "{intro}, {bare}: {data}", "{intro}: {data}. {Ask}",
    "{context} {intro}: {data}. {Ask}", "{label}: {data}\n{ask}", "{label}: {data}\nTask: {bare}",
    "{label} = {data}\n{ask}", "<{tag}>{data}</{tag}>\n{ask}", "{label}: {data} | {bare}",
    "{data}\n{label} above: {bare}",
)  # fmt: skip
_LINES_BEHIND = (
    "{bare}\n{data}", "{bare}\n{data}", "{bare}\n{data}", "{ask}\n{data}", "{bare}:\n{data}\n{aside}",
    "{bare}:\n{data}\n\n{aside}", "{ask} {aside}\n{data}", "{ask} {aside}\n\n{data}", "{context} {ask}\n{data}",
    "{context}\n{ask}\n{data}", "{context} {ask}\n\n{data}", "{ask}\n\n{intro}:\n{data}", "{ask} {intro}:\n{data}",
    "{bare} -\n{data}", "{bare} ->\n{data}", "{ask}\n---\n{data}", "{ask}\n---\n{data}\n---",
    "{bare}:\n```\n{data}\n```", "{ask}\n\n{label}:\n{data}", "{ask}\n\n{label}:\n{data}\n\nAnswer:",
    "<{tag}>\n{data}\n</{tag}>\n{ask}", "Instruction: {ask}\nInput:\n{data}\nOutput:", "{bare}...\n{data}",
)  # fmt: skip
_LINES_BEFORE = (
    "{intro}:\n{data}\n{Ask}", "{intro}:\n{data}\n\n{Ask}", "{intro}, {bare}:\n{data}", "{intro}:\n{data}\n{Ask}",
    "{data}\n^ {bare}", "{data}\n^^ {bare}", "{data}\n\n{ask} {aside}", "{data}\n---\n{ask}", "{data}\n\n({bare})",
    "{data}\n\n{context} {ask}", "{label}:\n{data}\n\n{ask}", "{data}\n-> {bare}",
)  # fmt: skip
_LABELS = ("Input", "Data", "Here", "Given", "input", "data", "x")
_LIST_LABELS = ("List", "Items", "list", "items", "Entries", "entries", "xs", "my list", "Values")
_OF_FORM = re.compile(r"format|layout|form\b|style|spelling|items|else|unchanged", re.IGNORECASE)
"""Asides that make no sense where a single word is asked about."""
_OF_WORD = re.compile(r"\bwords?\b", re.IGNORECASE)
_WORD_LABELS = ("Text", "text", "s", "String", "string")


@cache
def _apart(patterns: tuple[str, ...], without: str) -> tuple[str, ...]:
    """Patterns that leave the place of the data open, as far as they have not what `without` finds."""
    found = tuple(
        pattern
        for pattern in patterns
        if not _PLACE.search(pattern) and not (without and re.search(without, pattern, re.IGNORECASE))
    )
    return found or tuple(pattern for pattern in patterns if not _PLACE.search(pattern))


def placed_request(
    slots: Slots,
    phrasings: Phrasings,
    data: str,
    *,
    count: int = 0,
    loose: bool = False,
    without: str = "",
    joint: str = "",
    labels: tuple[str, ...] = (),
    names: Mapping[str, str] | None = None,
) -> str:
    """Draws a whole message as `Slots.request` does, one in three with its data at one of the further places.

    Args:
        count: how many items the data are; 0 if they are no list.
        loose: the data could be taken for words of the request.
        without: a regular expression of what no pattern may have.
        joint: what stands between two items, which may stand before the first of them too.
        labels: what may stand before the data as their label, in the place of the usual ones.
        names: values of the patterns.
    """
    patterns = _apart(phrasings.unseen if slots.reworded else phrasings.seen, without)
    rng = slots.rng
    if rng.random() >= _WIDE_SHARE or not patterns:
        unquoted = rng.random() < _UNQUOTED_SHARE
        return slots.request(phrasings, data, loose=loose and not unquoted, without=without, **(names or {}))
    pattern = expand(pick(patterns, rng), rng)
    ask = slots.frame(pattern.format(**names) if names else pattern).rstrip(":")
    frame = _frame(rng, ask, data, loose=loose)
    bare = ask.rstrip(_MARKS)
    if not frame.startswith(("{bare}", "{ask}", "Task", "Instruction")):
        bare = with_small_letter(bare)
    if ask[-1].isalnum() and re.search(r"\{[aA]sk\} \{", frame):
        ask += rng.choice((".", ".", "!"))
    values = {
        "ask": ask,
        "Ask": ask[:1].upper() + ask[1:] if rng.random() < 0.7 else ask,
        "bare": bare,
        "data": data,
        "joint": joint if joint.strip() and not joint.strip().isalpha() else ": ",
        "label": rng.choice(labels or _LABELS + (_LIST_LABELS if count else _WORD_LABELS)),
        "tag": rng.choice(("list", "items", "data") if count else ("text", "data", "input")),
    }
    return frame.format(**values, **_remarks(slots, frame, data, count))


def _frame(rng: random.Random, ask: str, data: str, *, loose: bool) -> str:
    """Draws where a request and its data stand."""
    frames: tuple[str, ...] = _LINES_BEHIND if "\n" in data else _BEHIND
    if not says_below(ask) and rng.random() < 0.45:
        frames = _LINES_BEFORE if "\n" in data else _BEFORE
    frame: str = rng.choice(frames)
    if data.endswith((".", "?", "!")):
        frame = frame.replace("{data}.", "{data}")
    bare = ask.rstrip(_MARKS)
    if frame == "{bare} {data}" and (len(bare.split()) > _SHORT or (loose and bare != ask.rstrip("."))):
        return "{bare}: {data}"
    return frame


def _remarks(slots: Slots, frame: str, data: str, count: int) -> dict[str, str]:
    """Draws what a frame says beside the request and its data: an introduction, an aside, a context."""
    found = {}
    for name, group in (("intro", _LIST if count else _WORD), ("aside", _ASIDE), ("context", _CONTEXT)):
        if f"{{{name}}}" in frame:
            unfit = _OF_FORM if name == "aside" and not count else None
            if name == "intro" and not data.isalpha():
                unfit = _OF_WORD
            found[name] = _remark(slots, group, count, unfit)
    if "{aside} {data}" in frame and found["aside"][-1].isalnum():
        found["aside"] += "."
    return found


def _remark(slots: Slots, phrasings: Phrasings, count: int, unfit: re.Pattern[str] | None) -> str:
    rng = slots.rng
    number = _COUNTS[count] if count < len(_COUNTS) and rng.random() < 0.7 else str(count)
    while True:
        text = slots.choice(
            phrasings, word=slots.word(), name=slots.first_name(), city=slots.city(),
            n=slots.number(2) + 2, count=number,
        )  # fmt: skip
        if unfit is None or not unfit.search(text):
            return with_small_letter(text) if rng.random() < 0.2 else text
