"""Runs `gesso serve` with this process's arguments for as long as the parent process lives.

The parent holds the other end of standard input. When that closes, whatever ended the parent, the server is told to
stop as by `kill`: it drains and ends.
"""

import os
import runpy
import signal
import sys
import threading


def _watch() -> None:
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=_watch, name="gesso-parent", daemon=True).start()
    sys.argv = ["gesso", "serve", *sys.argv[1:]]
    runpy.run_module("gesso", run_name="__main__", alter_sys=True)
