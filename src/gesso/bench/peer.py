"""Runs the same weights in `transformers`, in a process of its own: gesso itself never imports it.

The script that does it, `benchmarks/peer.py`, stands in the source tree and in no package.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from gesso.bench.cells import Cell, Settings
from gesso.bench.measure import prompt_tokens
from gesso.engine.engine import Engine
from gesso.errors import OptionError
from gesso.extras import pip_install

PEERS = ("transformers",)
SCRIPT = Path(__file__).resolve().parents[3] / "benchmarks" / "peer.py"


def check_peer(peer: str, cells: Sequence[Cell]) -> None:
    """Refuses a peer that cannot run what is to be measured.

    Raises:
        OptionError: it is not known, not here, or has nothing to do.
    """
    if peer not in PEERS:
        raise OptionError(f"--peer {peer!r} does not exist; known: {', '.join(PEERS)}", option="peer")
    if not SCRIPT.is_file():
        raise OptionError(
            f"--peer {peer} works from a source checkout only: there is no benchmarks/{SCRIPT.name} here", option="peer"
        )
    if find_spec(peer) is None:
        raise OptionError(f"--peer {peer} is not installed: {pip_install('test')}", option="peer")
    if all(cell.mode != "canvas" for cell in cells):
        raise OptionError(f"--peer {peer} writes canvases only: --mode must have canvas", option="peer")


def peer_job(engine: Engine, folder: Path, cells: Sequence[Cell], settings: Settings) -> dict[str, Any]:
    """Describes the peer's job: the weights, and the prompts that the engine was given."""
    return {
        "folder": str(folder.resolve()),
        "device": str(engine.model.device),
        "dtype": str(engine.model.dtype).removeprefix("torch."),
        "threads": torch.get_num_threads(),
        "steps": settings.steps,
        "repeats": settings.repeats,
        "warmup": settings.warmup,
        "cells": [
            {
                "prompt": cell.prompt,
                "output": cell.output,
                "batch": cell.batch,
                "mode": cell.mode,
                "prompts": [prompt_tokens(engine, cell.prompt, row) for row in range(cell.batch)],
            }
            for cell in cells
            if cell.mode == "canvas"
        ],
    }


def run_peer(job: dict[str, Any]) -> dict[str, Any]:
    """Runs the peer and returns its report: `cells`, with a report's `first_block_s`, `step_ms`, `steps_per_canvas`
    and `tokens_per_s`.

    Or `error`, the last line it wrote before it failed: what gesso measured is worth telling without it.
    """
    done = subprocess.run(
        [sys.executable, str(SCRIPT)],
        input=json.dumps(job),
        capture_output=True,
        text=True,
        env=os.environ | {"HF_HUB_OFFLINE": "1"},
        check=False,
    )
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"])[-1]}
    return {"cells": json.loads(done.stdout.splitlines()[-1])}
