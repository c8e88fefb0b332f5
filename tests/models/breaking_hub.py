"""A Hub on this machine that serves a folder, and breaks, lies and damages as it is told."""

import hashlib
import json
import re
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from time import sleep
from typing import Any

import pytest
from safetensors.torch import save_file
from torch import Tensor

COMMIT = "0123456789abcdef0123456789abcdef01234567"
REPO = "acme/poet"
FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"


def write_in_two(folder: Path, tensors: dict[str, Tensor]) -> None:
    """Writes a checkpoint's weights in two files, of names in order, and their index."""
    names = sorted(tensors)
    shards = {FIRST: names[: len(names) // 2], SECOND: names[len(names) // 2 :]}
    for file, part in shards.items():
        save_file({name: tensors[name] for name in part}, folder / file)
    weight_map = {name: file for file, part in shards.items() for name in part}
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {}, "weight_map": weight_map}), "utf-8"
    )


@dataclass
class Hub:
    """What the server does, and what it was asked."""

    folder: Path
    url: str = ""
    breaks: dict[str, list[int]] = field(default_factory=dict)
    """By file: after how many bytes its next connections break."""
    resets: bool = False
    """Whether they break by a reset, so that what is read of them ends in an error."""
    renamed_from: str = ""
    """Former name of the repository, which leads on to the new one."""
    statuses: dict[str, list[int]] = field(default_factory=dict)
    """By file: what its next answers are instead."""
    damaged: set[str] = field(default_factory=set)
    """Files of which a byte is another."""
    damaged_at: dict[str, int] = field(default_factory=dict)
    """By file: which byte that is, where it is not the one in the middle."""
    sizes: dict[str, int] = field(default_factory=dict)
    """By file: the size that answers name instead of its own."""
    whole_only: bool = False
    """Whether ranges are ignored."""
    elsewhere: str = ""
    """Where large files are: another server's address."""
    asked: list[tuple[str, str, str | None, bool]] = field(default_factory=list)
    """Method, file, range, and whether there was a token."""

    def ranges(self, file: str) -> list[str]:
        return [range_ or "" for method, name, range_, _ in self.asked if name == file and method == "GET"]


def entry(path: Path) -> dict[str, Any]:
    """What the Hub's listing has of a file; weights are large files."""
    content = path.read_bytes()
    blob = hashlib.sha1(f"blob {len(content)}\0".encode() + content).hexdigest()
    found: dict[str, Any] = {"size": len(content), "blobId": blob, "oid": blob}
    if path.suffix == ".safetensors":
        sha = hashlib.sha256(content).hexdigest()
        found["lfs"] = {"sha256": sha, "oid": sha, "size": len(content), "pointerSize": 130}
    return found


def handler(hub: Hub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *arguments: object) -> None:
            pass

        def do_HEAD(self) -> None:
            self.answer(body=False)

        def do_GET(self) -> None:
            self.answer(body=True)

        def json(self, value: Any) -> None:
            content = json.dumps(value).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def answer(self, body: bool) -> None:
            files = sorted(path for path in hub.folder.iterdir() if path.is_file())
            if self.path.startswith(f"/api/models/{REPO}/tree/"):
                self.json([{"type": "file", "path": path.name, **entry(path)} for path in files])
                return
            if self.path.startswith(f"/api/models/{REPO}"):
                siblings = [{"rfilename": path.name, **entry(path)} for path in files]
                self.json({"id": REPO, "sha": COMMIT, "siblings": siblings})
                return
            if hub.renamed_from and self.path.startswith(f"/{hub.renamed_from}/"):
                self.send_response(307)
                self.send_header("Location", self.path.replace(hub.renamed_from, REPO, 1))
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            name = self.path.split("?")[0].rpartition("/")[2]
            hub.asked.append((self.command, name, self.headers.get("Range"), "Authorization" in self.headers))
            if not (hub.folder / name).is_file() or (REPO not in self.path and not self.path.startswith("/large/")):
                self.send_response(404)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.file(name, body)

        def file(self, name: str, body: bool) -> None:
            if hub.statuses.get(name):
                self.send_response(hub.statuses[name].pop(0))
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            known = entry(hub.folder / name)
            etag = known["lfs"]["sha256"] if "lfs" in known else known["blobId"]
            if hub.elsewhere and "lfs" in known:
                self.send_response(302)
                self.send_header("Location", f"{hub.elsewhere}/large/{name}")
                self.send_header("X-Linked-Etag", f'"{etag}"')
                self.send_header("X-Linked-Size", str(known["size"]))
                self.send_header("X-Repo-Commit", COMMIT)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            content = bytearray((hub.folder / name).read_bytes())
            if name in hub.damaged:
                content[hub.damaged_at.get(name, len(content) // 2)] ^= 1
            size = hub.sizes.get(name, len(content))
            found = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
            begin, end = 0, len(content)
            if found and not hub.whole_only:
                begin, end = int(found[1]), int(found[2] or len(content) - 1) + 1
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {begin}-{end - 1}/{size}")
                self.send_header("Content-Length", str(end - begin))
            else:
                self.send_response(200)
                self.send_header("Content-Length", str(size))
            self.send_header("ETag", f'"{etag}"')
            self.send_header("X-Repo-Commit", COMMIT)
            self.end_headers()
            if body:
                part = bytes(content[begin:end])
                stop = hub.breaks[name].pop(0) if hub.breaks.get(name) else len(part)
                self.wfile.write(part[:stop])
                self.close_connection = stop < len(part) or self.close_connection
                if stop < len(part) and hub.resets:
                    sleep(0.2)  # what was sent is read before the reset, which overtakes what was not
                    self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    self.connection.close()

    return Handler


@contextmanager
def serving(hub: Hub) -> Iterator[Hub]:
    """Serves while the block runs."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler(hub))
    server.daemon_threads = True
    server.handle_error = lambda request, client_address: None  # type: ignore[method-assign] # a client that went away
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def point_at(hub: Hub, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes `huggingface_hub` ask this server, with an empty cache and a token."""
    cache.mkdir(exist_ok=True)
    constants = "huggingface_hub.constants"
    monkeypatch.setattr(f"{constants}.ENDPOINT", hub.url)
    monkeypatch.setattr(
        f"{constants}.HUGGINGFACE_CO_URL_TEMPLATE", hub.url + "/{repo_id}/resolve/{revision}/{filename}"
    )
    monkeypatch.setattr(f"{constants}.HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(f"{constants}.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("gesso.models.byte_stream.sleep", lambda seconds: None)
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
