"""Runs modules of gesso as processes of their own, which import what this process would import."""

import sys
from pathlib import Path


def command_of(module: str) -> list[str]:
    """Returns the beginning of a command line that runs a module by this Python and this process's paths of imports.

    `python -m` would look into the working folder first, whose files may have any names: a `queue.py` there would be
    run in the place of Python's own.
    """
    paths = ascii([path or str(Path.cwd()) for path in sys.path])
    run = f"runpy.run_module({module!r}, run_name='__main__', alter_sys=True)"
    return [sys.executable, "-P", "-c", f"import runpy, sys; sys.path[:] = {paths}; {run}"]
