import json
from pathlib import Path
from typing import Any

import pytest

from gesso.bench.cells import Cell, Mode, Settings
from gesso.bench.floor import Rates, Work
from gesso.bench.measure import CellResult, Spread
from gesso.bench.plot import plot_report
from gesso.bench.report import changes, make_report, read_report
from gesso.errors import OptionError

MODEL = {"name": "m", "dtype": "float32", "random_weights": False, "parameters": 1, "weights_mb": 1, "canvas_length": 8}
MACHINE = {"device": "cpu", "cpu": "c", "cores": 2, "threads": 2, "load": 0.1, "torch": "2"}


def result(mode: Mode, step: float, speed: float, work: Work) -> CellResult:
    return CellResult(
        cell=Cell(256, 64, 1, mode),
        repeats=3,
        first_block_s=Spread(0.1, 0.1, 0.2),
        step_ms=Spread(step, 0.9 * step, 1.1 * step),
        step_rows=1,
        steps_per_canvas=4.0,
        tokens_per_forward=8.0,
        tokens_per_s=Spread(speed, 0.9 * speed, 1.1 * speed),
        peak_bytes=10**6,
        peak_is_of_cell=True,
        joules=None,
        work=work,
    )


def report_of(step: float = 20.0, device: str = "cpu") -> dict[str, Any]:
    results = [
        result("canvas", step, 100.0, Work(bytes=1e6, operations=2e9)),
        result("ar", 5.0, 40.0, Work(bytes=2e6, operations=1e6)),
    ]
    machine = MACHINE | {"device": device}
    rates = Rates(bytes=1e9, operations=1e12)
    return make_report(MODEL, machine, rates, Settings(), results, date="2026-01-01", complete=True)


def test_the_slower_of_reading_and_arithmetic_is_the_floor() -> None:
    canvas, ar = report_of()["cells"]
    assert (canvas["floor_ms"], canvas["floor_by"], canvas["times_floor"]) == (2.0, "arithmetic", 10.0)
    assert (ar["floor_ms"], ar["floor_by"], ar["times_floor"]) == (2.0, "reads", 2.5)
    assert (canvas["times_ar"], ar["times_ar"]) == (2.5, None)


def test_changes_come_with_what_the_spreads_allow(tmp_path: Path) -> None:
    path = tmp_path / "before.json"
    path.write_text("a line before\n" + json.dumps(report_of()) + "\n")
    before = read_report(path)
    assert before == report_of()
    path.write_text(json.dumps(report_of()), encoding="utf-8-sig")
    assert read_report(path) == before, "an editor's mark of UTF-8 is no part of it"
    found = changes(before, report_of(step=10.0, device="other"))
    canvas, ar = found["cells"]
    assert canvas["step_ms"] == pytest.approx(
        {"percent": -50.0, "low": 100 * (9 / 22 - 1), "high": 100 * (11 / 18 - 1)}
    )
    assert ar["step_ms"]["percent"] == 0
    assert found["differs"] == ["device"]
    assert found["since"] == "2026-01-01"
    before["cells"] = before["cells"][1:]
    assert [cell["mode"] for cell in changes(before, report_of())["cells"]] == ["ar"]


@pytest.mark.parametrize(
    "text",
    ["", "no JSON", "[]", "3", '{"benchmark": "denoise"}', '{"benchmark": "gesso bench", "format": 2}', "\ud800"],
)
def test_a_foreign_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "before.json"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(OptionError, match=r"--compare .*before\.json holds no line"):
        read_report(path)


@pytest.mark.parametrize("spoil", ["step_ms", "tokens_per_s", "mode"])
def test_a_report_with_a_hole_is_refused(tmp_path: Path, spoil: str) -> None:
    report = report_of()
    del report["cells"][1][spoil]
    path = tmp_path / "before.json"
    path.write_text(json.dumps(report))
    with pytest.raises(OptionError, match="holds no line"):
        read_report(path)
    with pytest.raises(OptionError, match=r"--compare .*No such file"):
        read_report(tmp_path / "none.json")


def test_a_picture(tmp_path: Path) -> None:
    plot_report(report_of(), tmp_path / "out.png")
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(OptionError, match=r"--plot .*: "):
        plot_report(report_of(), tmp_path)
