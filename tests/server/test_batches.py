"""`/v1/files` and `/v1/batches`: through a whole life, cancelled, expired, and after a process was killed."""

import asyncio
import errno
import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from openai import OpenAI
from starlette.testclient import TestClient

from gesso.batch.ask import ServerGoneError, over_http
from gesso.batch.journal import Journal
from gesso.batch.lines import scan
from gesso.errors import OptionError
from gesso.server import batch_worker
from gesso.server.app import create_app
from gesso.server.batch_models import Batch, RequestCounts
from gesso.server.batch_store import BatchStore, StoreLimits
from gesso.server.errors import ApiError
from gesso.server.settings import Settings
from server.conftest import eventually, running
from server.fake import FakeService


@contextmanager
def served(folder: Path, service: FakeService | None = None, **settings: Any) -> Iterator[TestClient]:
    app = create_app(service or FakeService(), Settings(served_model_name="mini", batch_folder=folder, **settings))
    with TestClient(app) as client:
        yield client


def line(custom_id: str = "a", url: str = "/v1/chat/completions", **body: Any) -> str:
    asked = {"model": "mini", "messages": [{"role": "user", "content": "Hi"}], **body}
    return json.dumps({"custom_id": custom_id, "method": "POST", "url": url, "body": asked})


def upload(client: TestClient, text: str, **fields: Any) -> dict[str, Any]:
    response = client.post("/v1/files", files={"file": ("in.jsonl", text)}, data={"purpose": "batch", **fields})
    assert response.status_code == 200, response.text
    return dict(response.json())


def begin(client: TestClient, text: str, **fields: Any) -> str:
    asked = {"input_file_id": upload(client, text)["id"], "endpoint": "/v1/chat/completions", **fields}
    response = client.post("/v1/batches", json={"completion_window": "24h", **asked})
    assert response.status_code == 200, response.text
    assert response.json()["status"] == "validating"
    return str(response.json()["id"])


def state(client: TestClient, batch: str) -> dict[str, Any]:
    return dict(client.get(f"/v1/batches/{batch}").json())


def over(client: TestClient, batch: str, status: str) -> dict[str, Any]:
    """The batch once it is over, which must be so."""
    assert eventually(lambda: state(client, batch)["status"] in ("completed", "failed", "expired", "cancelled"))
    told = state(client, batch)
    assert told["status"] == status, told
    return told


def content(client: TestClient, file: str) -> list[dict[str, Any]]:
    return [json.loads(text) for text in client.get(f"/v1/files/{file}/content").text.splitlines()]


def test_there_are_none_without_a_folder() -> None:
    client = TestClient(create_app(FakeService(), Settings(served_model_name="mini")))
    assert client.get("/v1/files").status_code == client.get("/v1/batches").status_code == 404


def test_a_batch_of_responses(tmp_path: Path) -> None:
    text = json.dumps(
        {"custom_id": "a", "method": "POST", "url": "/v1/responses", "body": {"model": "mini", "input": "Hi"}}
    )
    with TestClient(create_app(FakeService(), Settings(served_model_name="mini", batch_folder=tmp_path))) as client:
        told = over(client, begin(client, text, endpoint="/v1/responses"), "completed")
        (answer,) = content(client, told["output_file_id"])
        body = answer["response"]["body"]
        assert body["output"][0]["content"][0]["text"] == "Hello there"
        assert client.get(f"/v1/responses/{body['id']}").json() == body


