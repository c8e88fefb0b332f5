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
