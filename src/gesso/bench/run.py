"""Runs the whole benchmark over one engine: the machine's rates, every cell, and the report."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime

from gesso.bench.cells import Cell, Settings
from gesso.bench.images import BenchImages
from gesso.bench.machine import describe_machine, measure_rates
from gesso.bench.measure import Bench, CellResult
from gesso.bench.report import Report, make_report
from gesso.engine.engine import Engine
from gesso.models.describe import parameters
from gesso.models.family import only_diffusion_gemma

Telling = Callable[[str], AbstractContextManager[object]]
"""Shows what is being done for as long as it takes."""


def run_bench(
    engine: Engine,
    cells: Sequence[Cell],
    settings: Settings,
    *,
    random_weights: bool = False,
    images: BenchImages | None = None,
    stopped: Callable[[], bool],
    telling: Telling,
) -> Report:
    """Measures every cell. Rates are measured before and after, and the better ones count.

    Args:
        images: what every prompt begins with; pre-processing and tower are measured by themselves, too.
        stopped: once it says so, the report tells what was measured so far.
    """
    model = only_diffusion_gemma(engine.model, "model", "gesso bench")
    date = datetime.now(UTC).isoformat(timespec="seconds")
    config, machine = model.config, describe_machine(model.device)
    rows = config.canvas_length * max(cell.batch for cell in cells)
    bench = Bench(engine, settings, stopped, images)
    with telling("what the machine can do"):
        rates = measure_rates(config, rows, model.dtype, model.device)
    results: list[CellResult] = []
    for number, cell in enumerate(cells):
        with telling(f"cell {number + 1} of {len(cells)}"):
            result = bench.measure(cell)
        if result is not None:
            results.append(result)
        if stopped():
            break
    complete = len(results) == len(cells) and all(result.repeats == settings.repeats for result in results)
    if complete:
        with telling("what the machine can do, again"):
            rates = rates.best(measure_rates(config, rows, model.dtype, model.device))
    facts = {
        "name": engine.name,
        "random_weights": random_weights,
        "dtype": str(model.dtype).removeprefix("torch."),
        "parameters": parameters(config)[0],
        "weights_mb": sum(tensor.nbytes for tensor in model.state_dict().values()) / 1e6,
        "canvas_length": config.canvas_length,
    }
    report = make_report(facts, machine, rates, settings, results, date=date, complete=complete)
    if images is not None and complete:
        with telling("images"):
            report["images"] = images.report(rates, settings.repeats, settings.warmup)
    return report
