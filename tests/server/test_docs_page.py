"""The page about the interface: whole, by itself, and without a script."""

import re

from starlette.testclient import TestClient

from gesso.server.docs_page import page_of


def test_the_page_shows_every_request_and_every_field(client: TestClient) -> None:
    response = client.get("/docs")
    page, document = response.text, client.get("/openapi.json").json()
    for path, methods in document["paths"].items():
        for method in methods:
            assert f'id="{method.upper()}-{path}"' in page
    for name, schema in document["components"]["schemas"].items():
        assert f'<h3 id="{name}">' in page
        for field in schema.get("properties", {}):
            assert f"<code>{field}</code>" in page
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(re.findall(r'id="([^"]+)"', page))


def test_it_asks_no_other_host_and_runs_nothing(client: TestClient) -> None:
    response = client.get("/docs")
    assert "<script" not in response.text
    assert not re.search(r'(src|href)="(https?:)?//', response.text)
    assert response.headers["content-security-policy"].startswith("default-src 'none'")


def test_what_a_field_may_be() -> None:
    fields = {
        "a": {"type": "integer", "minimum": 1, "maximum": 10_000, "description": "<b>", "default": 5},
        "b": {"anyOf": [{"$ref": "#/components/schemas/B"}, {"type": "array", "items": {"type": "string"}}]},
        "c": {"enum": ["x", "y"]},
        "d": {"type": "object", "additionalProperties": {"type": "number"}},
        "e": {},
    }
    schemas = {"A": {"properties": fields, "required": ["c"]}, "B": {"enum": ["z"]}}
    page = page_of({"info": {"title": "t", "version": "1"}, "paths": {}, "components": {"schemas": schemas}})
    for row in (
        "<td><code>a</code></td><td>integer, at least 1, at most 10,000</td><td>&lt;b&gt; [default: 5]</td>",
        '<td><code>b</code></td><td><a href="#B">B</a> or array of string</td>',
        "<td><code>c</code>*</td><td><code>x</code>, <code>y</code></td>",
        "<td>object of number</td>",
        "<td>anything</td>",
        "<td><code></code></td><td><code>z</code></td>",
    ):
        assert row in page
