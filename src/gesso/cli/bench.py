"""Implements `gesso bench`."""

import dataclasses
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from gesso.cli import options as opt
from gesso.cli.bench_checks import check_checkpoint, check_images, check_plot, check_random, read_numbers, read_settings
from gesso.cli.bench_options import (
    REPEATS,
    WARMUP,
    AsJson,
    Batch,
    Compare,
    ImageBudget,
    Images,
    Modes,
    Name,
    Output,
    Peer,
    Plot,
    Prompt,
    Quantize,
    QuantizeEmbedding,
    RandomWeights,
    Repeats,
    Steps,
    Warmup,
)
from gesso.cli.output import print_json
from gesso.cli.progress import working
from gesso.cli.signals import INTERRUPTED
from gesso.load_options import LoadOptions
from gesso.options import keyword

if TYPE_CHECKING:
    from gesso.bench.cells import Cell, Settings
    from gesso.bench.images import BenchImages
    from gesso.bench.report import Report
    from gesso.engine.engine import Engine


@opt.takes(
    but=("model", "adapter"),
    helps={
        "device": "auto, cpu, cuda or mps; meta counts the bytes of --random-weights and allocates nothing.",
    },
)
def bench(
    load: LoadOptions,
    model: Name = None,
    prompt: Prompt = "256",
    output: Output = "64,256",
    batch: Batch = "1",
    mode: Modes = "canvas,ar",
    steps: Steps = None,
    image: Images = None,
    image_budget: ImageBudget = None,
    repeats: Repeats = REPEATS,
    warmup: Warmup = WARMUP,
    peer: Peer = None,
    as_json: AsJson = False,
    plot: Plot = None,
    compare: Compare = None,
    random_weights: RandomWeights = None,
    quantize: Quantize = None,
    quantize_embedding: QuantizeEmbedding = None,
) -> int:
    """Measure steps, tokens a second and memory, beside the least that a step can take."""

    from gesso.bench.cells import make_cells
    from gesso.bench.report import read_report

    formats = {"--quantize": quantize, "--quantize-embedding": quantize_embedding}
    if random_weights is None:
        check_checkpoint(formats, load, image, peer)
    else:
        check_random(model, image, peer, load)
    check_images(image, image_budget)
    modes = [part.strip() for part in mode.split(",") if part.strip()]
    cells = make_cells(
        read_numbers("--prompt", prompt), read_numbers("--output", output), read_numbers("--batch", batch), modes
    )
    if random_weights is not None and load.device == "meta":
        measuring: dict[str, object] = {"--steps": steps, "--plot": plot, "--compare": compare}
        measuring |= {
            "--threads": load.threads,
            "--repeats": repeats != REPEATS or None,
            "--warmup": warmup != WARMUP or None,
        }
        return _count(random_weights, cells, [*formats.values()], load.dtype, measuring, as_json=as_json)
    settings = read_settings(steps, repeats, warmup, modes, random=random_weights is not None)
    check_plot(plot)
    before = None if compare is None else read_report(compare)
    if random_weights is not None:
        report = _run_random(random_weights, [*formats.values()], cells, settings, load)
    else:
        seen = (image or [], image_budget)
        report = _run(dataclasses.replace(load, model=model or load.model), cells, settings, seen, peer=peer)
    if before is not None:
        from gesso.bench.report import changes

        report["changes"] = changes(before, report)
    if as_json:
        print_json(report)
    else:
        from gesso.cli.bench_tables import show_report

        show_report(report)
    if plot is not None and report["cells"]:
        from gesso.bench.plot import plot_report

        plot_report(report, plot)
    if "error" in report.get("peer", {}):
        return 1
    return 0 if report["complete"] else INTERRUPTED


def _count(
    path: Path,
    cells: "list[Cell]",
    formats: list[str | None],
    dtype: str,
    measuring: dict[str, object],
    *,
    as_json: bool,
) -> int:
    """Bytes instead of measurements.

    Args:
        formats: what `--quantize` and `--quantize-embedding` say.
        measuring: options that say how to measure, and what they were given; None for nothing.

    Raises:
        OptionError: one of them was given, or the shape cannot be what it is asked to be.
    """

    from gesso.bench.account import META, account_report
    from gesso.bench.cells import check_lengths
    from gesso.bench.random_weights import read_formats, read_shape
    from gesso.cli.bench_tables import show_account
    from gesso.errors import OptionError
    from gesso.models.dtype import pick_dtype

    for option, given in measuring.items():
        if given is not None:
            raise OptionError(f"{option} is for measuring: --device meta counts bytes alone", option=keyword(option))
    config, chosen = read_shape(path), read_formats(*formats)
    check_lengths(cells, config)
    with working("counting"):
        report = account_report(config, _name(path, *formats), pick_dtype(dtype, META), cells, chosen)
    if as_json:
        print_json(report)
    else:
        show_account(report)
    return 0


def _name(path: Path, quantize: str | None, embedding: str | None) -> str:
    packed = [f"in {quantize}"] if quantize is not None else []
    packed += [f"table in {embedding}"] if embedding is not None else []
    return " ".join([str(path), ", ".join(packed)]).rstrip()


def _run_random(
    path: Path, formats: list[str | None], cells: "list[Cell]", settings: "Settings", load: LoadOptions
) -> "Report":
    """The report over weights that are drawn; what can be refused is, before they are."""
    from gesso.bench.cells import check_lengths
    from gesso.bench.random_weights import random_engine, read_formats, read_shape
    from gesso.nn.cpu_threads import decide

    decide(load.threads)
    config, chosen = read_shape(path), read_formats(*formats)
    check_lengths(cells, config)
    with working("drawing the weights"):
        engine = random_engine(config, _name(path, *formats), load.device, load.dtype, cells, chosen)
    return _measure(engine, cells, settings, random=True)


def _run(
    load: LoadOptions,
    cells: "list[Cell]",
    settings: "Settings",
    seen: tuple[list[str], int | None],
    *,
    peer: str | None,
) -> "Report":
    """The report over a checkpoint, with images and their budget; then in the peer, when our weights are let go of."""
    from gesso.bench.cells import check_lengths
    from gesso.bench.images import BenchImages
    from gesso.bench.peer import check_peer, peer_job, run_peer
    from gesso.models.hub import resolve
    from gesso.models.loading import read_model_config

    if peer is not None:
        check_peer(peer, cells)
    folder = resolve(load.model, offline=load.offline)
    check_lengths(cells, read_model_config(folder))

    engine = opt.load_engine(load)
    images = BenchImages(engine, *seen) if seen[0] else None
    if images is not None:
        images.check(cells)
    report = _measure(engine, cells, settings, images, random=False)
    del images
    if peer is not None and report["complete"]:
        job = peer_job(engine, folder, cells, settings)
        del engine
        try:
            with working(peer):
                report["peer"] = {"name": peer, **run_peer(job)}
        except KeyboardInterrupt:  # what gesso measured is worth telling; another Ctrl-C ends the process
            report["complete"] = False
    return report


def _measure(
    engine: "Engine",
    cells: "list[Cell]",
    settings: "Settings",
    images: "BenchImages | None" = None,
    *,
    random: bool,
) -> "Report":
    from gesso.bench.run import run_bench
    from gesso.cli.interrupt import first_interrupt

    interrupted = threading.Event()
    with first_interrupt(interrupted.set):
        return run_bench(
            engine,
            cells,
            settings,
            random_weights=random,
            images=images,
            stopped=interrupted.is_set,
            telling=working,
        )
