"""Turns data of other formats into JSON lines to train on: `python examples/convert.py FILE ... > data.jsonl`.

Alpaca, Dolly, ShareGPT, TRL's conversations, questions and answers, from .json, .jsonl, .csv, .tsv and .parquet (which
needs `pip install pyarrow`). Every other file is plain text, cut between paragraphs.
"""

import argparse
import csv
import io
import itertools
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

PIECE = 4000
"""Characters of a piece of plain text, unless a paragraph is longer."""
PAIRS = (("prompt", "completion"), ("prompt", "response"), ("question", "answer"), ("input", "output"))
ROLES = {"system": "system", "human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant"}
JUDGED = ("label", "weight", "chosen", "rejected", "score_chosen", "score_rejected", "preferred_output")
"""Columns that say which answers are good: without them bad ones would be learned, too."""
JUDGED_TURN = (*JUDGED[2:], "label", "loss", "train")
"""The same of one turn, but for its weight."""

Row = Mapping[str, Any]


class Unused:
    """Counts the columns that no line has."""

    def __init__(self) -> None:
        self.names: dict[str, None] = {}

    def note(self, row: Row, used: Sequence[str], place: str = "") -> None:
        """Adds the columns of a row but those that are used, `place` before them."""
        self.names |= dict.fromkeys(f"{place}{name}" for name in row if name not in used)


def lines(path: Path) -> Iterator[str]:
    """Yields the lines of a text with their ends.

    Raises:
        ValueError: one is not written in UTF-8.
    """
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                yield line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise ValueError(f"line {number}: no UTF-8 (byte {error.start + 1})") from None


def rows(path: Path) -> Iterator[tuple[str, Any]]:
    """Yields the rows of a file of data, or the pieces of a plain text, and where each stands."""
    kind = path.suffix.lower()
    if kind == ".parquet":
        import pyarrow.parquet

        with path.open("rb") as file:
            yield from ((f"row {number}", row) for number, row in enumerate(parquet_rows(pyarrow.parquet, file), 1))
    elif kind in (".csv", ".tsv"):
        csv.field_size_limit(2**31 - 1)
        read = lines(path)
        head = next(read, "")
        reader = csv.DictReader(itertools.chain([head], read), delimiter=mark(head), strict=True)
        names = list(reader.fieldnames or ())
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"line 1: the column {twice!r:.80} stands twice")
        try:
            yield from ((f"line {reader.line_num}", row) for row in reader)
        except csv.Error as error:
            where = f"line {reader.line_num + 1}: {error}"
            raise ValueError(f"{where}: a text in quotes ends with one, and doubles those in it") from None
    elif kind == ".jsonl":
        for number, line in enumerate(lines(path), 1):
            if line.strip():
                yield f"line {number}", parsed(line, f"line {number}: ")
    elif kind == ".json":
        found = parsed("".join(lines(path)))
        yield from (
            (f"row {number}", row) for number, row in enumerate(found if isinstance(found, list) else [found], 1)
        )
    else:
        text = "".join(lines(path)).replace("\r\n", "\n").replace("\r", "\n")
        yield from (("text", {"text": piece}) for piece in pieces(text))


def parquet_rows(reader: Any, file: BinaryIO) -> Iterator[Row]:
    """Yields the rows of a table of Parquet."""
    for batch in reader.ParquetFile(file).iter_batches():
        yield from batch.to_pylist()


def mark(head: str) -> str:
    """Returns what stands between the columns of a table: what its first line has most of."""
    return max(",;\t|", key=head.count)


class Repeated(Counter[str]):
    """Counts the keys of an object of JSON in which one stands twice: which of its values counts is not said."""


