"""Plots a report."""

from io import BytesIO
from pathlib import Path

from gesso.bench.report import Report, label
from gesso.errors import OptionError
from gesso.extras import pip_install
from gesso.whole_file import write_whole


def plot_report(report: Report, picture: Path) -> None:
    """Plots two rows of bars, in the format of the name: milliseconds of a step beside its floor, and tokens a second.

    Raises:
        OptionError: matplotlib is not installed, or the picture cannot be written.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise OptionError(f"--plot needs matplotlib: {pip_install('train')}", option="plot") from None
    cells = report["cells"]
    names = [f"{cell['mode']}\n{label(cell)}" for cell in cells]
    figure = Figure(figsize=(max(5.0, 1.1 * len(cells) + 1.5), 6), dpi=120, layout="constrained")
    steps, speeds = figure.subplots(2)
    places = range(len(cells))
    bars = (("step_ms", "measured", "C0", -0.2), ("floor_ms", "floor", "0.6", 0.2))
    for name, title, colour, shift in bars:
        heights = [cell[name] if name == "floor_ms" else cell[name]["median"] for cell in cells]
        steps.bar([place + shift for place in places], heights, 0.4, label=title, color=colour)
    steps.set(ylabel="ms a step", yscale="log")
    steps.legend(frameon=False)
    medians = [cell["tokens_per_s"]["median"] for cell in cells]
    below = [cell["tokens_per_s"]["median"] - cell["tokens_per_s"]["low"] for cell in cells]
    above = [cell["tokens_per_s"]["high"] - cell["tokens_per_s"]["median"] for cell in cells]
    colours = ["C0" if cell["mode"] == "canvas" else "C1" for cell in cells]
    speeds.bar(places, medians, 0.6, yerr=(below, above), capsize=3, color=colours)
    speeds.set(ylabel="tokens a second")
    for axes in (steps, speeds):
        axes.set_xticks(list(places), names, fontsize=8)
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(f"{report['model']['name']}, {report['model']['dtype']}, {report['machine']['device']}")
    drawn = BytesIO()
    figure.savefig(drawn, format=picture.suffix[1:] or "png")
    try:
        write_whole(picture, drawn.getvalue())
    except OSError as error:
        raise OptionError(f"--plot {picture}: {error.strerror or error}", option="plot") from None
