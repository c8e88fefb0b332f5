"""On a Ray cluster of this machine: streams, a replica killed under them, one more replica and one fewer again.

`make ray-test` runs these, in an environment that has Ray; they take minutes.
"""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from gesso.cluster.settings import ClusterSettings

if not os.environ.get("GESSO_RAY"):
    pytest.skip("make ray-test runs these", allow_module_level=True)

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

pytestmark = pytest.mark.filterwarnings("default")  # what Ray warns of is Ray's affair

QUESTIONS = ("What is 481 + 296?", "Sort 5, 3, 9 and 1.", "Count from 1 to 9.", "What is 17 + 25?")
WAIT = 1500.0
"""Seconds; a machine whose cores are taken is slow."""


def eventually(condition: Callable[[], bool], seconds: float = WAIT) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.2)
    return False


def body(number: int, **fields: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": QUESTIONS[number % len(QUESTIONS)]}]
    return {"model": "mini", "seed": number, "max_tokens": 64, "messages": messages, "stream": True, **fields}


async def ask(client: httpx.AsyncClient, number: int, **fields: Any) -> str:
    """A whole stream as it came, without ids and times: its text, and what it ends with."""
    async with client.stream("POST", "/v1/chat/completions", json=body(number, **fields)) as response:
        assert response.status_code == 200, await response.aread()
        lines = [line async for line in response.aiter_lines() if line.startswith("data: ")]
    assert not [line for line in lines if '"error"' in line], lines
    assert lines.count("data: [DONE]") == 1
    assert lines[-1] == "data: [DONE]"
    parts = [line.partition('"content":"')[2].partition('"')[0] for line in lines]
    return "".join(parts)


async def stream_all(url: str, numbers: range, clients: int) -> list[str]:
    gate = asyncio.Semaphore(clients)
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=url, timeout=None, limits=limits) as client:

        async def one(number: int) -> str:
            async with gate:
                return await ask(client, number)

        return await asyncio.gather(*map(one, numbers))


def parents(pid: int) -> set[int]:
    found: set[int] = set()
    while pid > 1:
        found.add(pid)
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return found


def replica_pids() -> list[int]:
    """Processes of this one's cluster that run a replica of the models."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            named = path.read_bytes().startswith(b"ray::ServeReplica:gesso:models")
            if named and os.getpid() in parents(int(path.parent.name)):
                found.append(int(path.parent.name))
        except (OSError, ValueError):
            continue
    return sorted(found)


def running() -> int:
    """Replicas of the models that take requests."""
    from ray import serve

    states = serve.status().applications["gesso"].deployments["models"].replica_states
    return sum(count for state, count in states.items() if str(getattr(state, "value", state)) == "RUNNING")


class Spans:
    """What came to a collector: spans, each with the name of the service that it is of."""

    def __init__(self) -> None:
        self.kept: list[tuple[str, Any]] = []

    def take(self, body: bytes) -> None:
        request = ExportTraceServiceRequest()
        request.ParseFromString(body)
        for resource in request.resource_spans:
            (service,) = (each for each in resource.resource.attributes if each.key == "service.name")
            self.kept += [(service.value.string_value, span) for scope in resource.scope_spans for span in scope.spans]

    def of(self, trace_id: str) -> dict[tuple[str, str], Any]:
        """The spans of one trace by service and name."""
        return {
            (service, span.name): span for service, span in list(self.kept) if span.trace_id == bytes.fromhex(trace_id)
        }


@pytest.fixture(scope="module")
def spans() -> Iterator[Spans]:
    """A collector that OpenTelemetry's variables name, for this process and those that it starts."""
    kept = Spans()

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            kept.take(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Collector) as collector, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{collector.server_port}")
        patch.setenv("OTEL_BSP_SCHEDULE_DELAY", "200")
        thread = threading.Thread(target=collector.serve_forever)
        thread.start()
        yield kept
        collector.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def url(spans: Spans) -> Iterator[str]:
    from gesso.cluster.local import run_locally

    stop, served = threading.Event(), list[str]()
    args = {
        "device": "cpu",
        "max_replicas": 2,
        "target_requests": 1,
        "upscale_seconds": 1,
        "downscale_seconds": 10,
        "num_cpus": 0.5,
        "drain_seconds": 60,
    }
    failed: list[BaseException] = []

    def run() -> None:
        try:
            run_locally(args, "127.0.0.1", 0, served.append, stop)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert eventually(lambda: bool(served or failed))
        assert not failed, failed
        yield served[0]
    finally:
        stop.set()
        thread.join(WAIT)
    assert not failed
    assert eventually(lambda: not replica_pids(), 60)


