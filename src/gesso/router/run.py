"""Runs a router as a process."""

import socket
from collections.abc import Callable

from gesso.router.app import Router
from gesso.router.spawn import MISTAKE
from gesso.server.run import Server, address, log_to_stderr


def route(router: Router, listener: socket.socket, started: Callable[[str], None] = lambda url: None) -> int:
    """Answers requests until a signal comes, or until spawned servers refuse their arguments, and returns the exit
    code; calls `started` with the address."""
    log_to_stderr()
    server = Server(router.app, router, router.settings)
    router.on_refusal = server.stop
    started(address(listener))
    server.run(sockets=[listener])
    return MISTAKE if router.refused else 0
