"""Defines samplers, one file each: they make the first canvas, and in each denoising step the next one.

A sampler is a frozen dataclass whose fields are its options. It has no state of its own: what it remembers of a canvas
is what `start` and `step` return and get back, so that one sampler serves any number of canvases. All that it draws
comes from the generator it is given; a canvas then depends on its seed and never on its neighbours.
"""

from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from gesso.errors import OptionError
from gesso.options import Registry, Strategy
from gesso.options.user_code import failures_in, is_own

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from gesso.diffusion.prediction import Prediction
    from gesso.diffusion.step import CanvasInfo, StepInfo


class Sampler(Strategy, Protocol):
    """Makes the next canvas from a prediction."""

    reads_confidence: ClassVar[bool] = False
    """Whether it needs `Prediction.confidence_C`."""
    reads_log_probs: ClassVar[bool] = False
    """Whether it needs `Prediction.log_probs`, for which a step works on the logits of the canvas."""

    fits_masks: ClassVar[bool] = True
    """Whether it makes sense where noise is a mask token; one of formulas for uniform noise does not."""
    remasks: ClassVar[bool] = False
    """Whether it makes noise again of positions that it decoded, where noise is a mask token; what others decoded there
    stays."""

    def check_masked(self) -> None:
        """Checks its options for a model whose noise is a mask token.

        Raises:
            OptionError: one makes no sense there.
        """
        return

    def start(self, canvas: "CanvasInfo", rng: "torch.Generator") -> "tuple[Tensor, Any]":
        """Returns the first canvas, int64 [C], and the state before the first step: that of `start_canvas` and none,
        unless a sampler remembers something."""
        return start_canvas(canvas, rng), None

    def step(
        self, info: "StepInfo", canvas_C: "Tensor", prediction: "Prediction", state: Any, rng: "torch.Generator"
    ) -> "tuple[Tensor, Tensor, Any]":
        """Returns the next canvas, int64 [C], the positions it accepts, whose tokens stay for now, bool [C], and the
        next state.

        Args:
            info: number of the step, steps left, temperature, width, vocabulary, pins.
            canvas_C: what the model saw; must not be changed.
            prediction: what the model predicts for it.
            state: what `start` or the step before returned; must not be changed.
            rng: random generator of this canvas, on the CPU.
        """

    def output(self, info: "StepInfo", canvas_C: "Tensor", prediction: "Prediction", state: Any) -> "Tensor":
        """Returns the tokens that the canvas would commit after a step, int64 [C]: the likeliest ones, unless a sampler
        commits its own."""
        return prediction.argmax_C


class CommittingSampler(Sampler, Protocol):
    """Makes the next canvas and commits tokens of it: its state is the positions that are committed, bool [C]."""

    def start(self, canvas: "CanvasInfo", rng: "torch.Generator") -> "tuple[Tensor, Tensor]":
        import torch

        return start_canvas(canvas, rng), torch.zeros(canvas.width, dtype=torch.bool)

    def output(self, info: "StepInfo", canvas_C: "Tensor", prediction: "Prediction", state: "Tensor") -> "Tensor":
        return prediction.argmax_C.where(~state, canvas_C)


def draw_noise(canvas: "CanvasInfo", rng: "torch.Generator") -> "Tensor":
    """Draws the noise that the model is made for, int64 [C]: uniform random token ids, or masks."""
    import torch

    if canvas.mask_token is not None:
        return torch.full((canvas.width,), canvas.mask_token)
    return torch.randint(canvas.vocab_size, (canvas.width,), generator=rng)


def start_canvas(canvas: "CanvasInfo", rng: "torch.Generator") -> "Tensor":
    """Returns noise, or the given canvas with noise in the place of a share `strength` of it, int64 [C]."""
    import torch

    if canvas.start_C is None:
        return draw_noise(canvas, rng)
    if canvas.strength is None:
        return canvas.start_C
    noised_C = torch.rand(canvas.width, generator=rng) < canvas.strength
    return torch.where(noised_C, draw_noise(canvas, rng), canvas.start_C)


def accept_from(bound: float, sureness_C: "Tensor", held_C: "Tensor | None") -> "Tensor":
    """Returns the positions that are held or at least as sure as `bound`, and the surest of the free ones in any case,
    bool [C].

    Args:
        sureness_C: from 0 to 1.
        held_C: positions that hold a token whatever is accepted, bool.
    """
    accepted_C = sureness_C >= bound
    if held_C is not None:
        accepted_C, sureness_C = accepted_C | held_C, sureness_C.masked_fill(held_C, -1.0)
    accepted_C[sureness_C.argmax()] = True
    return accepted_C


def first_canvas(sampler: Sampler, canvas: "CanvasInfo", rng: "torch.Generator") -> "tuple[Tensor, Any]":
    """Returns a sampler's first canvas and its state.

    Raises:
        OptionError: it is the user's own, and fails or returns something else.
    """
    with failures_in(sampler, "sampler", "start"):
        started = sampler.start(canvas, rng)
    _check_returned(sampler, "start", started, canvas, "int64")
    return started


def next_canvas(
    sampler: Sampler, info: "StepInfo", canvas_C: "Tensor", prediction: "Prediction", state: Any, rng: "torch.Generator"
) -> "tuple[Tensor, Tensor, Any]":
    """Returns what a sampler's step does.

    Raises:
        OptionError: it is the user's own, and fails or returns something else.
    """
    with failures_in(sampler, "sampler", "step"):
        taken = sampler.step(info, canvas_C, prediction, state, rng)
    _check_returned(sampler, "step", taken, info.canvas, "int64", "bool")
    return taken


def _check_returned(sampler: Sampler, method: str, returned: Any, canvas: "CanvasInfo", *dtypes: str) -> None:
    """Checks that a method of the user's own returns a tensor [C] of each type, the first one tokens, and a state."""
    if not is_own(sampler):
        return
    wanted = [f"{dtype} [{canvas.width}]" for dtype in dtypes]
    got = [_shown(value) for value in returned] if isinstance(returned, tuple) else _shown(returned)
    if got[:-1] != wanted:
        shown = f"({', '.join(got)})" if isinstance(returned, tuple) else got
        message = f"{type(sampler).__name__}.{method} must return ({', '.join([*wanted, 'state'])}), got {shown}"
        raise OptionError(message, option="sampler")
    least, most = int(returned[0].min()), int(returned[0].max())
    if least < 0 or most >= canvas.vocab_size:
        beyond = least if least < 0 else most
        message = f"{type(sampler).__name__}.{method} returns token {beyond}, of {canvas.vocab_size}"
        raise OptionError(message, option="sampler")


def _shown(value: object) -> str:
    """Returns type and shape of a tensor, and the type of anything else."""
    shape = getattr(value, "shape", None)
    if shape is None:
        return type(value).__name__
    return f"{str(getattr(value, 'dtype', '')).removeprefix('torch.')} {list(shape)}"


SAMPLERS: Registry[Sampler] = Registry("sampler", __name__)