def test_a_configuration_file_that_ray_takes(url: str) -> None:
    from ray.serve.schema import ServeDeploySchema

    manifest = yaml.safe_load((Path(__file__).parents[2] / "deploy" / "kuberay" / "rayservice.yaml").read_text())
    schema = ServeDeploySchema.model_validate(yaml.safe_load(manifest["spec"]["serveConfigV2"]))
    (application,) = schema.applications
    assert application.import_path == "gesso.server.ray:app"
    assert ClusterSettings.read(application.args).max_replicas == 4


def test_what_the_server_has_is_there(url: str) -> None:
    with httpx.Client(base_url=url, timeout=WAIT) as client:
        assert client.get("/v1/models").json()["data"][0]["id"] == "mini"
        assert client.get("/ready").status_code == 200
        assert client.post("/v1/tokenize", json={"model": "mini", "prompt": "a b"}).json()["count"] > 0
        wrong = client.post("/v1/chat/completions", json={"model": "nobody", "messages": []})
        assert (wrong.status_code, wrong.json()["error"]["code"]) != (200, None)
        refused = client.post("/v1/responses", json={"model": "mini", "input": "a", "previous_response_id": "resp_1"})
        assert refused.json()["error"]["param"] == "previous_response_id"


def test_one_trace_covers_ingress_and_replica(url: str, spans: Spans) -> None:
    trace, client = "a" * 32, "b" * 16
    headers, asked = {"traceparent": f"00-{trace}-{client}-01"}, body(0, stream=False)
    answer = httpx.post(f"{url}/v1/chat/completions", headers=headers, json=asked, timeout=WAIT)
    assert answer.status_code == 200
    path = "POST /v1/chat/completions"
    expected = {("gesso-router", path), ("gesso-router", "POST"), ("gesso", path), ("gesso", "chat mini")}
    assert eventually(lambda: expected <= set(spans.of(trace)), 60), set(spans.of(trace))
    got = spans.of(trace)
    assert got["gesso-router", path].parent_span_id == bytes.fromhex(client)
    assert got["gesso-router", "POST"].parent_span_id == got["gesso-router", path].span_id
    assert got["gesso", path].parent_span_id == got["gesso-router", "POST"].span_id
    assert got["gesso", "chat mini"].parent_span_id == got["gesso", path].span_id
    assert {("gesso", name) for name in ("queue", "prefill", "canvas")} <= set(got)


def test_nothing_is_lost_while_replicas_come_die_and_go(url: str) -> None:
    """One replica becomes two under load, one is killed in the middle of streams, and there is one again."""
    undisturbed = asyncio.run(stream_all(url, range(8), 1))
    assert all(undisturbed)

    load: list[list[str]] = []
    replaced = threading.Event()

    def ask_on() -> None:
        while not replaced.is_set():
            load.append(asyncio.run(stream_all(url, range(24), 8)))

    loading = threading.Thread(target=ask_on)
    loading.start()
    try:
        assert eventually(lambda: running() == 2), "no second replica came"
        victim = replica_pids()[0]
        os.kill(victim, signal.SIGKILL)

        def is_replaced() -> bool:
            pids = replica_pids()
            return victim not in pids and len(pids) == 2 and running() == 2

        assert eventually(is_replaced), "the killed replica was not replaced"
    finally:
        replaced.set()
        loading.join(WAIT)
    assert load
    assert all(texts == load[0] for texts in load)
    assert load[0][:8] == undisturbed

    # Streams go on one by one while the second replica is drained.
    until = time.monotonic() + WAIT
    while running() == 2 and time.monotonic() < until:
        assert asyncio.run(stream_all(url, range(1), 1)) == undisturbed[:1]
    assert running() == 1


def test_one_beginning_goes_to_one_replica(url: str) -> None:
    """Told by the router's own metric, as Ray has no name for it."""
    text = httpx.get(f"{url}/metrics", timeout=WAIT).text
    assert "gesso_router_resumed_streams_total" in text
    assert "gesso_router_broken_streams_total 0.0" in text
