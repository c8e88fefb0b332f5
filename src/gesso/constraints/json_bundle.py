"""Reads a JSON Schema from a file, with the files that its references lead to, as one schema.

A reference is resolved as the standard says, against the `$id`s around it or else the file's own place; what it leads
to is looked for on this machine alone: beside the file, for an address that stands as far from the file's `$id` as the
other file from it. Each file becomes a part of the first one with a name of its own, so that the result can be given
to `generate`, or sent to a server, by itself. An address of the web is left as it is; nothing is fetched.
"""

import json
import os
import posixpath
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit
from urllib.request import url2pathname

from gesso.constraints.json_document import Document
from gesso.constraints.json_places import Schema
from gesso.errors import OptionError
from gesso.options.paths import checked_path

MAX_FILES = 100
_OLD = (4, 6, 7)
"""Drafts in which nothing counts beside a `$ref`."""


def read_schema(path: str | Path) -> Schema:
    """Returns the schema of a file, and of those that it refers to.

    Raises:
        OptionError: a file cannot be read or is no JSON, two files have the same `$id`, or there are too many files.
    """
    given = checked_path("path", path)
    first = _File(_absolute(given), _read(given), 0, 0)
    files = {first.path: first}
    waiting = [first]
    while waiting:
        for other in waiting.pop().reachable(files):
            if len(files) == MAX_FILES:
                raise OptionError(f"{path}: its references lead to more than {MAX_FILES} files")
            files[other] = _File(other, _read(other), len(files), first.draft)
            waiting.append(files[other])
    names: dict[str, _File] = {}
    for file in files.values():
        if names.setdefault(file.name, file) is not file:
            raise OptionError(f"{file.path} and {names[file.name].path} have the same $id {file.name!r:.80}")
    renamed = [file.rename(files) for file in files.values()]
    if not any(renamed):
        return first.schema
    whole = first.named()
    where = "definitions" if first.draft in _OLD else "$defs"
    parts = dict(whole.get(where, {})) if isinstance(whole.get(where, {}), dict) else {}
    for file in list(files.values())[1:]:
        key = file.name
        while key in parts:
            key += "'"
        parts[key] = file.named()
    return {**whole, where: parts} if len(files) > 1 else whole


class _File:
    """A schema, and what it refers to outside of itself."""

    def __init__(self, path: Path, schema: Schema, number: int, draft: int) -> None:
        """`draft` is that of a schema which names none."""
        self.path, self.schema = path, schema
        self.address = path.as_uri()
        try:
            document = Document(schema, base=self.address, draft=draft)
            self.outside = list(document.outside())
        except OptionError as error:
            raise OptionError(f"{path}: {error}") from None
        place = document.place(schema, "#")
        self.draft = place.draft if isinstance(schema, dict) else draft
        self.base = place.base if isinstance(schema, dict) else self.address
        """The address that its own `$id` gives it, or its place."""
        self.own = "" if urlsplit(self.base).scheme == "file" else self.base
        # A name that relative `$id`s inside can be joined to, as an address of the web that there will never be.
        self.name = self.own or f"https://{number}.schema.invalid/{quote(os.fsencode(path.name))}"

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
                if not _is_file(other):
                    raise OptionError(f"{self.path}: {keyword} {node[keyword]!r:.80}: there is no {other}")
                found[other] = None
        return list(found)

    def located(self, uri: str, known: dict[Path, "_File"]) -> Path | None:
        """The file that an address stands for; None where it is of the web."""
        for file in (self, *known.values()):
            if uri in (file.base, file.address):
                return file.path
        there, here = urlsplit(uri), urlsplit(self.base)
        local = there.scheme == "file" and there.netloc in ("", "localhost")
        if here.path.startswith("/") and there.path.startswith("/") and there[:2] == here[:2] and not there.query:
            way = posixpath.relpath(unquote(there.path), posixpath.dirname(unquote(here.path)))
            beside = _absolute(self.path.parent / way)
            if local or _is_file(beside):
                return beside
        return _absolute(Path(url2pathname(there.path))) if local else None

    def named(self) -> dict[str, Any]:
        """The schema as a part that references find by its name."""
        schema = self.schema if isinstance(self.schema, dict) else {"allOf": [self.schema]}
        if "$ref" in schema and self.draft in _OLD:
            # Beside a reference nothing else would count there, a name neither; pointers must not find what is new.
            kept = {key: schema[key] for key in ("$schema", "definitions", "$defs") if key in schema}
            free = next((key for key in ("allOf", "anyOf", "oneOf") if key not in schema), "allOf")
            schema = {**kept, free: [{"$ref": schema["$ref"]}]}
        return {**schema, "id" if self.draft == 4 else "$id": self.name}


def _absolute(path: Path) -> Path:
    """A path without dots. Links are not followed: what stands beside a file stands beside its name."""
    return Path(os.path.abspath(path))  # noqa: PTH100


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # no name that a file can have
        return False


def _read(path: Path) -> Schema:
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise OptionError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise OptionError(f"{path}: no UTF-8 text: {error}") from None
    except (ValueError, RecursionError) as error:
        raise OptionError(f"{path}: no JSON: {error}") from None