def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Makes an object of its members."""
    made = dict(pairs)
    return made if len(made) == len(pairs) else Repeated(Counter(name for name, _ in pairs))


def refuse_repeats(row: Any) -> None:
    """Refuses a row in which an object has a key twice, at any depth."""
    held = [row]
    while held:
        value = held.pop()
        if isinstance(value, Repeated):
            raise ValueError(f"the key {value.most_common(1)[0][0]!r:.80} stands twice in one object")
        held += value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()


def parsed(text: str, place: str = "") -> Any:
    """Returns the value of a JSON text."""
    try:
        return json.loads(text, object_pairs_hook=members)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{place}no JSON: {error}") from None


def pieces(text: str) -> Iterator[str]:
    """Cuts a text between paragraphs; the pieces one after the other are the text."""
    piece = ""
    for paragraph in text.split("\n\n"):
        if piece.strip() and len(piece) + len(paragraph) > PIECE:
            yield piece
            piece = ""
        piece += paragraph + "\n\n"
    if piece.strip():
        yield piece.removesuffix("\n\n")


def convert(row: Any, unused: Unused) -> dict[str, Any]:
    """Returns the line that a row becomes.

    Raises:
        ValueError: it is of no format that is known here, has nothing to learn, or says which answers are good.
    """
    if not isinstance(row, Mapping):
        raise ValueError("is no object of named columns")
    refuse_repeats(row)
    if any(row.get(None, ())):  # where csv puts what no column has a name for
        raise ValueError("has more values than there are columns: a text that holds what parts them needs quotes")
    empty = [str(name) for name, value in row.items() if value in (None, "")]
    row = {str(name): value for name, value in row.items() if value not in (None, "") and name is not None}
    if judged := [name for name in JUDGED if name in row]:
        raise ValueError(f"{judged[0]} says which answers are good: leave out the bad ones, and that column")
    system = [message("system", row["system"], "system")] if "system" in row else []
    kept = {name: row[name] for name in ("tools",) if name in row}
    for names, of_lists, read in FORMATS:
        if any(name not in row for name in names):
            continue
        if of_lists and not all(isinstance(row[name], list) for name in names):
            if len(names) > 1:
                continue  # a pair of texts
            raise ValueError(f"{names[0]} is {row[names[0]]!r:.40}, no list")
        said, more = read(row, names)
        require_answers(said)
        unused.note(row, ("system", "tools", *names, *more))
        for each in row[names[0]] if read is share_gpt and not has_roles(row[names[0]]) else ():
            unused.note(each, ("from", "value", "weight"), "conversations.")
        return (
            {"messages": system + said} | kept | {name: row[name] for name in more if name == "source" and name in row}
        )
    if "text" in row:
        unused.note(row, ("text",))
        return {"text": text_of(row["text"], "text")}
    wanted = [name for names, _, _ in FORMATS for name in names if name in empty and any(n in row for n in names)]
    if wanted:
        raise ValueError(f"{wanted[0]} is empty")
    raise ValueError(f"holds {', '.join(row) or 'nothing'}, which is no format that is known here")


Read = tuple[list[dict[str, Any]], Sequence[str]]
"""Messages, and the columns beside those of the format that were used."""


def chat(row: Row, names: Sequence[str]) -> Read:
    """Reads a list of messages."""
    return messages(row, names[0]), ()


def share_gpt(row: Row, names: Sequence[str]) -> Read:
    """Reads ShareGPT's turns, or messages under their name."""
    said = row[names[0]]
    return messages(row, names[0]) if has_roles(said) else [turn(each) for each in said], ()


def has_roles(said: Sequence[Any]) -> bool:
    """Says whether what a conversation holds are messages with roles, as OpenAI has them."""
    return all(isinstance(each, Mapping) and "role" in each and "from" not in each for each in said)


def alpaca(row: Row, names: Sequence[str]) -> Read:
    """Reads an instruction with its input or context, and its output or response, behind earlier turns."""
    asked, answer = names
    before = []
    history = row.get("history", [])
    for each in history if isinstance(history, list) else [history]:
        if not isinstance(each, list) or len(each) != 2:
            raise ValueError(f"history holds {each!r:.40}, no list of a question and its answer")
        before += [message("user", each[0], "history"), message("assistant", each[1], "history")]
    beside = ("input", "context")
    return [*before, question(row, (asked, *beside)), message("assistant", row[answer], answer)], (*beside, "history")


def completion(row: Row, names: Sequence[str]) -> Read:
    """Reads messages of which only the completion is learned."""
    prompt, answer = names
    before = [said | {"weight": 0} if said["role"] == "assistant" else said for said in messages(row, prompt)]
    return before + messages(row, answer), ()


def pair(row: Row, names: Sequence[str]) -> Read:
    """Reads a question with what it is about, and its answer."""
    asked, answer = names
    said = [question(row, (asked, "context")), message("assistant", row[answer], answer)]
    return said, ("context", "source")


