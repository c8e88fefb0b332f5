"""Runs the server as a process: a socket, uvicorn, and an end without broken answers.

The first SIGINT, SIGTERM or SIGHUP closes the service: `/ready` and new requests get 503 at once while running requests
go on, for `drain_seconds` at most, and then uvicorn ends. A second signal ends everything where it stands.
"""

import contextlib
import gc
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Generator
from types import FrameType
from typing import TYPE_CHECKING, NoReturn, Protocol

import uvicorn
from starlette.applications import Starlette

from gesso.errors import OptionError
from gesso.server.connection import Connection
from gesso.server.http_settings import HttpSettings
from gesso.server.settings import Settings

if TYPE_CHECKING:
    from gesso.engine.async_engine import AsyncEngine
    from gesso.server.batch_store import BatchStore
    from gesso.telemetry.traces import Traces

FAILED = 1
"""Exit code where the engine has failed or hangs, and the server was told to end then."""
FORCED = 130
"""Exit code after a second signal."""
TOGETHER = 0.3
"""Seconds within which two signals are one: some send theirs to a process and to its group."""
SWITCH_SECONDS = 0.0005
"""Seconds after which a thread that holds the interpreter gives it to one that waits, a tenth of Python's own. The
engine's thread gives it away in every operation of a pass, and waits so long to have it back beside a thread that
computes. While a constraint is compiled it is less still; see `gesso.constraints.quick_turns`."""
SWEEPS = (10_000, 10, 1000)
"""New objects before the youngest are swept, and sweeps of each generation before one of the next."""
WATCH_SECONDS = 0.5
"""Seconds between two looks at whether the engine has failed."""
LAST_WORDS = 5
"""Seconds in which answers that are ready must have been read by their clients."""


def listen(host: str, port: int) -> socket.socket:
    """Opens a listening socket; port 0 takes a free one.

    Raises:
        OptionError: the address is not this machine's, or taken, or there is none: that would be every address.
    """
    if not host.strip():
        raise OptionError("--host is blank: name an address, such as 127.0.0.1, or 0.0.0.0 for all", option="host")
    if not 0 <= port < 2**16:
        raise OptionError(f"cannot listen at port {port}: ports are 0 to {2**16 - 1}", option="port")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise OptionError(f"cannot listen at {host} port {port}: {reason}", option="host") from None


def address(listener: socket.socket) -> str:
    """Tells the address at which clients find the server."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class Closes(Protocol):
    """Takes no more requests once it is closed."""

    def close(self, drain_seconds: float) -> None:
        """Lets what is under way finish, for so long at most."""


class Server(uvicorn.Server):
    """Runs uvicorn with a draining time before its end, which a signal or `stop` begins."""

    def __init__(self, app: Starlette, service: Closes, settings: HttpSettings) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=Connection.within(settings.connections),
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                lifespan="on",
                ws="none",
                timeout_graceful_shutdown=LAST_WORDS,
            )
        )
        self._service = service
        self._drain_seconds = settings.drain_seconds
        self._closing = threading.Thread(target=self._close, name="gesso-closing", daemon=True)
        self._stopped_at: float | None = None
        """When it was told to stop, by the steady clock."""
        self.failed = False
        """Whether it ends because its engine has failed."""

    def stop(self) -> None:
        """Begins to drain and returns at once; once it has begun, it goes on."""
        if self._stopped_at is not None:
            return
        self._stopped_at = time.monotonic()
        self._closing.start()

    def _close(self) -> None:
        try:
            self._service.close(self._drain_seconds)
        finally:
            self.should_exit = True

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Handles SIGHUP as well, unless the parent process chose to ignore it, as `nohup` does."""
        with super().capture_signals():
            if sys.platform == "win32" or threading.current_thread() is not threading.main_thread():
                yield
                return
            before = signal.getsignal(signal.SIGHUP)
            if before is not signal.SIG_IGN:
                signal.signal(signal.SIGHUP, self.handle_exit)
            try:
                yield
            finally:
                signal.signal(signal.SIGHUP, before)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - uvicorn's signature
        """Handles a signal, which is not raised again at the end, as uvicorn would: the exit code is ours."""
        if self._stopped_at is None:
            self.stop()
            return
        if time.monotonic() - self._stopped_at < TOGETHER:
            return
        end_at_once(FORCED)


def end_at_once(code: int) -> NoReturn:
    """Ends the process: the engine's thread may be in the middle of a pass, which nothing else would end."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def watch_engine(service: "AsyncEngine", server: Server) -> None:
    """Stops the server once its engine has failed, and ends the process where it hangs; returns when it has stopped."""
    while not server.should_exit:
        if service.hung:
            logging.getLogger("gesso").error("the engine hangs in one pass: the server ends")
            end_at_once(FAILED)
        if (failure := service.failure) is not None:
            logging.getLogger("gesso").error("the server ends: the engine has failed: %s", failure)
            server.failed = True
            server.stop()
            return
        time.sleep(WATCH_SECONDS)


def serve(
    service: "AsyncEngine",
    settings: Settings,
    listener: socket.socket,
    started: Callable[[str], None] = lambda url: None,
    traces: "Traces | None" = None,
    batches: "BatchStore | None" = None,
) -> int:
    """Answers requests until a signal comes, or until its engine fails where the settings say so, and returns the exit
    code; calls `started` with the address."""
    from gesso.server.app import create_app

    log_to_stderr()
    share_interpreter()
    app = create_app(service, settings, traces, batches)
    server = Server(app, app.state.context, settings)
    service.start()
    started(address(listener))
    if settings.exit_on_failure:
        threading.Thread(target=watch_engine, args=(service, server), name="gesso-watch", daemon=True).start()
    server.run(sockets=[listener])
    return FAILED if server.failed else 0


def share_interpreter() -> None:
    """Keeps threads from waiting long for each other: quick turns, and no sweep over all objects for every few new
    ones. A large request makes millions, and each sweep over them and the model's would hold up everybody."""
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.collect()
    gc.freeze()
    gc.set_threshold(*SWEEPS)


def log_to_stderr() -> None:
    """Sends the logs of the process to standard error: access lines are JSON by themselves, errors get their time."""
    for name, level, form in (
        ("gesso.access", logging.INFO, "%(message)s"),
        ("gesso", logging.WARNING, "%(asctime)s %(levelname)s %(name)s: %(message)s"),
        ("uvicorn.error", logging.WARNING, "%(asctime)s %(levelname)s %(name)s: %(message)s"),
        ("opentelemetry", logging.WARNING, "%(asctime)s %(levelname)s %(name)s: %(message)s"),
    ):
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter(form))
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(level)
        logger.propagate = False
