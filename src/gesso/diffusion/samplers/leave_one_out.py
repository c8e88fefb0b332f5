"""Samples ancestrally with a corrector: unsure positions are drawn again, each given all the others."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from gesso.diffusion.samplers import SAMPLERS
from gesso.diffusion.samplers.discrete_ddim import DiscreteDDIMSampler
from gesso.options import option

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from gesso.diffusion.prediction import Prediction
    from gesso.diffusion.step import CanvasInfo, StepInfo

ROWS = 16
"""Positions whose distributions are held at a time, in fp64."""


@SAMPLERS.register("leave_one_out")
@dataclass(frozen=True)
class LeaveOneOutSampler(DiscreteDDIMSampler):
    """Follows every step of `discrete_ddim` by `corrector_steps` sweeps of Gibbs sampling (arXiv 2605.22765;
    `DiscreteDDIMScheduler.step_correct` of diffusers).

    A sweep takes a pass of its own out of the canvas's steps. It draws `corrector_positions` unsure positions anew from
    alpha x0 + (1 - alpha) / K, where x0 does not see the position's own token: its logit is lowered by
    log(1 + K alpha / (1 - alpha)). At temperature 1 that leaves the distribution of the canvas as it is. The last pass
    commits.
    """

    reads_log_probs: ClassVar[bool] = True
    corrector_steps: int = option(1, "Sweeps of the corrector after every step of the predictor.", minimum=1)
    corrector_positions: int = option(4, "Positions that a sweep draws anew.", minimum=1, unit="positions")
    corrector_order: Literal["log_margin", "max_probability", "current_probability", "random"] = option(
        "log_margin", "Which positions a sweep takes: the least sure by this measure, or any."
    )
    corrector_temperature: float = option(
        1.0,
        "Temperature of that choice; lower is greedier.",
        above=0,
        needs=("corrector_order", "log_margin", "max_probability", "current_probability"),
    )

    def step(
        self, info: "StepInfo", canvas_C: "Tensor", prediction: "Prediction", state: Any, rng: "torch.Generator"
    ) -> "tuple[Tensor, Tensor, Any]":
        point, points, corrects = self.place(info.canvas, info.steps_left)
        time, time_after = 1 - point / points, 1 - (point + 1) / points
        if corrects:
            next_C = self._correct(info, canvas_C, prediction, self.alpha(time_after), rng)
        else:
            next_C = self.predict(info, canvas_C, prediction.sample_C, time, time_after, rng)
        return next_C, next_C == prediction.sample_C, state

    def place(self, canvas: "CanvasInfo", steps_left: int) -> tuple[int, int, bool]:
        """Returns what a pass is for: the predictor's point in time, of how many, and whether the pass corrects it.

        Predictor and sweeps take turns; the last pass is the predictor's, and sweeps that are left over come before it.
        """
        total, period = canvas.total_steps, 1 + self.corrector_steps
        points = max(1 + (total - 1) // period, min(total, 2))
        if steps_left == 0:
            return points - 1, points, False
        index = total - steps_left - 1
        point = min(index // period, points - 2)
        return point, points, index > point * period

    def _correct(
        self, info: "StepInfo", canvas_C: "Tensor", prediction: "Prediction", alpha: float, rng: "torch.Generator"
    ) -> "Tensor":
        """Draw the least sure positions anew, int64 [C]."""
        import torch

        def conditional(rows: slice, temperature: float = 1.0) -> "Tensor":
            assert prediction.log_probs is not None
            return leave_one_out(prediction.log_probs(rows), canvas_C[rows], alpha, temperature)

        parts = [slice(start, start + ROWS) for start in range(0, info.width, ROWS)]
        if self.corrector_order == "random":
            keys_C = torch.rand(info.width, generator=rng)
        else:
            doubt_C = torch.cat([self._doubt(conditional(rows), canvas_C[rows]) for rows in parts])
            uniform_C = torch.rand(info.width, generator=rng).clamp_(1e-12, 1 - 1e-12)
            keys_C = doubt_C / self.corrector_temperature - (-uniform_C.log()).log()
        count = info.width
        if info.held_C is not None:
            keys_C = keys_C.masked_fill(info.held_C, -math.inf)
            count = int((~info.held_C).sum())
        chosen = keys_C.topk(min(self.corrector_positions, count)).indices
        if not len(chosen):
            return canvas_C
        places, temperature = chosen.tolist(), info.canvas.sampling_temperature
        drawn = [conditional(slice(place, place + 1), temperature) for place in places]
        probabilities_KV = torch.cat(drawn).exp().cpu()
        return canvas_C.scatter(0, chosen, torch.multinomial(probabilities_KV, 1, generator=rng)[:, 0])

    def _doubt(self, log_probs_RV: "Tensor", tokens_R: "Tensor") -> "Tensor":
        """Returns how unsure some positions are of the tokens that they hold, fp64 [R] on the CPU."""
        if self.corrector_order == "max_probability":
            return -log_probs_RV.amax(dim=-1).cpu()
        tokens_R1 = tokens_R[:, None].to(log_probs_RV.device)
        current_R = log_probs_RV.gather(1, tokens_R1)[:, 0]
        if self.corrector_order == "current_probability":
            return -current_R.cpu()
        others_R = log_probs_RV.scatter(1, tokens_R1, -math.inf).amax(dim=-1)
        return (others_R - current_R).cpu()


def leave_one_out(log_probs_RV: "Tensor", tokens_R: "Tensor", alpha: float, temperature: float = 1.0) -> "Tensor":
    """Returns the log-probabilities of some positions given all the others, in nats, fp64 [R, V].

    Args:
        log_probs_RV: what the model says of them; it saw the tokens that they hold.
        tokens_R: these tokens.
        alpha: probability that a token of the canvas is clean, below 1.
        temperature: of the clean token; 0 takes the likeliest.
    """
    import torch

    from gesso.diffusion.likelihood import lower_own_token

    vocab = log_probs_RV.shape[1]
    unseen_RV = lower_own_token(log_probs_RV, tokens_R, alpha)
    if temperature != 1:
        # What is likeliest stands at 0, which no division moves.
        unseen_RV = unseen_RV - unseen_RV.amax(dim=-1, keepdim=True)
        unseen_RV = unseen_RV / max(temperature, torch.finfo(torch.float32).tiny)
    noise = math.log1p(-alpha) - math.log(vocab)
    weight = math.log(alpha) if alpha > 0 else -math.inf
    return torch.logaddexp(unseen_RV.log_softmax(dim=-1) + weight, torch.full_like(unseen_RV, noise))
