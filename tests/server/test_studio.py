"""The studio's files: what is served, to whom, and under which policy."""

import json
import logging
import posixpath
import re

import pytest
from starlette.testclient import TestClient

from gesso.server.studio import POLICY, PREVIEW_POLICY
from gesso.studio import MEDIA_TYPES, PAGE, PREVIEW, page_files
from server.conftest import make_client
from server.fake import FakeService

FILES = page_files()
SOURCES = {name: file.content.decode() for name, file in FILES.items()}


def named_by(page: str) -> tuple[str, list[str]]:
    """The version of a page, and the files that it names."""
    named = re.findall(r'"studio/([0-9a-f]{16})/([^"]+)"', page)
    (version,) = {version for version, _ in named}
    assert page.count('"studio/') == len(named)
    return version, [name for _, name in named]


def test_the_page_and_all_its_files_are_served(client: TestClient) -> None:
    page = client.get("/")
    assert page.status_code == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    version, named = named_by(page.text)
    assert sorted(named) == ["icon.svg", PREVIEW, "studio.css", "studio.js"]
    kept = [(f"/studio/{version}/{name}", name, "immutable") for name in named]
    sources = [(f"/studio/{name}", name, "no-cache") for name in FILES]
    for path, name, caching in kept + sources:
        answer = client.get(path)
        assert answer.status_code == 200
        assert answer.headers["content-type"] == MEDIA_TYPES[f".{name.rpartition('.')[2]}"]
        assert answer.headers["content-security-policy"] == (PREVIEW_POLICY if name == PREVIEW else POLICY)
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert caching in answer.headers["cache-control"]
        assert caching == "immutable" or answer.content == FILES[name].content
    assert page.headers["cache-control"] == "no-cache"
    assert client.get("/studio/0123456789abcdef/studio.js").status_code == 404


def test_one_script_and_one_sheet_hold_all_that_the_page_is_made_of(client: TestClient) -> None:
    version, _ = named_by(client.get("/").text)
    script, styles = (client.get(f"/studio/{version}/studio.{kind}").text for kind in ("js", "css"))
    needed, found = {"main.js"}, set[str]()
    while needed > found:
        name = (needed - found).pop()
        found.add(name)
        targets = re.findall(r'^import .* from "(.+)";$', SOURCES[name], re.MULTILINE)
        needed |= {posixpath.normpath(posixpath.join(posixpath.dirname(name), target)) for target in targets}
    assert len(found) > 40
    for name in found:
        exported = re.findall(r"^export ((?:async )?(?:function|class|const) \w+)", SOURCES[name], re.MULTILINE)
        assert all(f"\n{text}" in script for text in exported), name
    sheets = re.findall(r'rel="stylesheet" href="studio/(.+)"', SOURCES[PAGE])
    assert len(sheets) > 3
    for name in sheets:
        rules = [line for line in SOURCES[name].splitlines() if line.endswith("}") and not line.startswith(" ")]
        assert rules
        assert all(line in styles for line in rules), name


def test_files_are_packed_for_who_takes_that(client: TestClient) -> None:
    version, _ = named_by(client.get("/").text)
    path = f"/studio/{version}/studio.js"
    plain = client.get(path, headers={"Accept-Encoding": "identity, gzip;q=0"})
    packed = client.get(path, headers={"Accept-Encoding": "br, gzip;q=0.8"})
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.content == plain.content
    assert int(packed.headers["content-length"]) < 0.4 * len(plain.content)
    assert plain.headers["vary"] == packed.headers["vary"] == "Accept-Encoding"
    assert plain.headers["etag"] != packed.headers["etag"]


def test_the_files_of_a_page_take_no_line_of_the_log_each(client: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "gesso.access")
    for path in ("/", "/studio/main.js", "/studio/none.js", "/version"):
        client.get(path)
    lines = [json.loads(record.message) for record in caplog.records if record.name == "gesso.access"]
    assert [line["path"] for line in lines] == ["/", "/studio/none.js", "/version"]