def test_openais_client_runs_a_batch(tmp_path: Path) -> None:
    """Over a real connection, with a key and a host that is asked for."""
    settings = {"batch_folder": tmp_path, "api_keys": ("k",), "allowed_hosts": ("127.0.0.1",)}
    with running(FakeService(), **settings) as url:
        client = OpenAI(base_url=f"{url}/v1", api_key="k")
        text = "\n".join([line("a"), "{nonsense", line("b", n=99), line("c", url="/v1/fill")])
        file = client.files.create(file=("in.jsonl", text.encode()), purpose="batch")
        assert (file.filename, file.bytes, file.status) == ("in.jsonl", len(text), "processed")
        batch = client.batches.create(
            input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h", metadata={"who": "me"}
        )
        assert eventually(lambda: client.batches.retrieve(batch.id).status == "completed")
        batch = client.batches.retrieve(batch.id)
        counts = batch.request_counts
        assert counts is not None
        assert (counts.total, counts.completed, counts.failed, batch.metadata) == (4, 1, 3, {"who": "me"})
        assert batch.output_file_id is not None
        assert batch.error_file_id is not None
        (good,) = client.files.content(batch.output_file_id).text.splitlines()
        assert json.loads(good)["response"]["body"]["choices"][0]["message"]["content"] == "Hello there"
        bad = [json.loads(text) for text in client.files.content(batch.error_file_id).text.splitlines()]
        assert {(one["custom_id"], one["error"] and one["error"]["code"]) for one in bad} == {
            (None, "invalid_json_line"), ("b", None), ("c", "mismatched_url"),
        }  # fmt: skip
        assert [one.id for one in client.batches.list()] == [batch.id]
        assert len(list(client.files.list())) == 3
        assert client.files.delete(file.id).deleted


def test_a_folder_without_hard_links_keeps_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def link(source: Path, target: Path) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted", str(source), None, str(target))

    monkeypatch.setattr("os.link", link)
    with served(tmp_path) as client:
        told = over(client, begin(client, f"{line('a')}\n{line('b', n=99)}"), "completed")
        assert [one["custom_id"] for one in content(client, told["output_file_id"])] == ["a"]
        assert [one["custom_id"] for one in content(client, told["error_file_id"])] == ["b"]
        assert client.get(f"/v1/files/{told['output_file_id']}").json()["bytes"] > 0
        assert not list((tmp_path / "work").iterdir())


@pytest.mark.parametrize(
    ("text", "code", "told"),
    [
        (f"{line('a')}\n{line('b')}\n{line('a')}", "duplicate_custom_id", "'a' stands on line 1 and on line 3"),
        ("\n\n", "empty_file", "no lines"),
    ],
)
def test_an_input_that_cannot_begin_fails(tmp_path: Path, text: str, code: str, told: str) -> None:
    with served(tmp_path) as client:
        (error,) = over(client, begin(client, text), "failed")["errors"]["data"]
        assert error["code"] == code
        assert told in error["message"]


def test_answers_are_kept_as_long_as_a_batch_says(tmp_path: Path) -> None:
    with served(tmp_path) as client:
        after = {"anchor": "created_at", "seconds": 7200}
        batch = begin(client, "\n".join([line(), "{nonsense"]), output_expires_after=after)
        told = over(client, batch, "completed")
        for kind in ("output_file_id", "error_file_id"):
            file = client.get(f"/v1/files/{told[kind]}").json()
            assert file["expires_at"] == file["created_at"] + 7200
        plain = over(client, begin(client, line(), output_expires_after=None), "completed")
        file = client.get(f"/v1/files/{plain['output_file_id']}").json()
        assert file["expires_at"] == file["created_at"] + 30 * 24 * 3600


@pytest.mark.parametrize(
    ("after", "param"),
    [
        ({"anchor": "created_at", "seconds": 3599}, "output_expires_after.seconds"),
        ({"anchor": "created_at", "seconds": 2592001}, "output_expires_after.seconds"),
        ({"anchor": "created_at"}, "output_expires_after.seconds"),
        ({"anchor": "completed_at", "seconds": 3600}, "output_expires_after.anchor"),
        ({"anchor": "created_at", "seconds": 3600, "days": 1}, "output_expires_after.days"),
    ],
)
def test_a_time_that_answers_cannot_be_kept_is_refused(tmp_path: Path, after: dict[str, Any], param: str) -> None:
    with served(tmp_path) as client:
        asked = {"input_file_id": upload(client, line())["id"], "endpoint": "/v1/chat/completions"}
        response = client.post("/v1/batches", json={**asked, "output_expires_after": after})
        assert (response.status_code, response.json()["error"]["param"]) == (400, param)


