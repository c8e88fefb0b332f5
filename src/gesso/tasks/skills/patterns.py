"""Reads the patterns of requests and sentences, and expands them.

A pattern is written with choices in brackets, `[Sort|Order] the words`, and names in braces for values. What a pattern
may become is one phrasing; a skill has some that training never sees.
"""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

_BELOW = re.compile(
    r"\b(below|follow\w*|next sentence|here (it|they) comes?|here (is|are) the|here's the|text:$)", re.IGNORECASE
)
_PLAINEST, _PLAIN_SHARE = 12, 0.15
_INDENTED = re.compile(r"(?: {2,}(?=\S))?")
_CHOICE = re.compile(r"\[([^\[\]]*)\]")


@dataclass(frozen=True, slots=True)
class Phrasings:
    """Lists patterns of one request: those that are trained on, and those that only evaluations use.

    A pattern of a request with data tells what to do, as after "please"; one that begins with `~` does not, and stands
    alone.
    """

    seen: tuple[str, ...]
    unseen: tuple[str, ...]


def read_phrasings(file: str, name: str) -> Phrasings:
    """Reads the patterns of one request from `phrasings/FILE.txt`: a line each, below `## NAME`, those that only
    evaluations use below `## NAME, held out`. A line break within a pattern is written `\\n`."""
    sections = _sections(file)
    return Phrasings(sections[name], sections[f"{name}, held out"])


@cache
def _sections(file: str) -> dict[str, tuple[str, ...]]:
    text = resources.files("gesso.tasks.skills").joinpath("phrasings", f"{file}.txt").read_text("utf-8")
    found = {}
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        name, *patterns = section.rstrip("\n").split("\n")
        found[name] = tuple(pattern.replace("\\n", "\n") for pattern in patterns)
    return found


def pick(patterns: Sequence[str], rng: random.Random) -> str:
    """Picks one of the patterns. Where there are many, a part of the picks are of the first, which are the plainest and
    what most people say."""
    many = len(patterns) > 3 * _PLAINEST
    return rng.choice(patterns[:_PLAINEST] if many and rng.random() < _PLAIN_SHARE else patterns)


def expand(pattern: str, rng: random.Random) -> str:
    """Chooses one of each `[a|b]`, innermost first. Lines keep what they are indented by, two blanks or more."""
    while found := _CHOICE.search(pattern):
        pattern = pattern[: found.start()] + rng.choice(found[1].split("|")) + pattern[found.end() :]
    first, *further = pattern.split("\n")
    return "\n".join((" ".join(first.split()), *(_indented(line) for line in further)))


def _indented(line: str) -> str:
    found = _INDENTED.match(line)
    return f"{found[0] if found else ''}{' '.join(line.split())}"


def variants(pattern: str) -> int:
    """Counts the texts that a pattern expands to (choices are not nested)."""
    total = 1
    for found in _CHOICE.finditer(pattern):
        total *= found[1].count("|") + 1
    return total


def says_below(ask: str) -> bool:
    """Says whether a request tells that what it is about stands behind it."""
    return _BELOW.search(ask) is not None


def with_small_letter(text: str) -> str:
    """Returns the text with a small letter at its beginning, but for names and words in capitals."""
    return text if text[1:2].isupper() or text[1:2] == " " else text[:1].lower() + text[1:]
