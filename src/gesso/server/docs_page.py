"""Serves `GET /docs`: every field of every request and answer on one page without a script, written from the OpenAPI
document."""

from collections.abc import Iterator, Mapping
from typing import Any

from fastapi import APIRouter, FastAPI
from jinja2 import Environment
from markupsafe import Markup, escape
from starlette.responses import HTMLResponse

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
HEADERS = {"Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}
BOUNDS = {
    "minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most", "exclusiveMaximum": "below",
    "minLength": "characters, at least", "maxLength": "characters, at most", "minItems": "items, at least",
    "maxItems": "items, at most",
}  # fmt: skip
PAGE = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string("""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ title }} {{ version }}: the API</title>
<style>
:root { color-scheme: light dark; }
body { max-width: 70rem; margin: 0 auto; padding: 1rem; font: 1rem/1.5 system-ui, sans-serif; }
code { font: 0.9em ui-monospace, monospace; overflow-wrap: anywhere; }
summary { padding: 0.3rem 0; cursor: pointer; }
summary b { display: inline-block; min-width: 5rem; }
table { border-collapse: collapse; width: 100%; }
th, td { padding: 0.25rem 0.75rem 0.25rem 0; border-top: 1px solid #8884; text-align: left; vertical-align: top; }
td:first-child { width: 14rem; overflow-wrap: anywhere; }
:target { background: #fa04; }
</style>
<h1>{{ title }} {{ version }}</h1>
<p>{{ summary }} The same as data: <a href="openapi.json">openapi.json</a>. Fields marked * must be given.</p>
<h2>Requests</h2>
{% for one in requests %}
<details id="{{ one.method }}-{{ one.path }}">
<summary><b>{{ one.method }}</b> <code>{{ one.path }}</code> {{ one.description or one.summary }}</summary>
{% if one.parameters %}{{ table(one.parameters) }}{% endif %}
{% for name, kind in one.kinds %}<p>{{ name }}: {{ kind }}</p>{% endfor %}
</details>
{% endfor %}
<h2>Objects</h2>
{% for name, schema in schemas.items() %}
<h3 id="{{ name }}">{{ name }}</h3>
{% if schema.description %}<p>{{ schema.description }}</p>{% endif %}
{{ table(fields(schema)) }}
{% endfor %}
</html>
""")
TABLE = Environment(autoescape=True).from_string(
    "<table>{% for row in rows %}<tr><td><code>{{ row.name }}</code>{{ '*' if row.required }}</td>"
    "<td>{{ row.kind }}</td><td>{{ row.description }}</td></tr>{% endfor %}</table>"
)


def docs_routes(app: FastAPI) -> APIRouter:
    """Makes the route of the page about the API of `app`, as it is when somebody asks."""
    router = APIRouter(include_in_schema=False)

    @router.get("/docs")
    def docs() -> HTMLResponse:  # in a thread: the first one takes a while
        return HTMLResponse(page_of(app.openapi()), headers=HEADERS)

    return router


def page_of(document: Mapping[str, Any]) -> str:
    """Writes the page of an OpenAPI document."""
    return PAGE.render(
        **document["info"],
        requests=list(_requests(document["paths"])),
        schemas=document.get("components", {}).get("schemas", {}),
        table=lambda rows: Markup(TABLE.render(rows=list(rows))),
        fields=_fields,
    )


def _requests(paths: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for path, methods in paths.items():
        for method, operation in methods.items():
            bodies = [("Body", operation["requestBody"])] if "requestBody" in operation else []
            bodies += [(f"Answer {status}", found) for status, found in operation["responses"].items()]
            kinds = [
                (f"{name} ({media})", _kind(content.get("schema", {})))
                for name, found in bodies
                for media, content in found.get("content", {}).items()
            ]
            parameters = [
                {**found, "kind": _kind(found["schema"]), "description": found.get("description", "")}
                for found in operation.get("parameters", ())
            ]
            described = {name: operation.get(name, "") for name in ("summary", "description")}
            yield {**described, "method": method.upper(), "path": path, "kinds": kinds, "parameters": parameters}


def _fields(schema: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Rows of an object's fields; of any other schema the one row that says what it is."""
    if "properties" not in schema:
        yield {"name": "", "kind": _kind(schema), "description": "", "required": False}
    for name, found in schema.get("properties", {}).items():
        default = f" [default: {found['default']}]" if found.get("default") not in (None, [], {}) else ""
        yield {
            "name": name,
            "kind": _kind(found),
            "description": found.get("description", "") + default,
            "required": name in schema.get("required", ()),
        }


def _kind(schema: Mapping[str, Any]) -> Markup:
    """What a value may be, with a link to each object that has a name."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return Markup('<a href="#{0}">{0}</a>').format(name)
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            return Markup(" or ").join(_kind(part) for part in schema[key])
    if "enum" in schema or "const" in schema:
        values = schema.get("enum", [schema.get("const")])
        return Markup(", ").join(Markup("<code>{}</code>").format(value) for value in values)
    kind = schema.get("type", "anything")
    if kind == "array":
        kind = Markup("array of {}").format(_kind(schema.get("items", {})))
    elif kind == "object" and isinstance(schema.get("additionalProperties"), Mapping):
        kind = Markup("object of {}").format(_kind(schema["additionalProperties"]))
    bounds = [f"{words} {schema[name]:,}" for name, words in BOUNDS.items() if name in schema]
    return Markup(", ").join([escape(kind), *map(escape, bounds)])