def test_a_cancelled_batch_keeps_what_is_answered(tmp_path: Path) -> None:
    service = FakeService()
    service.scripts = [service.events, []]  # the second line is never answered
    with served(tmp_path, service, batch_workers=1) as client:
        batch = begin(client, "\n".join(line(name) for name in "abc"))
        assert eventually(
            lambda: len(service.tickets) == 2 and state(client, batch)["request_counts"]["completed"] == 1
        )
        assert (
            client.delete(f"/v1/files/{state(client, batch)['input_file_id']}").json()["error"]["code"] == "file_in_use"
        )
        assert client.post(f"/v1/batches/{batch}/cancel").json()["status"] in ("cancelling", "cancelled")
        told = over(client, batch, "cancelled")
        assert told["request_counts"] == {"total": 3, "completed": 1, "failed": 0}
        assert [one["custom_id"] for one in content(client, told["output_file_id"])] == ["a"]
        assert service.tickets[1].cancelled.is_set()
        # One that waits behind it is ended too, and the next one runs.
        assert client.post(f"/v1/batches/{batch}/cancel").json()["status"] == "cancelled"
        over(client, begin(client, line("d")), "completed")


def test_lines_expire_with_the_window(tmp_path: Path) -> None:
    """The window of a batch has ended while no server ran."""
    service = FakeService()
    service.scripts = [service.events, []]
    with served(tmp_path, service, batch_workers=1) as client:
        batch = begin(client, "\n".join(line(name) for name in "abc"), completion_window="1h")
        assert eventually(
            lambda: len(service.tickets) == 2 and state(client, batch)["request_counts"]["completed"] == 1
        )
    store = BatchStore(tmp_path)
    late = store.batch(batch)
    late.expires_at = store.now() - 1
    store.put_batch(late)
    store.close()
    with served(tmp_path) as client:
        told = over(client, batch, "expired")
        assert told["request_counts"] == {"total": 3, "completed": 1, "failed": 2}
        assert {one["error"]["code"] for one in content(client, told["error_file_id"])} == {"batch_expired"}


def test_a_batch_goes_on_after_a_kill(tmp_path: Path) -> None:
    """What a killed process left: a batch in progress, one answer, and half a line of the next."""
    service = FakeService()
    service.scripts = [[]]
    with served(tmp_path, service, batch_workers=1) as client:
        batch = begin(client, "\n".join(line(name) for name in "abc"))
        assert eventually(lambda: bool(service.tickets))
        source = tmp_path / "files" / state(client, batch)["input_file_id"]
    scanned = scan(source, "/v1/chat/completions")
    journal = tmp_path / "work" / f"{batch}.output"
    answered = {"id": scanned.identity(2), "custom_id": "b", "response": {"status_code": 200, "body": 1}, "error": None}
    with Journal(journal, {"input": scanned.sha256}) as opened:
        opened.append([json.dumps(answered)])
    with journal.open("ab") as file:
        file.write(json.dumps(answered).encode()[:40])
    with served(tmp_path, fresh := FakeService()) as client:
        told = over(client, batch, "completed")
        assert sorted(one["custom_id"] for one in content(client, told["output_file_id"])) == ["a", "b", "c"]
        assert len(fresh.requests) == 2
        assert not list((tmp_path / "work").iterdir())


def test_a_server_that_stops_loses_no_line(tmp_path: Path) -> None:
    """The engine refuses everything: lines wait for the next process and are no errors."""
    service = FakeService()
    service.ready = False
    with served(tmp_path, service) as client:
        batch = begin(client, line("a"))
        assert eventually(lambda: state(client, batch)["status"] == "in_progress")
    with served(tmp_path) as client:
        assert over(client, batch, "completed")["request_counts"]["completed"] == 1


def _waiting(folder: Path) -> BatchStore:
    """A store with one batch, `batch_1` of one line, that nobody has begun."""
    with served(folder) as client:
        upload(client, line("a"))
    store = BatchStore(folder)
    (file,), _ = store.files(None, 9, None, "desc")
    store.add_batch(
        Batch(
            id="batch_1",
            endpoint="/v1/chat/completions",
            input_file_id=file.id,
            completion_window="24h",
            created_at=store.now(),
            expires_at=store.now() + 1000,
            status="validating",
            request_counts=RequestCounts(total=1),
        )
    )
    return store


async def _until_over(store: BatchStore, worker: batch_worker.BatchWorker) -> Batch:
    task = asyncio.create_task(worker.run())
    try:
        async with asyncio.timeout(30):
            while not (batch := store.batch("batch_1")).over:
                await asyncio.sleep(0.01)
    finally:
        task.cancel()
        await asyncio.wait([task])
    return batch


