"""Runs the application on a cluster of this machine alone, from its start to a signal."""

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from typing import Any

from gesso.cluster.settings import ClusterSettings
from gesso.errors import OptionError
from gesso.telemetry.export import tracing

NAME = "gesso"
ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",  # nothing is told to anybody
    # All is on one machine, whose cores a model may take for a while: who is slow is not dead.
    "RAY_agent_register_timeout_ms": "300000",
    "RAY_worker_register_timeout_seconds": "300",
    "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "60",
    "RAY_SERVE_PROXY_HEALTH_CHECK_TIMEOUT_S": "60",
    "RAY_worker_niceness": "0",  # Ray gives its workers, and so the models, what everybody else leaves: 15
}
"""Variables of Ray that are set where the user has set nothing else."""
ATTEMPTS = 3
STORE_BYTES = 200 * 2**20
"""Bytes of Ray's object store, through which nothing large goes here."""


def run_locally(
    args: dict[str, Any], host: str, port: int, started: Callable[[str], None], stop: threading.Event | None = None
) -> None:
    """Starts Ray and the application, and blocks until SIGINT, SIGTERM or `stop`; then all that runs may finish.

    Args:
        args: fields of `ClusterSettings`.
        port: 0 takes a free one.
        started: is told the address once a replica takes requests.

    Raises:
        OptionError: a setting is impossible, the address is taken, or OpenTelemetry's variables ask for what is not
            there.
    """
    settings = ClusterSettings.read(args)
    with tracing(NAME):
        pass  # what would end each replica at its start is refused here
    port = _free_port(host, port)
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    import ray
    from ray import serve

    from gesso.cluster.app import app

    ended = stop or threading.Event()
    # Ray counts CPUs for itself; more replicas than cores are slow, and not refused.
    cpus = max(os.cpu_count() or 1, 1 + round(settings.max_replicas * settings.num_cpus))
    _start_ray(cpus)
    try:
        address = {"host": host, "port": port}
        _patiently(lambda: serve.start(proxy_location="HeadOnly", http_options=address))
        _patiently(lambda: serve.run(app(args), name=NAME, route_prefix="/", blocking=False))
        if stop is None:
            # Ray has set handlers of its own by now, which end the process where it stands.
            for number in (signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if sys.platform != "win32" else [])):
                signal.signal(number, lambda *_: ended.set())
        shown = f"[{host}]" if ":" in host else host
        started(f"http://{shown}:{port}")
        ended.wait()
        serve.shutdown()
    finally:
        ray.shutdown()


def _start_ray(cpus: int) -> None:
    """Starts Ray, once more where it gave up on itself: it waits 30 seconds for its own processes, and no longer."""
    import ray

    for attempt in range(ATTEMPTS):
        try:
            ray.init(
                num_cpus=cpus,
                include_dashboard=False,
                object_store_memory=STORE_BYTES,
                log_to_driver=False,
                configure_logging=False,
            )
            return
        except Exception as error:
            ray.shutdown()
            if "timed out during startup" not in str(error) or attempt == ATTEMPTS - 1:
                raise


def _patiently(step: Callable[[], object]) -> None:
    """Takes a step of Ray Serve's start, once more where it gave up waiting for its own processes: they go on starting,
    and the step finds them there."""
    for attempt in range(ATTEMPTS):
        try:
            step()
            return
        except TimeoutError:
            if attempt == ATTEMPTS - 1:
                raise


def _free_port(host: str, port: int) -> int:
    try:
        with socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET) as tried:
            found: int = tried.getsockname()[1]
            return found
    except OSError as error:
        raise OptionError(f"cannot listen at {host} port {port}: {error.strerror or error}", option="host") from None
