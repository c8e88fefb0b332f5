"""Puts a request and the text that it is about together: before, behind, within, in quotes, under a name."""

import re
from functools import cache

from gesso.tasks.skills.extraction.telling import pick
from gesso.tasks.skills.patterns import read_phrasings, says_below, with_small_letter
from gesso.tasks.skills.slots import Slots

FRAMES = read_phrasings("extraction_frames", "frames")
AROUND = read_phrasings("extraction_frames", "around")
_ASK, _SMALL_ASK, _TEXT = "{Ask}", "{ask}", "{text}"
_ARROWS = ("~->", "~=>", "~<-")
"""Beginnings of requests that stand behind the text."""
_FRAMED_SHARE = 0.6
_POLITE_SHARE = 0.4
_SMALL_SHARE = 0.2
_ENDS = ".?!:"
_QUOTES = "\"'`(["
_QUESTION = re.compile(r"(What|Which|Who|Where|When|How) ", re.IGNORECASE)
_SENTENCES = re.compile(r"[.?!] \S")
_SENTENCE_BEHIND = re.compile(r" [^\"'(\[>-]")


def beside(slots: Slots, ask: str, text: str) -> str:
    """Puts the request after the text, as most do, or before it."""
    rng = slots.rng
    if says_below(ask) or (rng.random() < 0.35 and not ask.startswith(_ARROWS)):
        return slots.frame(ask, text)
    ask = slots.frame(ask).replace("??", "?")
    gap = rng.choice((" ", " ", "\n", "\n\n")) if text[-1] in ".?!" else "\n"
    return f"{text}{gap}{ask}"


def among_others(slots: Slots, text: str) -> str:
    """Returns the text with a sentence before or behind it that tells no fact; as it is where it is no sentence."""
    if "\n" in text or text[-1] not in ".!?":
        return text
    other = pick(slots, AROUND)
    if text[0].islower():
        other = other.lower()
    if slots.rng.random() < 0.5 and other[-1] in ".!":
        return f"{other} {text}"
    return f"{text} {other}"


def placed(slots: Slots, ask: str, text: str) -> str:
    """Returns a message of the request and the text, in one of very many arrangements."""
    if "\n" not in ask and slots.rng.random() >= _FRAMED_SHARE:
        return beside(slots, ask, text)
    return framed(slots, ask, text)


def framed(slots: Slots, ask: str, text: str) -> str:
    """Returns a message in one of the frames. A request that begins with `~` is put as it is, without politeness."""
    rng = slots.rng
    alone = ask.startswith("~")
    frame = _fitting(slots, text, alone)
    while (
        ("\n" in ask and not _ends_a_line(frame))
        or (says_below(ask) and not frame.startswith(_ASK))
        or (f"{_ASK}:" in frame and _SENTENCES.search(ask))
        or (ask.startswith(_ARROWS) and (not frame.startswith(_TEXT) or " - " in frame))
    ):
        frame = _fitting(slots, text, alone)
    if not alone and "\n" not in ask and _SMALL_ASK not in frame and rng.random() < _POLITE_SHARE:
        ask = slots.frame(ask).replace("??", "?")
    else:
        ask = ask.removeprefix("~")
    start = frame.find(_TEXT) - 1
    behind = frame[frame.find(_ASK) + len(_ASK) :] if _ASK in frame else ""
    if behind.startswith(":"):
        ask = ask.rstrip(_ENDS)
    elif ask[-1] not in _ENDS and "\n" not in ask and (_SENTENCE_BEHIND.match(behind) or rng.random() < 0.5):
        ask += "?" if _QUESTION.match(ask) and "?" not in ask else "."
    if text[-1] not in ".?!" and frame[start + 1 + len(_TEXT) :].startswith(" ") and _ASK in frame[start:]:
        text += "."
    if rng.random() < _SMALL_SHARE:
        ask = with_small_letter(ask)
    return frame.replace(_SMALL_ASK, with_small_letter(ask)).replace(_ASK, ask).replace(_TEXT, text)


def _fitting(slots: Slots, text: str, alone: bool) -> str:
    """Draws a frame that has no quotes that the text has, and none within whose sentence the request would have to fit
    where it cannot."""
    while True:
        frame = pick(slots, FRAMES)
        place = frame.find(_TEXT)
        before = frame[place - 1] if place else ""
        if before and before in _QUOTES:
            if before in text or "\n" in text:
                continue
        elif "\n" in text and not _on_lines(frame):
            continue
        if not (alone and _SMALL_ASK in frame):
            return frame


def _ends_a_line(frame: str) -> bool:
    """Says whether nothing stands on the line behind the request, which is no point of a list."""
    return f"{frame}\n".find(f"{_ASK}\n") >= 0 and not frame.startswith("1.")


@cache
def _on_lines(frame: str) -> bool:
    """Says whether the text has lines of its own in the frame."""
    before, _, behind = frame.partition(_TEXT)
    return before[-1:] in ("", "\n", " ") and behind[:1] in ("", "\n") and not before.endswith(("> ", "Read: "))
