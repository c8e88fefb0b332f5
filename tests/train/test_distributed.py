"""Several processes make the run that one makes."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from train.runs import losses_of, metrics, recipe, train


def run_team(out: Path, processes: int, stop_at: int, **changes: Any) -> None:
    """The tiny recipe under `torchrun`."""
    script = out.parent / "team.py"
    script.write_text(
        "import json, sys; from pathlib import Path; from train import runs;"
        "runs.train(runs.recipe(**json.loads(sys.argv[2])), Path(sys.argv[1]), device='cpu',"
        " stop_at=int(sys.argv[3]))",
        encoding="utf-8",
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={processes}", "--standalone",
         str(script), str(out), json.dumps(changes), str(stop_at)],
        env=environment, check=True, capture_output=True,
    )  # fmt: skip


def test_two_processes_make_the_same_run_as_one(tmp_path: Path) -> None:
    """The same losses on the same global batch, also when a run of two goes on as one and back."""
    settings = {"batch_size": 5, "evaluate_every": 4, "learning_rate": 1e-3}
    train(recipe(**settings), tmp_path / "one", device="cpu")
    run_team(tmp_path / "two", 2, 4, **settings)
    train(recipe(**settings), tmp_path / "two", device="cpu", stop_at=8)
    run_team(tmp_path / "two", 2, 12, **settings)
    one, two = metrics(tmp_path / "one"), metrics(tmp_path / "two")
    assert one.keys() == two.keys()
    for step, expected in losses_of(tmp_path / "one").items():
        assert losses_of(tmp_path / "two")[step] == pytest.approx(expected, rel=2e-3), step
    left, right = (load_file(tmp_path / name / "step-000012" / "model.safetensors") for name in ("one", "two"))
    for name, tensor in left.items():
        torch.testing.assert_close(right[name], tensor, atol=2e-3, rtol=0.02, msg=name)
