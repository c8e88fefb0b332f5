"""A schema of several files is read as one."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import gesso
from gesso.constraints.json_bundle import read_schema
from gesso.errors import OptionError


def write(folder: Path, **files: Any) -> Path:
    """Writes schemas under their names, with `__` for a folder; the first is the one to read."""
    for name, schema in files.items():
        path = folder / f"{name.replace('__', '/')}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(schema), encoding="utf-8")
    return folder / f"{next(iter(files))}.json"


def holds(path: Path, valid: list[Any], invalid: list[Any]) -> None:
    """What the constraint takes is what a validator says of the schema that was read."""
    schema = read_schema(path)
    taken = gesso.constraint(json_schema=schema)
    draft = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)(schema)
    for value in valid:
        assert draft.is_valid(value), value
        assert taken.accepts(json.dumps(value)), value
    for value in invalid:
        assert not draft.is_valid(value), value
        assert not taken.accepts(json.dumps(value)), value


COUNT = {"type": "integer", "minimum": 0}
NAME = {"type": "string", "maxLength": 3}


def closed(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def test_a_schema_of_one_file_is_what_stands_in_it(tmp_path: Path) -> None:
    schema = closed(a={"$ref": "#/$defs/n"}) | {"$defs": {"n": COUNT}}
    assert read_schema(write(tmp_path, one=schema)) == schema
    assert read_schema(write(tmp_path, other=True)) is True


def test_references_lead_to_files_beside_it_and_on_from_there(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        order=closed(item={"$ref": "parts/item.json"}, count={"$ref": "common.json#/$defs/count"}),
        common={"$defs": {"count": COUNT, "name": NAME}},
        parts__item=closed(name={"$ref": "../common.json#/$defs/name"}, of={"$ref": "item.json"}),
    )
    holds(
        path,
        [{"item": {"name": "ab", "of": {"name": "c"}}, "count": 2}],
        [{"item": {"name": "abcd"}}, {"count": -1}, {"item": {"of": {"name": 1}}}],
    )


def test_a_file_may_refer_to_itself_and_back_by_name(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        tree=closed(leaf={"$ref": "tree.json#/$defs/leaf"}, down={"$ref": "twig.json"}) | {"$defs": {"leaf": COUNT}},
        twig=closed(leaf={"$ref": "tree.json#/$defs/leaf"}, tree={"$ref": "tree.json"}),
    )
    holds(path, [{"leaf": 1, "down": {"leaf": 2, "tree": {"leaf": 3}}}], [{"down": {"leaf": "x"}}, {"down": {"x": 1}}])


@pytest.mark.parametrize("draft", [4, 6, 7])
def test_old_drafts_say_it_their_way(tmp_path: Path, draft: int) -> None:
    address = f"http://json-schema.org/draft-0{draft}/schema#"
    path = write(
        tmp_path,
        start={"$schema": address, "$ref": "record.json"},
        record={"$ref": "names.json#/definitions/record"},
        names={"definitions": {"record": closed(a={"$ref": "#/definitions/n"}), "n": NAME}},
    )
    holds(path, [{"a": "ab"}], [{"a": "abcd"}, {"b": 1}])


def test_addresses_of_the_web_stand_for_the_files_beside(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        start={
            "$id": "https://e.x/s/start.json",
            **closed(a={"$ref": "sub/part.json"}, b={"$ref": "/s/sub/part.json"}),
        },
        sub__part={"$id": "https://e.x/s/sub/part.json", **closed(n={"$ref": "../count.json"})},
        count=COUNT,
    )
    holds(path, [{"a": {"n": 1}, "b": {"n": 2}}], [{"a": {"n": "x"}}, {"b": {"m": 1}}])


def test_what_is_not_here_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"a.json: .ref 'gone.json#/x': there is no .*gone.json"):
        read_schema(write(tmp_path, a={"$ref": "gone.json#/x"}))
    with pytest.raises(OptionError, match="No such file"):
        read_schema(tmp_path / "none.json")
    (tmp_path / "bad.json").write_text("{", encoding="utf-8")
    with pytest.raises(OptionError, match=r"bad.json: no JSON"):
        read_schema(write(tmp_path, b={"$ref": "bad.json"}))
    far = write(tmp_path, c={"$ref": "https://e.x/far.json"})
    assert read_schema(far) == {"$ref": "https://e.x/far.json"}
    with pytest.raises(OptionError, match="only references into the schema itself"):
        gesso.constraint(json_schema=read_schema(far))


def test_files_without_end_are_refused(tmp_path: Path) -> None:
    files = {f"f{number}": {"$ref": f"f{number + 1}.json"} for number in range(120)}
    with pytest.raises(OptionError, match="more than 100 files"):
        read_schema(write(tmp_path, **files))


def test_names_inside_of_files_stay_apart(tmp_path: Path) -> None:
    def item(kind: str) -> dict[str, Any]:
        return {"$ref": "item", "$defs": {"i": {"$id": "item", "type": kind}}}

    path = write(
        tmp_path,
        start=closed(p={"$ref": "x/s.json"}, q={"$ref": "y/s.json"}),
        x__s=item("integer"),
        y__s=item("string"),
    )
    holds(path, [{"p": 1, "q": "s"}], [{"p": 1, "q": 2}, {"p": "s"}])


def test_files_with_relative_names_of_their_own(tmp_path: Path) -> None:
    path = write(tmp_path, a={"$id": "a.json", **closed(n={"$ref": "b.json"})}, b={"$id": "b.json", **COUNT})
    holds(path, [{"n": 1}], [{"n": "x"}])
    path = write(tmp_path, c={"$id": "/s/c.json", **closed(n={"$ref": "/s/d.json"})}, d={"$id": "/s/d.json", **COUNT})
    holds(path, [{"n": 1}], [{"n": "x"}])


def test_files_of_one_name_are_refused(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        a={"$id": "https://e.x/root.json", **closed(n={"$ref": "b.json"})},
        b={"$id": "https://e.x/root.json", **COUNT},
    )
    with pytest.raises(OptionError, match=r"have the same \$id"):
        read_schema(path)


def test_a_file_without_a_draft_is_of_the_first_ones(tmp_path: Path) -> None:
    old = {"$schema": "http://json-schema.org/draft-04/schema#"}
    inner = {"id": "sub/", "allOf": [{"$ref": "c.json"}]}
    path = write(tmp_path, a={**old, "allOf": [{"$ref": "b.json"}]}, b=closed(x=inner), c=NAME, sub__c=COUNT)
    holds(path, [{"x": 1}], [{"x": "s"}])


def test_beside_a_reference_nothing_is_found_in_old_drafts(tmp_path: Path) -> None:
    old = {"$schema": "http://json-schema.org/draft-07/schema#"}
    beside = {"$ref": "#/definitions/n", "allOf": [NAME], "definitions": {"n": COUNT}}
    schema = read_schema(write(tmp_path, a={**old, "allOf": [{"$ref": "b.json#/allOf/0"}]}, b=beside))
    with pytest.raises(OptionError, match="leads nowhere"):
        gesso.constraint(json_schema=schema)


def test_links_stand_beside_their_names(tmp_path: Path) -> None:
    store = write(tmp_path / "store", h1={"$ref": "b.json"}, h2=COUNT).parent
    for name, target in (("a", "h1"), ("b", "h2")):
        (tmp_path / f"{name}.json").symlink_to(store / f"{target}.json")
    holds(tmp_path / "a.json", [1], ["x"])


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "http://[x/"},
        {"$ref": "a%00b.json"},
        {"$ref": "\ud800.json"},
        {"$ref": f"{'x' * 300}.json"},
        {"$ref": "//host/tmp/x.json#"},
        {"$defs": [], "$ref": "part.json"},
        {"$id": "https://e.x/schema?v=1", "$ref": "schema?v=2"},
    ],
)
def test_what_leads_nowhere_is_refused(tmp_path: Path, schema: Any) -> None:
    write(tmp_path, part={"$ref": "nowhere.json"})
    with pytest.raises(OptionError):
        gesso.constraint(json_schema=read_schema(write(tmp_path, start=schema)))


def test_a_byte_order_mark_is_no_part_of_a_schema(tmp_path: Path) -> None:
    path = tmp_path / "marked.json"
    path.write_text('{"type": "integer"}', encoding="utf-8-sig")
    assert read_schema(path) == {"type": "integer"}