def question(row: Row, names: Sequence[str]) -> dict[str, Any]:
    """Returns the message that a question and what it is about become, a blank line between them, as Alpaca's and
    Dolly's prompts have them."""
    return {"role": "user", "content": "\n\n".join(text_of(row[name], name) for name in names if name in row)}


FORMATS = (
    (("messages",), True, chat),
    (("conversations",), True, share_gpt),
    (("instruction", "output"), False, alpaca),
    (("instruction", "response"), False, alpaca),
    (("prompt", "completion"), True, completion),
    *((names, False, pair) for names in PAIRS),
)
"""Columns of each format, whether they hold lists, and what reads them."""


def messages(row: Row, name: str) -> list[dict[str, Any]]:
    """Returns a column's messages, each of which has a role."""
    for said in row[name]:
        if not isinstance(said, dict) or "role" not in said:
            raise ValueError(f"{name} holds {said!r:.40}, no message with a role")
    return list(row[name])


def require_answers(said: Sequence[Mapping[str, Any]]) -> None:
    """Refuses messages of which nothing could be learned: an answer is missing, or is empty."""
    answers = [each for each in said if each["role"] in ("assistant", "model")]
    for each in answers:
        content = each.get("content")
        if not each.get("tool_calls") and not (content.strip() if isinstance(content, str) else content):
            raise ValueError("an answer is empty")
    if all(each.get("weight") == 0 for each in answers):
        raise ValueError("has no answer to learn")


def message(role: str, content: Any, name: str) -> dict[str, Any]:
    """Returns a message; `name` is the column that it comes from."""
    return {"role": role, "content": text_of(content, name)}


def text_of(value: Any, name: str) -> str:
    """Returns a value that is a text."""
    if not isinstance(value, str):
        raise ValueError(f"{name} is {value!r:.40}, no text")
    return value


def turn(said: Any) -> dict[str, Any]:
    """Returns the message that ShareGPT's turn is, with its weight; calls of tools are written in too many ways to know
    them all."""
    if not isinstance(said, Mapping) or said.get("from") not in ROLES:
        who = said.get("from") if isinstance(said, Mapping) else said
        raise ValueError(f"a turn is from {who!r:.40}; known: {', '.join(ROLES)}")
    if judged := [name for name in JUDGED_TURN if said.get(name) is not None]:
        raise ValueError(f"{judged[0]} of a turn says whether it is learned: write weight 0 or 1 instead")
    made, weight = message(ROLES[said["from"]], said.get("value"), "value"), said.get("weight")
    if weight is None:
        return made
    if weight not in (0, 1) or (weight and made["role"] != "assistant"):
        raise ValueError(f"weight {weight!r:.40} of a turn from {said['from']}: answers have 0 or 1, other turns 0")
    return made | {"weight": int(weight)} if made["role"] == "assistant" else made


def write(line: str) -> None:
    """Writes to standard output; ends the program where nobody reads it any more, or there is no room for it."""
    try:
        sys.stdout.write(line)
        if not line:
            sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the interpreter flushes once more
        sys.exit(0 if isinstance(error, BrokenPipeError) else f"standard output cannot be written: {error.strerror}")


def main() -> None:
    """Converts the files that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--skip", action="store_true", help="leave out rows that cannot be converted, and name them")
    options = parser.parse_args()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", newline="\n")  # whatever the system writes by itself
    unused, skipped = Unused(), 0
    for path in options.files:
        try:
            for place, row in rows(path):
                try:
                    write(json.dumps(convert(row, unused), ensure_ascii=False) + "\n")
                except ValueError as error:
                    if not options.skip:
                        raise ValueError(f"{place}: {error} (--skip leaves out such rows)") from None
                    skipped += 1
                    print(f"{path}, {place}: {error}; left out", file=sys.stderr)
        except (OSError, ImportError) as error:
            sys.exit(f"{path} cannot be read: {error}")
        except (ValueError, csv.Error) as error:
            sys.exit(f"{path}, {error}")
    write("")
    if unused.names:
        print(f"columns that are not used: {', '.join(unused.names)}", file=sys.stderr)
    if skipped:
        print(f"{skipped} row{'s' * (skipped != 1)} left out", file=sys.stderr)


if __name__ == "__main__":
    main()
