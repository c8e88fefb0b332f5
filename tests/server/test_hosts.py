"""Which names in a `Host` header a server answers to."""

import pytest
from starlette.testclient import TestClient

from gesso.cli.serve import host_names
from gesso.errors import OptionError
from gesso.server.app import create_app
from gesso.server.hosts import host_name
from gesso.server.settings import Settings
from server.fake import FakeService


@pytest.mark.parametrize(
    ("header", "name"),
    [("localhost", "localhost"), ("LocalHost:80", "localhost"), ("[::1]:8000", "::1"), ("127.0.0.1:1", "127.0.0.1")],
)
def test_the_name_in_a_host_header(header: str, name: str) -> None:
    assert host_name(header) == name


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "", "127.0.0.1.evil.example:8000"])
def test_a_strangers_name_is_refused(host: str) -> None:
    settings = Settings(served_model_name="mini", allowed_hosts=host_names([], "127.0.0.1"))
    client = TestClient(create_app(FakeService(), settings), base_url="http://localhost:8000")
    assert client.get("/health").status_code == 200
    assert client.get("/health", headers={"Host": "127.0.0.1:8000"}).status_code == 200
    response = client.get("/v1/models", headers={"Host": host})
    assert response.status_code == 403
    assert response.json()["error"]["code"] == "host_not_allowed"
    assert response.headers["x-request-id"]


def test_names_that_are_allowed() -> None:
    assert host_names([], "127.0.0.1")[:3] == ("localhost", "127.0.0.1", "::1")
    assert host_names([], "0.0.0.0") == ()
    assert host_names(["a.example, b.example"], "0.0.0.0") == ("a.example", "b.example")
    assert "a.example" in host_names(["a.example"], "127.0.0.1")
    assert host_names(["*"], "127.0.0.1") == ()
    Settings(served_model_name="mini", allowed_hosts=("::1", "[::1]", "a.example"))
    for host in ("http://a.example/", "a.example:8000", "", "a b"):
        with pytest.raises(OptionError, match="allowed host"):
            Settings(served_model_name="mini", allowed_hosts=(host,))
