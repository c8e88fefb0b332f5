"""Forms of `/v1/files` that cannot be read; `test_batches.py` has the life of a file."""

import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from starlette.testclient import TestClient

from gesso.server.app import create_app
from gesso.server.settings import Settings
from server.conftest import eventually, running
from server.fake import FakeService

KIND = "multipart/form-data; boundary=x"
FORM = (
    b'--x\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
    b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nline\r\n--x--\r\n'
)


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    app = create_app(FakeService(), Settings(served_model_name="mini", batch_folder=tmp_path))
    with TestClient(app) as made:
        yield made


@pytest.mark.parametrize(
    ("parameters", "form"),
    [
        ("; charset=undefined", FORM),
        ("; charset=punycode", FORM.replace(b"purpose", b"pur..pose")),
        ("", FORM.replace(b"name=", b"nom=")),
        ("", b"no form"),
    ],
)
def test_a_form_that_cannot_be_read(client: TestClient, parameters: str, form: bytes) -> None:
    response = client.post("/v1/files", content=form, headers={"Content-Type": KIND + parameters})
    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (400, "invalid_form")
    assert error["message"].startswith("the form cannot be read: ")


@pytest.mark.parametrize("parameters", ["", "; charset=utf-8", "; charset=latin-1", "; charset=nobody-knows"])
def test_a_form_that_can(client: TestClient, parameters: str) -> None:
    response = client.post("/v1/files", content=FORM, headers={"Content-Type": KIND + parameters})
    assert (response.status_code, response.json()["filename"]) == (200, "a")


def test_a_client_that_hangs_up_in_the_middle_of_a_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "gesso.access")
    head = (
        f"POST /v1/files HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {KIND}\r\nContent-Length: {len(FORM) + 9}\r\n\r\n"
    )
    with running(FakeService(), batch_folder=tmp_path) as url:
        address = urlsplit(url)
        with socket.create_connection((address.hostname, address.port)) as connection:
            connection.sendall(head.encode() + FORM[:60])
        assert eventually(lambda: '"outcome": "client_disconnected"' in caplog.text)
    assert '"status": 499' in caplog.text
    assert "Traceback" not in caplog.text