async def _answered(*given: Any) -> None:
    """Stands in for `run_batch`: every line is answered at once."""
    left, identity, _, append, _ = given
    response = {"status_code": 200, "request_id": "r", "body": 1}
    for request in left:
        answer = {"id": identity(request.number), "custom_id": request.custom_id, "response": response, "error": None}
        append([json.dumps(answer)])


def _worker(store: BatchStore, monkeypatch: pytest.MonkeyPatch, ask: Any = _answered) -> batch_worker.BatchWorker:
    monkeypatch.setattr(batch_worker, "run_batch", ask)
    monkeypatch.setattr(batch_worker, "REST_SECONDS", 0.05)
    return batch_worker.BatchWorker(store, over_http("http://127.0.0.1:9"), frozenset(), 1)


def test_a_cancellation_in_the_moment_of_the_beginning_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker has read the batch as it was, and has not yet begun."""
    store = _waiting(tmp_path)
    worker = _worker(store, monkeypatch)

    async def go() -> Batch:
        taken = store.next_batch()
        assert taken is not None
        told = await worker.cancel("batch_1")
        assert told.status == "cancelling"
        monkeypatch.setattr(store, "next_batch", iter([taken, *[None] * 1000]).__next__)
        return await _until_over(store, worker)

    assert asyncio.run(go()).status == "cancelled"
    store.close()


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), sqlite3.OperationalError("disk I/O error")])
def test_a_passing_error_of_the_disk_costs_a_batch_time_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    store = _waiting(tmp_path)
    tries = []

    async def once_broken(*given: Any) -> None:
        tries.append(1)
        if len(tries) == 1:
            raise error
        await _answered(*given)

    batch = asyncio.run(_until_over(store, _worker(store, monkeypatch, once_broken)))
    assert (batch.status, len(tries)) == ("completed", 2)
    assert batch.request_counts.completed == 1
    store.close()


def test_a_batch_that_waits_for_the_disk_tells_what_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = _waiting(tmp_path)

    async def full(*given: Any) -> None:
        await _answered(*given)
        raise OSError(errno.ENOSPC, "full")

    async def go() -> RequestCounts:
        worker = _worker(store, monkeypatch, full)
        task = asyncio.create_task(worker.run())
        try:
            async with asyncio.timeout(30):
                while not (counts := worker.shown(store.batch("batch_1")).request_counts).completed:
                    await asyncio.sleep(0.01)
            for _ in range(10):
                await asyncio.sleep(0.01)
                assert worker.shown(store.batch("batch_1")).request_counts == counts
        finally:
            task.cancel()
            await asyncio.wait([task])
        return counts

    counts = asyncio.run(go())
    assert (counts.total, counts.completed, counts.failed) == (1, 1, 0)
    store.close()


def test_a_failing_store_does_not_end_the_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = _waiting(tmp_path)
    sweep, tries = store.sweep, []

    def once_broken() -> None:
        tries.append(1)
        if len(tries) == 1:
            raise sqlite3.OperationalError("database is locked")
        sweep()

    monkeypatch.setattr(store, "sweep", once_broken)
    assert asyncio.run(_until_over(store, _worker(store, monkeypatch))).status == "completed"
    assert "the worker of the batches failed" in caplog.text
    store.close()


def test_the_end_of_a_server_in_the_moment_of_a_refusal_is_not_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the lines raise takes the place of the cancellation, which is asked for once."""
    store = _waiting(tmp_path)

    async def go() -> None:
        async def refuse(*_: object) -> None:
            task.cancel()
            raise ServerGoneError("it refuses everything")

        monkeypatch.setattr(batch_worker, "run_batch", refuse)
        worker = batch_worker.BatchWorker(store, over_http("http://127.0.0.1:9"), frozenset(), 1)
        task = asyncio.create_task(worker.run())
        async with asyncio.timeout(30):
            await asyncio.wait([task])

    asyncio.run(go())
    store.close()


