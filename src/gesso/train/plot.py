"""Plots the losses of a run, or its rewards, from its `metrics.jsonl`."""

import json
from io import BytesIO
from pathlib import Path

from gesso.errors import OptionError, TrainingError
from gesso.extras import pip_install
from gesso.whole_file import write_whole

CURVES = {
    "denoiser_loss": ("denoiser, training", "C0", "-"),
    "held_out_denoiser_loss": ("denoiser, held out", "C0", "o--"),
    "encoder_loss": ("encoder, training", "C1", "-"),
    "held_out_encoder_loss": ("encoder, held out", "C1", "o--"),
}

REWARDS = {
    "reward": ("reward, drawn", "C0", "-"),
    "held_out_reward": ("reward, held out", "C0", "o--"),
    "right": ("right, drawn", "C1", "-"),
    "held_out_right": ("right, held out", "C1", "o--"),
    "kl": ("nats a draw from the start", "C2", "-"),
}


def read_metrics(path: Path) -> list[dict[str, float]]:
    """Reads the records of a run; a last line that is cut short is left out.

    Raises:
        TrainingError: there is no such file.
    """
    if not path.exists():
        raise TrainingError(f"there is no {path}: the run has written nothing yet")
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


def plot_losses(metrics: Path, picture: Path) -> None:
    """Plots losses over steps, logarithmic, or rewards, and writes a PNG.

    Raises:
        OptionError: matplotlib is not installed.
        TrainingError: there are no metrics, or the picture cannot be written.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise OptionError(f"a plot needs matplotlib: {pip_install('train')}", option="plot") from None
    records = read_metrics(metrics)
    figure = Figure(figsize=(8, 4.5), dpi=120, layout="constrained")
    axes = figure.subplots()
    rewarded = any("reward" in record for record in records)
    for name, (label, colour, style) in (REWARDS if rewarded else CURVES).items():
        points = [
            (record["step"], record[name]) for record in records if record.get(name) or (rewarded and name in record)
        ]
        if points:
            steps, values = zip(*points, strict=True)
            axes.plot(steps, values, style, color=colour, label=label, linewidth=1.2, markersize=4)
    if rewarded:
        axes.set(xlabel="step")
    else:
        axes.set(xlabel="step", ylabel="loss, nats a token", yscale="log")
    axes.grid(alpha=0.3, which="both")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    drawn = BytesIO()
    figure.savefig(drawn, format="png")
    try:
        write_whole(picture, drawn.getvalue())
    except OSError as error:
        raise TrainingError(f"{picture} cannot be written: {error.strerror or error}") from error