def test_the_policy_lets_nothing_else_in() -> None:
    parts = dict(part.split(" ", 1) for part in POLICY.split("; "))
    assert parts["default-src"] == parts["frame-ancestors"] == parts["base-uri"] == parts["form-action"] == "'none'"
    assert parts["script-src"] == parts["style-src"] == parts["connect-src"] == "'self'"
    assert not re.search(r"unsafe|\*|http|eval", POLICY)


def test_a_preview_has_no_origin_and_reaches_nobody() -> None:
    parts = dict(part.split(" ", 1) for part in PREVIEW_POLICY.split("; "))
    assert parts["default-src"] == parts["base-uri"] == parts["form-action"] == "'none'"
    assert parts["sandbox"] == "allow-scripts"
    assert parts["frame-ancestors"] == "'self'"
    assert not re.search(r"\*|http|eval|-src[^;]*'self'|connect", PREVIEW_POLICY)


@pytest.mark.parametrize("name", ["nosuch.js", "__init__.py", "jsconfig.json", "../app.py", "..%2fapp.py", "", "%00"])
def test_nothing_else_is_served(client: TestClient, name: str) -> None:
    answer = client.get(f"/studio/{name}")
    assert answer.status_code == 404
    assert set(answer.json()) == {"error"}


def test_what_a_browser_has_is_not_sent_again(client: TestClient) -> None:
    tag = client.get("/studio/main.js").headers["etag"]
    again = client.get("/studio/main.js", headers={"If-None-Match": tag})
    assert (again.status_code, again.content) == (304, b"")
    assert (again.headers["etag"], again.headers["vary"]) == (tag, "Accept-Encoding")
    for known, status in ((f'"x", W/{tag}', 304), ("*", 304), ('"x"', 200), (tag[1:-1], 200)):
        assert client.get("/studio/main.js", headers={"If-None-Match": known}).status_code == status
    assert client.get("/studio/ui/dom.js").headers["etag"] != tag
    assert client.head("/").status_code == 200


def test_files_need_no_key_and_the_api_behind_them_does(service: FakeService) -> None:
    client = make_client(service, api_keys=("secret",))
    for path in ("/", "/studio/main.js"):
        assert client.get(path).status_code == 200
    for path in ("/v1/models", "/v1/options", "/studio"):
        assert client.get(path).status_code == 401
    assert client.post("/studio/main.js").status_code == 401
    assert client.post("/").status_code == 401


def test_it_is_no_part_of_the_documented_interface(client: TestClient) -> None:
    assert not [path for path in client.get("/openapi.json").json()["paths"] if path == "/" or "studio" in path]


def test_it_is_small(client: TestClient) -> None:
    version, named = named_by(client.get("/").text)
    files = ["/", *(f"/studio/{version}/{name}" for name in named)]
    assert sum(int(client.get(path).headers["content-length"]) for path in files) < 75_000


def test_it_asks_no_other_host_and_makes_no_html_of_texts() -> None:
    # One file shows HTML that a model wrote, in a frame that has no origin.
    assert "document.write(" in SOURCES[PREVIEW]
    for name, source in SOURCES.items():
        if name == PREVIEW:
            continue
        addresses = set(re.findall(r"https?://[^\s\"'`<>()\\]+", source)) - {"http://www.w3.org/2000/svg"}
        assert all(not re.match(r"https?://[\w.-]+\.\w", address) for address in addresses), (name, addresses)
        forbidden = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|DOMParser|@import"
        assert not re.search(forbidden, source), name


def test_every_module_is_checked_and_none_is_long() -> None:
    for name, source in SOURCES.items():
        if name.endswith(".js"):
            assert source.startswith("// @ts-check\n"), name
        assert source.count("\n") <= 300, name


def test_every_import_names_a_file_that_is_there() -> None:
    for name, source in SOURCES.items():
        for target in re.findall(r"from \"(\.[^\"]+)\"", source):
            folder, parts = name.split("/")[:-1], target.split("/")
            for part in parts:
                folder = folder if part == "." else folder[:-1] if part == ".." else [*folder, part]
            assert "/".join(folder) in FILES, (name, target)
