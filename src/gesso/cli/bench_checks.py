"""Reads the values of `gesso bench`, and refuses what cannot be measured before anything is loaded."""

from pathlib import Path
from typing import TYPE_CHECKING

from gesso.cli.files import check_output
from gesso.load_options import LoadOptions
from gesso.options import keyword

if TYPE_CHECKING:
    from gesso.bench.cells import Settings

PICTURES = (".png", ".svg", ".pdf")
"""How the name of a picture may end."""


def check_checkpoint(
    formats: dict[str, str | None], load: LoadOptions, image: list[str] | None, peer: str | None
) -> None:
    """Refuses what cannot be measured of a checkpoint.

    Raises:
        OptionError: two options contradict each other, or one needs another.
    """
    from gesso.errors import OptionError

    if option := next((name for name, form in formats.items() if form is not None), None):
        raise OptionError(
            f"{option} needs --random-weights: a checkpoint is measured as gesso quantize wrote it",
            option=keyword(option),
        )
    if load.device == "meta":
        raise OptionError("--device meta counts the bytes of a shape: it needs --random-weights", option="device")
    if image and peer is not None:
        raise OptionError(f"--peer {peer} is shown no images: leave one of the two out", option="peer")


def check_images(image: list[str] | None, image_budget: int | None) -> None:
    """Refuses a budget of images where there are none.

    Raises:
        OptionError: there are none.
    """
    from gesso.errors import OptionError

    if image_budget is not None and not image:
        raise OptionError("--image-budget needs --image", option="image_budget")


def check_random(model: str | None, image: list[str] | None, peer: str | None, load: LoadOptions) -> None:
    """Refuses what cannot be measured of random weights.

    Raises:
        OptionError: an option that needs a checkpoint.
    """
    from gesso.errors import OptionError

    if model is not None:
        raise OptionError(
            f"--random-weights and {model} contradict: it has weights of its own", option="random_weights"
        )
    if load.device_memory is not None:
        raise OptionError(
            "--device-memory needs a checkpoint: random weights are drawn on the device", option="device_memory"
        )
    for option, given in (
        ("--cuda-graphs", load.cuda_graphs),
        ("--tensor-parallel", load.tensor_parallel > 1),
        ("--pipeline-parallel", load.pipeline_parallel > 1),
    ):
        if given:
            raise OptionError(
                f"{option} needs a checkpoint: random weights run on one device, pass by pass", option=keyword(option)
            )
    if peer is not None:
        raise OptionError("--peer needs a checkpoint: random weights are never on disk", option="peer")
    if image:
        raise OptionError("--image needs a checkpoint with a vision tower: random weights have none", option="image")


def read_settings(steps: str | None, repeats: int, warmup: int, modes: list[str], *, random: bool) -> "Settings":
    """Returns how a cell is measured.

    Raises:
        OptionError: steps that are no number, or cannot be taken; repeats or a warm-up that are impossible.
    """
    from gesso.bench.cells import RANDOM_STEPS, Settings
    from gesso.errors import OptionError

    if steps is not None and "canvas" not in modes:
        raise OptionError("--steps counts the steps of a canvas: --mode must have canvas", option="steps")
    if steps == "real" and random:
        raise OptionError("--steps real needs real weights: canvases of random ones never settle", option="steps")
    if steps is None:
        return Settings(RANDOM_STEPS if random else None, repeats, warmup)
    if steps != "real" and not steps.removeprefix("-").isdecimal():
        raise OptionError(f"--steps takes real or a whole number, got {steps!r}", option="steps")
    return Settings(None if steps == "real" else int(steps), repeats, warmup)


def read_numbers(option: str, text: str) -> list[int]:
    """Reads whole numbers separated by commas.

    Raises:
        OptionError: the text is something else.
    """
    from gesso.errors import OptionError

    try:
        return [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise OptionError(
            f"{option} takes whole numbers separated by commas, got {text!r}", option=keyword(option)
        ) from None


def check_plot(plot: Path | None) -> None:
    """Checks before anything is measured that the picture can be drawn and written.

    Raises:
        OptionError: it cannot.
    """
    from importlib.util import find_spec

    from gesso.errors import OptionError
    from gesso.extras import pip_install

    if plot is None:
        return
    if find_spec("matplotlib") is None:
        raise OptionError(f"--plot needs matplotlib: {pip_install('train')}", option="plot")
    if plot.suffix not in PICTURES:
        raise OptionError(f"--plot {plot}: its name must end in {', '.join(PICTURES)}", option="plot")
    check_output(plot, "plot")
