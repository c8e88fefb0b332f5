"""What may be fetched: allowed hosts at public addresses, redirects included, within size and time."""

import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from gesso.errors import ImageError
from gesso.server.fetch import REDIRECTS, Fetcher, is_public

PICTURE = b"picture" * 1000


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("8.8.8.8", True),
        ("2600::1", True),
        ("127.0.0.1", False),
        ("0.0.0.0", False),
        ("10.1.2.3", False),
        ("172.16.0.1", False),
        ("192.168.1.1", False),
        ("100.64.0.1", False),
        ("169.254.169.254", False),
        ("224.0.0.1", False),
        ("255.255.255.255", False),
        ("::", False),
        ("::1", False),
        ("fe80::1%eth0", False),
        ("fc00::1", False),
        ("ff02::1", False),
        ("::ffff:127.0.0.1", False),
        ("::ffff:8.8.8.8", True),
        ("::127.0.0.1", False),
        ("2002:7f00:1::", False),
        ("64:ff9b::7f00:1", False),
        ("64:ff9b::8.8.8.8", False),
        ("2001:db8::1", False),
    ],
)
def test_which_addresses_are_public(address: str, public: bool) -> None:
    assert is_public(address) is public


class Handler(BaseHTTPRequestHandler):
    stop = threading.Event()

    def do_GET(self) -> None:
        kind, _, rest = self.path[1:].partition("?")
        if kind == "to":
            self.send_response(302)
            self.send_header("Location", rest)
            self.end_headers()
        elif kind == "slow":
            self.send_response(200)
            self.end_headers()
            while not self.stop.wait(0.05):
                try:
                    self.wfile.write(b".")
                    self.wfile.flush()
                except OSError:
                    return
        elif kind == "short":
            self.send_response(200)
            self.send_header("Content-Length", "100")
            self.end_headers()
            self.wfile.write(b"cut")
        elif kind == "picture":
            self.send_response(200)
            self.end_headers()
            self.wfile.write(PICTURE + self.headers["Host"].encode())
        else:
            self.send_error(404)

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_address[1]
    Handler.stop.set()
    server.shutdown()
    thread.join()
    server.server_close()


def names(host: str, port: int) -> Sequence[str]:
    """A name server of the tests."""
    known = {"pictures.test": ["127.0.0.1"], "inner.test": ["10.0.0.1"], "both.test": ["127.0.0.1", "10.0.0.1"]}
    if host not in known:
        raise OSError
    return known[host]


def fetcher(port: int, **changes: Any) -> Fetcher:
    hosts = tuple(f"{host}:{port}" for host in ("pictures.test", "inner.test", "both.test", "gone.test", "127.0.0.1"))
    # In the tests the loopback is the open internet.
    given = {
        "hosts": hosts,
        "seconds": 60.0,
        "resolve": names,
        "may_connect": lambda address: address == "127.0.0.1",
        **changes,
    }
    return Fetcher(**given)


def test_an_allowed_host_is_fetched_from_by_its_name(port: int) -> None:
    found = fetcher(port).fetch(f"http://pictures.test:{port}/picture", 10**5)
    assert found == PICTURE + f"pictures.test:{port}".encode()
    below = fetcher(port, hosts=(f"*.test:{port}",))
    assert below.fetch(f"http://PICTURES.test:{port}/picture", 10**5)
    for host in ("test", "pictures.test.org", "xtest"):
        with pytest.raises(ImageError, match="fetches nothing from"):
            below.fetch(f"http://{host}:{port}/picture", 10**5)


@pytest.mark.parametrize("host", ["inner.test", "both.test"])
def test_a_host_with_a_private_address_is_refused(port: int, host: str) -> None:
    with pytest.raises(ImageError, match="an address that is not public"):
        fetcher(port).fetch(f"http://{host}:{port}/picture", 10**5)


def test_by_itself_nothing_private_is_reached(port: int) -> None:
    plain = Fetcher(hosts=(f"127.0.0.1:{port}", f"localhost:{port}"))
    for host in ("127.0.0.1", "localhost"):
        with pytest.raises(ImageError, match="an address that is not public"):
            plain.fetch(f"http://{host}:{port}/picture", 10**5)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("http://inner.test:{port}/picture", "an address that is not public"),
        ("http://elsewhere.test/picture", "fetches nothing from 'elsewhere.test'"),
        ("file:///etc/passwd", "begin with https"),
        ("/to?/to?/to?/to?/picture", f"more than {REDIRECTS} times"),
        ("", "redirects to one that is none"),
        ("http://[oops/", "redirects to one that is none"),
    ],
)
def test_every_redirect_passes_the_same_gate(port: int, target: str, message: str) -> None:
    with pytest.raises(ImageError, match=message):
        fetcher(port).fetch(f"http://pictures.test:{port}/to?{target.format(port=port)}", 10**5)


def test_a_redirect_that_is_allowed_is_followed(port: int) -> None:
    assert fetcher(port).fetch(f"http://pictures.test:{port}/to?/to?/picture", 10**5).startswith(PICTURE)


def test_size_and_time_are_bounded(port: int) -> None:
    with pytest.raises(ImageError, match="the image has more than 100 bytes"):
        fetcher(port).fetch(f"http://pictures.test:{port}/picture", 100)
    with pytest.raises(ImageError, match=r"takes more than 0\.2 s"):
        fetcher(port, seconds=0.2).fetch(f"http://pictures.test:{port}/slow", 10**9)


@pytest.mark.parametrize(
    ("host", "path", "message"),
    [
        ("pictures.test", "none", "answers 404"),
        ("pictures.test", "short", "cannot be reached: IncompleteRead"),
        ("gone.test", "picture", "no host that is known"),
    ],
)
def test_what_goes_wrong_is_told(port: int, host: str, path: str, message: str) -> None:
    with pytest.raises(ImageError, match=message):
        fetcher(port).fetch(f"http://{host}:{port}/{path}", 10**5)


def test_nobody_listening_is_told() -> None:
    with pytest.raises(ImageError, match=r"pictures\.test cannot be reached"):
        fetcher(1).fetch("http://pictures.test:1/picture", 10**5)