def test_what_is_refused(tmp_path: Path) -> None:
    with served(tmp_path) as client:
        file = {"file": ("in.jsonl", "x")}
        for status, param, fields in (
            (400, "purpose", {"data": {"purpose": "fine-tune"}, "files": file}),
            (400, "file", {"data": {"purpose": "batch"}, "files": {"purpose": (None, "batch")}}),
            (400, "colour", {"data": {"purpose": "batch", "colour": "red"}, "files": file}),
            (
                400,
                "expires_after.seconds",
                {"data": {"purpose": "batch", "expires_after[anchor]": "created_at"}, "files": file},
            ),
            (400, None, {"content": b"x", "headers": {"content-type": "text/plain"}}),
            (400, None, {"content": b"x", "headers": {"content-type": "multipart/form-data"}}),
            (
                403,
                None,
                {"data": {"purpose": "batch"}, "files": file, "headers": {"Origin": "https://stranger.example"}},
            ),
        ):
            response = client.post("/v1/files", **fields)
            assert (response.status_code, response.json()["error"]["param"]) == (status, param), response.text
        stored = upload(client, line(), **{"expires_after[anchor]": "created_at", "expires_after[seconds]": "3600"})
        assert stored["expires_at"] == stored["created_at"] + 3600
        for changes in (
            {"endpoint": "/v1/nothing"},
            {"endpoint": "/v1/batches"},
            {"input_file_id": "file-none"},
            {"completion_window": "0h"},
        ):
            asked = {"input_file_id": stored["id"], "endpoint": "/v1/fill", "completion_window": "24h", **changes}
            assert client.post("/v1/batches", json=asked).status_code in (400, 404)
        for window in ("0h", "169h", "1d", "24", "h"):
            asked = {"input_file_id": stored["id"], "endpoint": "/v1/fill", "completion_window": window}
            error = client.post("/v1/batches", json=asked).json()["error"]
            assert error["param"] == "completion_window"
            assert "is a whole number of hours from 1h to 168h" in error["message"], error
        assert client.get("/v1/batches/none").json()["error"]["code"] == "batch_not_found"
        assert client.get("/v1/files/none/content").json()["error"]["code"] == "file_not_found"


def test_a_store_is_bounded(tmp_path: Path) -> None:
    clock = [1000.0]
    store = BatchStore(tmp_path, StoreLimits(file_bytes=10, all_bytes=15), lambda: clock[0])
    path = store.new_path()
    path.write_bytes(b"0123456789")
    file = store.add_file(path, "a", "batch", 60)
    for size, code in ((11, "file_too_large"), (6, "store_full")):
        with pytest.raises(ApiError) as refused:
            store.check_room(size)
        assert refused.value.code == code
    store.check_room(5)
    clock[0] += 60
    store.check_room(5)
    assert store.files(None, 9, None, "desc") == ([], False)
    assert not path.exists()
    store.check_room(10)
    assert file.expires_at == 1060
    stray = store.new_path()
    stray.write_bytes(b"x")
    with pytest.raises(OptionError, match="another server"):
        BatchStore(tmp_path)
    store.close()
    BatchStore(tmp_path).close()
    assert not stray.exists()


def test_pages_of_a_list(tmp_path: Path) -> None:
    with served(tmp_path) as client:
        made = [upload(client, str(number))["id"] for number in range(5)]
        first = client.get("/v1/files", params={"limit": 2, "order": "asc"}).json()
        assert ([file["id"] for file in first["data"]], first["has_more"]) == (made[:2], True)
        rest = client.get("/v1/files", params={"after": first["last_id"], "order": "asc"}).json()
        assert ([file["id"] for file in rest["data"]], rest["has_more"]) == (made[2:], False)
        assert [file["id"] for file in client.get("/v1/files").json()["data"]] == made[::-1]
        assert time.time() - rest["data"][0]["created_at"] < 600
        for listed in ("files", "batches"):
            lost = client.get(f"/v1/{listed}", params={"after": "gone"})
            assert (lost.status_code, lost.json()["error"]["param"]) == (404, "after"), "and no list that looks whole"
        assert client.get("/v1/files", params={"limit": 10_001}).status_code == 400


def test_files_are_deleted_while_they_are_listed(tmp_path: Path) -> None:
    """As OpenAI's client is used: what lists further pages names the last file, which is gone by then."""
    with served(tmp_path) as client:
        for number in range(120):
            upload(client, str(number))
        for file in client.get("/v1/files").json()["data"]:
            assert client.delete(f"/v1/files/{file['id']}").json()["deleted"]
        assert client.get("/v1/files").json()["data"] == []
