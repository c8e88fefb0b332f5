"""Some seconds of careless clients. `python benchmarks/soak.py` goes on for ten."""

import json
import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "soak.py"
SECONDS = os.environ.get("GESSO_SOAK_SECONDS", "8")


def test_a_server_under_careless_clients_stays_whole() -> None:
    """Answers equal those of requests alone, nothing is left over, memory does not grow."""
    command = [sys.executable, str(SCRIPT), "--seconds", SECONDS]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=SCRIPT.parent, timeout=220)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["faults"] == 0
    assert report["requests"] > 20
    assert len(report["by_kind"]) == 7, "every kind of client was there"
