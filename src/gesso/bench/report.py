"""Makes the report of a run, as one JSON-ready mapping, and lists what has changed since an earlier one."""

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gesso.bench.cells import Cell, Settings
from gesso.bench.floor import Rates
from gesso.bench.measure import CellResult
from gesso.errors import OptionError
from gesso.options import keyword

BENCHMARK, FORMAT = "gesso bench", 1
KEY = ("prompt", "output", "batch", "mode")
COMPARED = ("step_ms", "tokens_per_s")

Report = dict[str, Any]


def make_report(
    model: Mapping[str, Any],
    machine: Mapping[str, Any],
    rates: Rates,
    settings: Settings,
    results: Sequence[CellResult],
    *,
    date: str,
    complete: bool,
) -> Report:
    """Makes the report of a run, ready for JSON.

    Args:
        complete: whether every cell that was asked for has all its repeats; a peer that is cut short ends that, too.
    """
    written = {result.cell: result.tokens_per_s.median for result in results if result.cell.mode == "ar"}
    measured = {"gb_per_s": rates.bytes / 1e9, "matmul_gflop_per_s": rates.operations / 1e9}
    return {
        "benchmark": BENCHMARK,
        "format": FORMAT,
        "date": date,
        "model": dict(model),
        "machine": {**machine, **measured},
        "steps": settings.steps or "real",
        "repeats": settings.repeats,
        "warmup": settings.warmup,
        "complete": complete,
        "cells": [_entry(result, rates, written) for result in results],
    }


def _entry(result: CellResult, rates: Rates, written: Mapping[Cell, float]) -> dict[str, Any]:
    reads, arithmetic = rates.seconds(result.work)
    floor_ms = 1e3 * max(reads, arithmetic)
    other = None
    if result.cell.mode == "canvas":
        other = written.get(dataclasses.replace(result.cell, mode="ar"))
    return {
        **dataclasses.asdict(result.cell),
        "repeats": result.repeats,
        "first_block_s": dataclasses.asdict(result.first_block_s),
        "step_ms": dataclasses.asdict(result.step_ms),
        "step_rows": result.step_rows,
        "steps_per_canvas": result.steps_per_canvas,
        "tokens_per_forward": result.tokens_per_forward,
        "tokens_per_s": dataclasses.asdict(result.tokens_per_s),
        "peak_mb": result.peak_bytes / 1e6,
        "peak_is_of_cell": result.peak_is_of_cell,
        "joules": result.joules,
        "step_gb": result.work.bytes / 1e9,
        "step_gflop": result.work.operations / 1e9,
        "floor_ms": floor_ms,
        "floor_by": "reads" if reads > arithmetic else "arithmetic",
        "times_floor": result.step_ms.median / floor_ms,
        "times_ar": None if other is None else result.tokens_per_s.median / other,
    }


def key_of(cell: Mapping[str, Any]) -> tuple[Any, ...]:
    """Returns what tells the cells of a report apart."""
    return tuple(cell[name] for name in KEY)


def read_report(path: Path, option: str = "--compare") -> Report:
    """Reads the last line of a file that `--json` wrote.

    Raises:
        OptionError: the file cannot be read, or holds something else.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").strip().splitlines()
    except OSError as error:
        raise OptionError(f"{option} {path}: {error.strerror}", option=keyword(option)) from None
    except UnicodeDecodeError:
        lines = []
    try:
        report: Report = json.loads(lines[-1] if lines else "")
        if (report["benchmark"], report["format"]) != (BENCHMARK, FORMAT):
            raise ValueError(report["format"])
        for cell in report["cells"]:
            key_of(cell)
            for name in COMPARED:
                spread = cell[name]
                if not all(isinstance(spread[part], int | float) and spread[part] > 0 for part in spread):
                    raise ValueError(name)
                _change(spread, spread)
        _circumstances(report)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        message = f"{option} {path} holds no line that gesso bench --json printed"
        raise OptionError(message, option=keyword(option)) from None
    return report


def changes(before: Report, now: Report) -> dict[str, Any]:
    """Lists the changes cell by cell, in percent, with what the spreads of both runs allow; and what else is not as
    it was."""
    known = {key_of(cell): cell for cell in before["cells"]}
    old, new = _circumstances(before), _circumstances(now)
    return {
        "since": before.get("date"),
        "differs": [name for name in new if old.get(name) != new[name]],
        "cells": [
            {name: cell[name] for name in KEY}
            | {name: _change(known[key_of(cell)][name], cell[name]) for name in COMPARED}
            for cell in now["cells"]
            if key_of(cell) in known
        ],
    }


def _circumstances(report: Report) -> dict[str, Any]:
    machine = {name: report["machine"].get(name) for name in ("device", "cpu", "cores", "threads", "torch")}
    model = {name: report["model"].get(name) for name in ("name", "dtype")}
    images = report.get("images") or {}
    return machine | model | {"steps": report["steps"], "images": images.get("soft_tokens")}


def _change(before: Mapping[str, float], now: Mapping[str, float]) -> dict[str, float]:
    def percent(later: float, earlier: float) -> float:
        return 100 * (later / earlier - 1)

    return {
        "percent": percent(now["median"], before["median"]),
        "low": percent(now["low"], before["high"]),
        "high": percent(now["high"], before["low"]),
    }


def label(cell: Mapping[str, Any]) -> str:
    """Writes `256+64 x4`: prompt, output and batch of a cell of a report."""
    return f"{cell['prompt']}+{cell['output']} x{cell['batch']}"


def has_energy(cells: Iterable[Mapping[str, Any]]) -> bool:
    return any(cell["joules"] is not None for cell in cells)
