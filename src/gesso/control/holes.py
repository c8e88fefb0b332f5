"""Parses documents with holes.

    {{ }}             a hole
    {{city}}          with a hint of what belongs there
    {{city: 2-12}}    of 2 to 12 tokens; {{city: 5}} and {{: 5}} of exactly 5
    {{{{              two opening braces that are text

A run of braces is read from the left: four are two of text, three are one of text and a hole, two are a hole. So
`{{{ }}}` is a hole in braces, and `}}` outside a hole is text. A hole stands on one line.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest

from gesso.control.selection import BYTE_ORDER_MARK
from gesso.errors import TextError

MOST_HOLES = 64

_OPEN = re.compile(r"\{\{\{\{|\{\{(?!\{)")
_HOLE = re.compile(r"\{\{([^{}\r\n]*)\}\}")
_LINE_END = re.compile(r"\r\n|\n|\r")
_LENGTH = re.compile(r"\s*([0-9]{1,6})\s*(?:-\s*([0-9]{1,6})\s*)?")


@dataclass(frozen=True, slots=True)
class Hole:
    """Marks a place in a document whose text is to be found."""

    name: str = ""
    """A hint; empty for none."""
    least: int | None = None
    """Tokens; None leaves the length open."""
    most: int | None = None


@dataclass(frozen=True, slots=True)
class Document:
    """Holds texts and holes by turns: one text more than there are holes, some of them empty."""

    texts: tuple[str, ...]
    holes: tuple[Hole, ...]

    def filled(self, contents: Sequence[str]) -> str:
        """Returns the document with these texts in its holes."""
        return "".join(chain.from_iterable(zip_longest(self.texts, contents, fillvalue="")))

    def as_read(self) -> "Document":
        """Returns the document as a model reads it: as an answer would be written.

        Lines end with LF, and there is no byte order mark and no white space at the end: what a file has of these says
        nothing of its holes, and answers that a model was trained on have none.
        """
        first, *rest = (_LINE_END.sub("\n", text) for text in self.texts)
        texts = [first.removeprefix(BYTE_ORDER_MARK), *rest]
        return Document((*texts[:-1], texts[-1].rstrip()), self.holes)

    def own_line_ends(self, content: str) -> str:
        """Returns what fills a hole with lines that end as those around it do, where all of these end in `\\r\\n`, or
        all in `\\r`."""
        ends = {end for text in self.texts for end in _LINE_END.findall(text)}
        return _LINE_END.sub(ends.pop(), content) if ends in ({"\r\n"}, {"\r"}) else content


def parse_document(source: str) -> Document:
    """Reads a document.

    Raises:
        TextError: it has no hole, too many, or a malformed one; the message has the line.
    """
    texts, holes = list[str](), list[Hole]()
    parts, place, line, counted = list[str](), 0, 1, 0
    while found := _OPEN.search(source, place):
        parts.append(source[place : found.start()])
        if found[0] == "{{{{":
            parts.append("{{")
            place = found.end()
            continue
        line, counted = line + source.count("\n", counted, found.start()), found.start()
        whole = _HOLE.match(source, found.start())
        if whole is None:
            raise TextError(f"line {line}: {{{{ is not closed by }}}} on its line; text is written as {{{{{{{{")
        holes.append(_hole(whole[1], line))
        texts.append("".join(parts))
        parts, place = [], whole.end()
    texts.append("".join([*parts, source[place:]]))
    if not holes:
        raise TextError("the text has no hole: write {{ }} where something is missing")
    if len(holes) > MOST_HOLES:
        raise TextError(f"the text has {len(holes)} holes; {MOST_HOLES} are the most")
    return Document(tuple(texts), tuple(holes))


def escape(text: str) -> str:
    """Writes `text` as it stands in a document, with no hole in it."""
    return text.replace("{{", "{{{{")


def _hole(inside: str, line: int) -> Hole:
    name, colon, length = inside.partition(":")
    if not colon:
        return Hole(name.strip())
    found = _LENGTH.fullmatch(length)
    if found is None:
        raise TextError(f"line {line}: a length is a number of tokens or a range such as 2-12, not {length.strip()!r}")
    least, most = int(found[1]), int(found[2] or found[1])
    if not 1 <= least <= most:
        raise TextError(f"line {line}: no hole has {length.strip()} tokens")
    return Hole(name.strip(), least, most)
