"""Turns data of other formats into JSON lines to train on: `python examples/convert.py FILE ... > data.jsonl`.

Alpaca, ShareGPT, TRL's conversations, questions and answers, from .json, .jsonl, .csv, .tsv and .parquet (which needs
`pip install pyarrow`). Every other file is plain text, cut between paragraphs.
"""

import csv
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

PIECE = 4000
"""Characters of a piece of plain text, unless a paragraph is longer."""
PAIRS = (("prompt", "response"), ("question", "answer"), ("input", "output"))
ROLES = {"system": "system", "human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant"}


def rows(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yields the rows of a file of data, or the pieces of a plain text."""
    kind = path.suffix.lower()
    if kind == ".parquet":
        import pyarrow.parquet

        for batch in pyarrow.parquet.ParquetFile(path).iter_batches():
            yield from batch.to_pylist()
    elif kind in (".csv", ".tsv"):
        csv.field_size_limit(2**31 - 1)
        with path.open(encoding="utf-8-sig", newline="") as file:
            yield from csv.DictReader(file, delimiter="," if kind == ".csv" else "\t")
    elif kind == ".jsonl":
        with path.open(encoding="utf-8-sig") as file:
            yield from (json.loads(line) for line in file if line.strip())
    elif kind == ".json":
        found = json.loads(path.read_text(encoding="utf-8-sig"))
        yield from found if isinstance(found, list) else [found]
    else:
        yield from ({"text": piece} for piece in pieces(path.read_text(encoding="utf-8-sig")))


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


def convert(row: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the line that a row becomes.

    Raises:
        ValueError: it is of no format that is known here.
    """
    if not isinstance(row, Mapping):
        raise ValueError("is no object of named columns")
    row = {name: value for name, value in row.items() if value not in (None, "")}
    system = [message("system", row["system"])] if "system" in row else []
    tools = {"tools": row["tools"]} if "tools" in row else {}
    if "messages" in row:
        return {"messages": system + row["messages"]} | tools
    if "conversations" in row:
        return {"messages": system + [turn(said) for said in row["conversations"]]}
    if "instruction" in row and "output" in row:
        asked = "\n\n".join(row[name] for name in ("instruction", "input") if name in row)
        return {"messages": [*system, message("user", asked), message("assistant", row["output"])]}
    if isinstance(row.get("prompt"), list) and isinstance(row.get("completion"), list):
        # Only the completion is learned.
        context = [said | {"weight": 0} if said["role"] == "assistant" else said for said in row["prompt"]]
        return {"messages": system + context + row["completion"]} | tools
    for prompt, answer in (("prompt", "completion"), *PAIRS):
        if prompt in row and answer in row:
            return {"messages": [*system, message("user", row[prompt]), message("assistant", row[answer])]}
    if "text" in row:
        return {"text": row["text"]}
    raise ValueError(f"holds {', '.join(row) or 'nothing'}, which is no format that is known here")


def message(role: str, content: str) -> dict[str, str]:
    """Returns a message."""
    return {"role": role, "content": content}


def turn(said: Mapping[str, Any]) -> dict[str, str]:
    """Returns the message that ShareGPT's turn is; calls of tools are written in too many ways to know them all."""
    if said.get("from") not in ROLES:
        raise ValueError(f"a turn is from {said.get('from')!r}; known: {', '.join(ROLES)}")
    return message(ROLES[said["from"]], said["value"])


def main() -> None:
    """Converts the files that are named."""
    for name in sys.argv[1:]:
        number = 0
        try:
            for number, row in enumerate(rows(Path(name)), 1):  # noqa: B007
                print(json.dumps(convert(row), ensure_ascii=False))
        except (OSError, ImportError, UnicodeDecodeError) as error:
            sys.exit(f"{name} cannot be read: {error}")
        except json.JSONDecodeError as error:
            sys.exit(f"{name} is no JSON behind row {number}: {error}")
        except (ValueError, KeyError, AttributeError, TypeError, csv.Error) as error:
            sys.exit(f"{name}, row {number}: {error}")


if __name__ == "__main__":
    main()
