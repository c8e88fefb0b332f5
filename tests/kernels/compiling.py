"""Compiles kernels for a GPU that need not be here, in a process of its own: the interpreter is asked for early."""

import os
import subprocess
import sys
from pathlib import Path


def compiled(script: str, cache: Path, *arguments: object) -> str:
    """Runs a script that compiles kernels, with an empty cache; returns what it prints."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment |= {"TRITON_CACHE_DIR": str(cache), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", script, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
