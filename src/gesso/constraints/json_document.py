"""Reads a JSON Schema as a document: its drafts, where its parts stand, and what its references mean.

Life cycle: a `Document` walks the schema once. Every subschema gets its JSON pointer, its base URI (`$id`, and `id` in
draft 4) and its draft (`$schema`); anchors and embedded resources are listed. `modern` then gives a subschema in the
keywords of draft 2020-12, and `resolve` follows a reference. What a draft does not know is an annotation, as the
standard says, unless `strict` refuses it; either way it is listed in `ignored`.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from gesso.constraints.json_drafts import KEYWORDS, OTHERS_ANNOTATIONS, OTHERS_FORMATS
from gesso.constraints.json_formats import FORMATS, contradicts
from gesso.constraints.json_keywords import REFERENCES, same
from gesso.constraints.json_places import Place, Schema, check_nesting, children, escape_pointer
from gesso.constraints.json_scopes import Scopes
from gesso.errors import OptionError

_INDEX = re.compile("0|[1-9][0-9]{0,9}")
"""Index of an item in a JSON pointer."""


class Document:
    """Holds one schema with everything inside it.

    Args:
        base: the URI that it has where it names none.
        draft: that it is of where it names none.

    Raises:
        OptionError: it is nested too deeply, or names a draft that is not known.
    """

    def __init__(self, root: Schema, strict: bool = False, base: str = "", draft: int = 0) -> None:
        self.root, self.strict = root, strict
        self.read: dict[int, tuple[Place, Schema]] = {}
        """Where parts stand, and what they say as `modern` gives it; by identity."""
        self.expanded: dict[Any, Any] = {}
        """What parts are expanded to, and `apart` which of them are (see `json_alternatives`); by identity and more."""
        self.apart: dict[tuple[int, int], dict[tuple[int, int, int], bool]] = {}
        self.ignored: dict[str, None] = {}
        """Pointers of the keywords and formats that say nothing here, in the order they were met."""
        self.unsaid: OptionError | None = None
        """Why nothing is left of the first `oneOf` of which that is so; it is told where no value is left at all."""
        self.has_unevaluated = False
        """Whether `unevaluatedProperties` or `unevaluatedItems` is somewhere."""
        self._leads_back: dict[str, bool] | None = None
        self.only_plain_integers = False
        """Whether some part is of draft 4, to which 1.0 is no integer."""
        self._places: dict[int, Place] = {}
        self._resources: dict[str, Schema] = {}
        self._twice: set[str] = set()
        """URIs that several resources have, which are not the same."""
        self._anchors: dict[tuple[str, str], Schema] = {}
        self._dynamic: dict[str, dict[str, Schema]] = {}
        """Schemas with a `$dynamicAnchor` by its name and their base URI; those with a `$recursiveAnchor` by ""."""
        self._kept: list[Schema] = []
        check_nesting(root)
        self._walk(root, Place("#", base, draft))
        self._resources.setdefault(base, root)
        self._scopes = Scopes(self._places, self._resources, self._dynamic)
        if isinstance(root, dict):
            self.root = self._scopes.enter(root, self._places[id(root)], ())

    def place(self, schema: Schema, pointer: str) -> Place:
        """Says where a subschema stands; one that was put together from others stands at `pointer`."""
        return self._places.get(id(schema)) or Place(pointer, "", 0)

    def holds(self, schema: Schema) -> bool:
        """Tells whether this very object is a part of the document, which it outlives."""
        return id(schema) in self._places

    def ignore(self, pointer: str, what: str) -> None:
        """Notes that a keyword says nothing.

        Raises:
            OptionError: the document is read strictly.
        """
        if self.strict:
            raise OptionError(f"{pointer}: {what}")
        self.ignored[pointer] = None

    def resolve(self, reference: str, place: Place) -> tuple[Schema, Place]:
        """Says what a reference in the subschema at `place` leads to.

        Raises:
            OptionError: it leads nowhere, or out of the document.
        """
        uri, fragment = _joined(place.base, reference, f"{place.pointer}/$ref")
        fragment = unquote(fragment)
        if uri in self._twice:
            raise OptionError(f"{place.pointer}/$ref: {reference!r:.80}: several schemas have the name {uri!r:.80}")
        if uri not in self._resources:
            raise OptionError(
                f"{place.pointer}/$ref: {reference!r:.80}: only references into the schema itself are supported"
            )
        if fragment and not fragment.startswith("/"):
            if (uri, fragment) not in self._anchors:
                raise OptionError(f"{place.pointer}/$ref: {reference!r:.80} leads nowhere")
            return self._enter(self._anchors[uri, fragment], place, reference)
        node, found = self._enter(self._resources[uri], place, "#")
        for part in fragment.split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            try:
                node = node[int(key) if _INDEX.fullmatch(key) else len(node)] if isinstance(node, list) else node[key]
            except (LookupError, TypeError):
                raise OptionError(f"{place.pointer}/$ref: {reference!r:.80} leads nowhere") from None
            outside = found.base
            step = f"{found.pointer}/{escape_pointer(key)}"
            found = self._places.get(id(node)) or Place(step, found.base, found.draft, found.scope)
            if found.base != outside and self._scopes.needed:
                node, found = self._enter(self._resources[found.base], place, step)
        if id(node) not in self._places and isinstance(node, dict):
            # Under a keyword that no draft knows: what a reference leads to is a schema all the same.
            self._walk(node, found)
        return node, self.place(node, found.pointer)

    def resolve_dynamic(self, keyword: str, reference: str, place: Place) -> tuple[Schema, Place]:
        """Says what a `$dynamicRef` or `$recursiveRef` in the subschema at `place` leads to.

        Raises:
            OptionError: it leads nowhere, or its like do on too many ways.
        """
        target, there = self.resolve(reference, place)
        name = unquote(urldefrag(reference)[1]) if keyword == "$dynamicRef" else ""
        anchor = ("$dynamicAnchor", name) if keyword == "$dynamicRef" else ("$recursiveAnchor", True)
        if isinstance(target, dict) and anchor in target.items():
            decided = self._scopes.decided(name, place.scope)
            return (target, there) if decided is None else self._enter(decided[0], place, decided[1].pointer)
        return target, there

    def _enter(self, node: Schema, place: Place, pointer: str) -> tuple[Schema, Place]:
        """A part of the schema as it is meant where it is come to from `place`."""
        found = self._scopes.enter(node, self.place(node, pointer), place.scope)
        return found, self.place(found, pointer)

    def outside(self) -> Iterator[tuple[dict[str, Any], str, str, str]]:
        """Yields what refers to another document, or to this one by its address: a subschema, which of its keywords,
        the URI and the fragment."""
        for node in self._kept:
            for keyword in ("$ref", "$dynamicRef"):
                reference = node.get(keyword)
                if isinstance(reference, str) and reference[:1] not in ("", "#"):
                    place = self._places[id(node)]
                    uri, fragment = _joined(place.base, reference, f"{place.pointer}/{keyword}")
                    if uri not in self._resources or self._resources[uri] is self._kept[0]:
                        yield node, keyword, uri, fragment

    def leads_back(self, place: Place) -> bool:
        """Tells whether what stands there has, in itself or behind its references, a reference to it; also where it
        is not known."""
        if self._scopes.needed:
            return True
        if self._leads_back is None:
            self._leads_back = self._find_recursive()
        return self._leads_back.get(place.pointer, True)

    def _find_recursive(self) -> dict[str, bool]:
        references: list[tuple[str, str]] = []
        for node in self._kept:
            place = self._places[id(node)]
            for keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
                if isinstance(node.get(keyword), str):
                    # One that leads nowhere is refused where it is met.
                    with suppress(OptionError):
                        references.append((place.pointer + "/", self.resolve(node[keyword], place)[1].pointer))
        ways = {target: {to for at, to in references if at.startswith(f"{target}/")} for _, target in references}
        found = {}
        for target, direct in ways.items():
            seen, left = set(direct), list(direct)
            while left and target not in seen:
                fresh = ways[left.pop()] - seen
                seen |= fresh
                left += fresh
            found[target] = target in seen
        return found

    def modern(self, schema: dict[str, Any], place: Place) -> dict[str, Any]:
        """Returns a subschema in the keywords of draft 2020-12, without those that say nothing."""
        draft = place.draft
        if "$ref" in schema and draft in (4, 6, 7):
            return {"$ref": schema["$ref"]}
        known = KEYWORDS[draft]
        found = {}
        for keyword, value in schema.items():
            if keyword in known:
                found[keyword] = value
            elif keyword not in OTHERS_ANNOTATIONS and not str(keyword).startswith("x-"):
                self.ignore(f"{place.pointer}/{escape_pointer(str(keyword))}", "this keyword is not known")
        self._leave_out_format(found, place)
        if draft in (0, 4):
            for bound, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
                if isinstance(found.get(bound), bool) and found.pop(bound) and limit in found:
                    found[bound] = found.pop(limit)
        if draft != 2020 and isinstance(found.get("items"), list):
            prefix, rest = found.pop("items"), found.pop("additionalItems", True)
            found |= {"prefixItems": prefix} if prefix else {}
            found |= {"items": rest} if rest is not True or "additionalItems" in schema else {}
        found.pop("additionalItems", None)
        for name, value in found.pop("dependencies", {}).items() if isinstance(found.get("dependencies"), dict) else ():
            kind = "dependentRequired" if isinstance(value, list) else "dependentSchemas"
            if isinstance(told := found.setdefault(kind, {}), dict):  # else it is refused where it is read
                found[kind] = {**told, name: _both(told[name], value) if name in told else value}
        return found

    def _leave_out_format(self, found: dict[str, Any], place: Place) -> None:
        """Takes a format out of a subschema that says nothing there."""
        if isinstance(name := found.get("format"), str) and name not in FORMATS:
            if name not in OTHERS_FORMATS:
                self.ignore(f"{place.pointer}/format", f"the format {name!r:.60} is not known")
            del found["format"]
        pattern = found.get("pattern")
        if "format" in found and isinstance(pattern, str) and contradicts(found["format"], pattern):
            # By the standard a format is an annotation, and some write `time` beside a pattern without an offset.
            self.ignored[f"{place.pointer}/format"] = None
            del found["format"]

    def _walk(self, root: Schema, place: Place) -> None:
        waiting = [(root, place)]
        while waiting:
            node, place = waiting.pop()
            if not isinstance(node, dict):
                continue
            draft, base = self._draft(node, place), place.base
            self.only_plain_integers |= draft == 4
            self.has_unevaluated |= "unevaluatedProperties" in node or "unevaluatedItems" in node
            name = node.get("id" if draft == 4 else "$id")
            alone = "$ref" in node and draft in (4, 6, 7)
            if isinstance(name, str) and name not in ("", "#") and not alone:
                uri, fragment = _joined(base, name, f"{place.pointer}/$id")
                if fragment and uri == base:
                    self._anchors[base, unquote(fragment)] = node
                else:
                    base = uri
                    if (known := self._resources.setdefault(uri, node)) is not node and not same(known, node):
                        self._twice.add(uri)
            elif place.pointer == "#":
                self._resources.setdefault(base, node)
            for keyword in ("$anchor", "$dynamicAnchor"):
                if isinstance(node.get(keyword), str) and draft in (0, 2019, 2020):
                    self._anchors[base, node[keyword]] = node
            if isinstance(node.get("$dynamicAnchor"), str) and draft in (0, 2020):
                self._dynamic.setdefault(node["$dynamicAnchor"], {}).setdefault(base, node)
            if node.get("$recursiveAnchor") is True and node is self._resources.get(base):
                self._dynamic.setdefault("", {}).setdefault(base, node)
            here = Place(place.pointer, base, draft, place.scope)
            other = self._places.get(id(node), here)
            if other.draft != draft or (other.base != base and node.keys() & REFERENCES):
                raise OptionError(f"{here.pointer}: the same object stands at {other.pointer}, under another $id")
            self._places[id(node)] = here
            self._kept.append(node)
            waiting += [(child, replace(here, pointer=f"{here.pointer}/{way}")) for way, child in children(node)]

    def _draft(self, node: dict[str, Any], place: Place) -> int:
        named = node.get("$schema")
        if not isinstance(named, str):
            return place.draft
        for mark, draft in (("draft-04", 4), ("draft-06", 6), ("draft-07", 7), ("2019-09", 2019), ("2020-12", 2020)):
            if f"json-schema.org/{mark}" in named or f"json-schema.org/draft/{mark}" in named:
                return draft
        if "json-schema.org/schema" in named:
            return 0
        self.ignore(f"{place.pointer}/$schema", f"the draft {named!r:.80} is not known")
        # Another vocabulary, mostly one made on top of the draft of its time.
        return place.draft


def _joined(base: str, reference: str, pointer: str) -> tuple[str, str]:
    """The URI and the fragment of a reference against a base URI of any scheme: `urljoin` takes a fragment alone for
    absolute behind `urn:`.

    Raises:
        OptionError: it is no reference.
    """
    try:
        uri, fragment = urldefrag(base + reference if reference[:1] in ("", "#") else urljoin(base, reference))
    except ValueError as error:
        raise OptionError(f"{pointer}: {reference!r:.80} is no URI: {error}") from None
    return uri, fragment


def _both(one: Any, other: Any) -> Any:
    """What `dependent...` and `dependencies` say together of one name; what is malformed stays so."""
    if isinstance(other, list):
        return [*one, *other] if isinstance(one, list) else one
    return {"allOf": [one, other]}
