"""The code cells of the notebooks in `examples/` run, one after the other."""

import json
from pathlib import Path
from typing import Any

import pytest

from gesso.diffusion.samplers import SAMPLERS

EXAMPLES = Path(__file__).parent.parent / "examples"


def run(name: str) -> dict[str, Any]:
    """Runs a notebook's cells; returns the names that they leave."""
    cells = json.loads((EXAMPLES / f"{name}.ipynb").read_text("utf-8"))["cells"]
    names: dict[str, Any] = {"__name__": "notebook"}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)  # noqa: S102
            assert cell["outputs"] == [], "outputs are not kept"
    return names


def test_a_sampler_of_your_own(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        run("sampler")
    finally:
        SAMPLERS.unregister("growing_share")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert lines[-1].endswith('kettle", "price": 36, "city": "Oslo"}')


def test_guidance(capsys: pytest.CaptureFixture[str]) -> None:
    run("guidance")
    lines = capsys.readouterr().out.splitlines()
    assert "1, 2, 3, 4" in lines[0]
    assert "fig, kiwi, pear" in lines[1]
    assert lines[3] == "1, 2, 3, 4, 5, 6, 7, 8, 9"
    assert len(lines[4]) < len(lines[3])


def test_reinforcement_on_a_task_of_your_own(capsys: pytest.CaptureFixture[str]) -> None:
    names = run("reinforce")
    last, *steps = capsys.readouterr().out.split("\n")
    assert last == "step-000002"
    records = [json.loads(line) for line in steps if line]
    assert [record["step"] for record in records] == [1, 2]
    assert all(record["mixed"] > 0 and record["gradient_norm"] > 0 for record in records), "it learns"
    reward = names["Places"]().case(["pear", "fig"]).reward
    assert [reward("fig, pear"), reward("fig"), reward("pear, fig")] == [1.0, 0.5, 0.0]
