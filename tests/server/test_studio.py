"""The studio's files: what is served, to whom, and under which policy."""

import gzip
import json
import logging
import re

import pytest
from starlette.testclient import TestClient

from gesso.server.studio import POLICY, PREVIEW_POLICY
from gesso.studio import PAGE, PREVIEW, page_files
from server.conftest import make_client
from server.fake import FakeService

FILES = page_files()
SOURCES = {name: file.content.decode() for name, file in FILES.items()}


def test_the_page_and_all_its_files_are_served(client: TestClient) -> None:
    page = client.get("/")
    assert page.status_code == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    (version,) = set(re.findall(r'"studio/([0-9a-f]{16})/', page.text))
    assert page.text.replace(f"studio/{version}/", "studio/") == SOURCES[PAGE]
    for name, file in FILES.items():
        for path, kept in ((f"/studio/{name}", "no-cache"), (f"/studio/{version}/{name}", "immutable")):
            answer = client.get(path)
            assert answer.status_code == 200
            assert name == PAGE or answer.content == file.content
            assert answer.headers["content-type"] == file.media_type
            assert answer.headers["content-security-policy"] == (PREVIEW_POLICY if name == PREVIEW else POLICY)
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["referrer-policy"] == "no-referrer"
            assert kept in answer.headers["cache-control"]
    assert page.headers["cache-control"] == "no-cache"
    assert client.get("/studio/0123456789abcdef/main.js").status_code == 404


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


def test_it_is_small() -> None:
    assert sum(len(gzip.compress(file.content)) for file in FILES.values()) < 150_000


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
