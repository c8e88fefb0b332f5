"""What `gesso train`, `finetune` and `reinforce` share."""

import json
from pathlib import Path

import pytest

from cli.conftest import Gesso
from gesso.errors import TrainingError


@pytest.mark.parametrize("early", [True, False])
def test_a_plot_that_fails_takes_no_result_with_it(
    gesso: Gesso, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, early: bool
) -> None:
    """A run that ends before it has a record, and a disk without room for the picture."""
    data, run = tmp_path / "data.jsonl", tmp_path / "run"
    lines = [{"prompt": f"What is {a} + {b}?", "completion": str(a + b)} for a in range(8) for b in range(8)]
    data.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    if not early:
        monkeypatch.setattr("gesso.train.plot.plot_losses", _full)
    limit = ("--steps", 60, "--max-minutes", 0.0001) if early else ("--steps", 1)
    outcome = gesso("finetune", data, "--out", run, "--batch-size", 2, "--plot", *limit)
    assert (outcome.code, outcome.out) == (0, f"{run / 'adapter'}\n")
    assert "warning: nothing is plotted: " in outcome.err
    assert (run / "adapter" / "adapter_model.safetensors").exists()


def _full(*_: Path) -> None:
    raise TrainingError("no space left")
