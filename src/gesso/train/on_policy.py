"""Trains along the steps of canvases that the model denoises itself, from noise, by its own sampler and stopping rule.

A corrupted canvas is clean but for its noise, and self-generated corruption (`gesso.train.self_generated`) goes on from
one for a few rounds: neither looks like a canvas on which the model is stuck. Here every canvas begins as noise and
goes on as at generation, one attempt of at most `restart_steps`, and each step's prediction is trained on the clean
canvas as it is made, so that no pass is there for another's sake. A canvas that settles leaves the batch: its further
steps are not taken, and count as nothing, so that most of the work goes to those that are hard. No gradient flows from
one step into the next (deep supervision; arXiv 2510.04871 trains a small recursive model on puzzles so).

    B canvases   C canvas length
"""

import torch
from torch import Tensor

from gesso.diffusion.canvas_state import CanvasState, DenoisingRules
from gesso.diffusion.denoise import finish_step, step_inputs
from gesso.diffusion.step import CanvasShape
from gesso.engine.canvases import denoising_rules
from gesso.errors import OptionError
from gesso.generation import GenerationConfig
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.nn.compiled_training import also_without_gradient
from gesso.train.batch import Batch
from gesso.train.distributed import ProcessGroup
from gesso.train.forward import Encoded, denoise
from gesso.train.recipe import Recipe
from gesso.train.step import LossModule
from gesso.train.vision import BatchImages


def attempt_rules(generation: GenerationConfig) -> DenoisingRules:
    """Returns the rules of a canvas that is trained along: one attempt by the checkpoint's own, whatever its mode."""
    return denoising_rules(generation.override(mode="canvas")).one_attempt()


class OnPolicyLoss(LossModule):
    """Computes the denoiser's cross-entropy over all steps of the model's own canvases."""

    def __init__(
        self, recipe: Recipe, model: DiffusionGemma, group: ProcessGroup, images: BatchImages | None = None
    ) -> None:
        """
        Raises:
            OptionError: processes that would have to take the same number of passes.
        """
        if group.size > 1 and recipe.train.optimizer != "muon":
            raise OptionError(
                "with on_policy each process takes as many passes as its canvases need, and processes that share "
                "weights must take the same: use muon, or one process",
                option="on_policy",
            )
        super().__init__(model, recipe.train, group, images)
        self.rules = attempt_rules(recipe.generation)

    def canvas_loss(self, batch: Batch, encoded: Encoded) -> Tensor:
        """Returns the mean loss over all steps of an attempt, those not taken being 0, nats a token."""
        assert batch.seeds_B is not None
        vocabulary, width = self.model.vocabulary, batch.canvas_BC.shape[1]
        states = [
            CanvasState(
                self.rules, CanvasShape(width, self.model.config.vocab_size), torch.Generator().manual_seed(seed)
            )
            for seed in batch.seeds_B.tolist()
        ]
        sums = []
        while running := [number for number, state in enumerate(states) if not state.finished]:
            going = [states[number] for number in running]
            given = step_inputs(going)
            hidden_ND = denoise(
                self.model,
                given.canvas_N.view(len(going), width).to(batch.canvas_BC.device),
                batch.starts_B[running],
                encoded.select(running),
                given.self_conditioning_ND,
                checkpointing=self.config.gradient_checkpointing,
            )
            loss = vocabulary.cross_entropy(hidden_ND, batch.canvas_BC[running].flatten())
            sums.append(loss * len(running))
            with torch.no_grad(), also_without_gradient():
                finish_step(vocabulary, going, hidden_ND.detach())
            # Copies of weights that autocast made without a gradient must not serve the next pass, which has one.
            torch.clear_autocast_cache()
        return torch.stack(sums).sum() / (len(states) * self.rules.attempt_steps)
