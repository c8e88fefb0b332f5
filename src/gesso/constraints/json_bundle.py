"""Reads a JSON Schema from a file, with the files that its references lead to, as one schema.

A reference is resolved as the standard says, against the `$id`s around it or else the file's own place; what it leads
to is looked for on this machine alone: beside the file, for an address that stands as far from the file's `$id` as the
other file from it. Each file becomes a part of the first one with a name of its own, so that the result can be given
to `generate`, or sent to a server, by itself. An address of the web is left as it is; nothing is fetched.
"""

import json
import posixpath
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit
from urllib.request import url2pathname

from gesso.constraints.json_document import Document
from gesso.constraints.json_places import Schema
from gesso.errors import OptionError

MAX_FILES = 100


def read_schema(path: str | Path) -> Schema:
    """Returns the schema of a file, and of those that it refers to.

    Raises:
        OptionError: a file cannot be read, is no JSON, or there are too many.
    """
    first = Path(path).resolve()
    first_file = _File(first, _read(Path(path)), 0, 0)
    files = {first: first_file}
    waiting = [first_file]
    while waiting:
        for other in waiting.pop().reachable(files):
            if len(files) == MAX_FILES:
                raise OptionError(f"{path}: its references lead to more than {MAX_FILES} files")
            files[other] = _File(other, _read(other), len(files), first_file.draft)
            waiting.append(files[other])
    renamed = [file.rename(files) for file in files.values()]
    if not any(renamed):
        return first_file.schema
    parts = {file.name: file.named() for file in files.values() if file is not first_file}
    where = "definitions" if first_file.draft in (4, 6, 7) else "$defs"
    whole = first_file.named()
    return {**whole, where: {**whole.get(where, {}), **parts}} if parts else whole


class _File:
    """A schema, and what it refers to outside of itself."""

    def __init__(self, path: Path, schema: Schema, number: int, draft: int) -> None:
        """`draft` is that of a schema which names none."""
        self.path, self.schema = path, schema
        self.address = path.as_uri()
        try:
            document = Document(self.schema, base=self.address)
        except OptionError as error:
            raise OptionError(f"{path}: {error}") from None
        place = document.place(self.schema, "#")
        self.draft = place.draft or draft
        self.own = place.base if isinstance(self.schema, dict) and place.base != self.address else ""
        """The address that its own `$id` gives it."""
        self.name = self.own or f"urn:schema:{number}:{quote(path.name)}"
        self.outside = list(document.outside())

    def rename(self, files: dict[Path, "_File"]) -> bool:
        """Makes its references to files those to their names; tells whether there were any."""
        found = False
        for node, keyword, uri, fragment in self.outside:
            if (other := self.located(uri, files)) is not None:
                node[keyword] = files[other].name + (f"#{fragment}" if fragment else "")
                found = True
        return found

    def reachable(self, known: dict[Path, "_File"]) -> list[Path]:
        """The files it refers to that are not known yet, each once."""
        found: dict[Path, None] = {}
        for node, keyword, uri, _ in self.outside:
            other = self.located(uri, known)
            if other is not None and other not in known:
                if not other.is_file():
                    raise OptionError(f"{self.path}: {keyword} {node[keyword]!r:.80}: there is no {other}")
                found[other] = None
        return list(found)

    def located(self, uri: str, known: dict[Path, "_File"]) -> Path | None:
        """The file that an address stands for; None where it is of the web."""
        for file in known.values():
            if uri in (file.own, file.address):
                return file.path
        there, here = urlsplit(uri), urlsplit(self.own)
        if there.scheme == "file":
            return Path(url2pathname(there.path)).resolve()
        paths = there.path.startswith("/") and here.path.startswith("/")
        if paths and (there.scheme, there.netloc) == (here.scheme, here.netloc):
            way = posixpath.relpath(unquote(there.path), posixpath.dirname(unquote(here.path)))
            beside = (self.path.parent / way).resolve()
            return beside if beside.is_file() else None
        return None

    def named(self) -> dict[str, Any]:
        """The schema as a part that references find by its name."""
        schema = self.schema if isinstance(self.schema, dict) else {"allOf": [self.schema]}
        if self.own:
            return schema
        if "$ref" in schema and self.draft in (4, 6, 7):
            # Beside a reference nothing else would count there, a name neither.
            kept = {key: schema[key] for key in ("$schema", "definitions", "$defs") if key in schema}
            schema = {**kept, "allOf": [{"$ref": schema["$ref"]}]}
        return {"id" if self.draft == 4 else "$id": self.name, **schema}


def _read(path: Path) -> Schema:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise OptionError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise OptionError(f"{path}: no UTF-8 text: {error}") from None
    except (ValueError, RecursionError) as error:
        raise OptionError(f"{path}: no JSON: {error}") from None
