"""Computes the held-out losses of a run."""

import dataclasses

import torch

from gesso.errors import OptionError
from gesso.train.batch import make_batch
from gesso.train.distributed import ProcessGroup, reshard
from gesso.train.recipe import Recipe
from gesso.train.step import LossModule, micro_batches


@torch.no_grad()
def held_out_losses(recipe: Recipe, losses: LossModule, group: ProcessGroup) -> tuple[float, float]:
    """Returns the mean denoiser and encoder loss of the held-out examples, in nats a token; all processes call this.

    Raises:
        OptionError: the data holds no examples out.
    """
    config = recipe.train
    conversations = recipe.examples.evaluation(config.evaluation_examples)
    if not conversations:
        raise OptionError(
            "evaluate_every looks at held-out examples, and the data holds none out", option="evaluate_every"
        )
    # Corrupted as the released loss is, so that the losses of runs that corrupt otherwise compare.
    released = dataclasses.replace(
        config, time_exponent=1.0, source_probability=0.0, prefix_probability=0.0, own_draft_probability=0.0
    )
    generator = torch.Generator().manual_seed(config.seed)
    totals = torch.zeros(2)
    canvas_tokens = target_tokens = 0
    losses.eval()
    for begin in range(0, len(conversations), config.batch_size):
        rows = conversations[begin : begin + config.batch_size]
        batch = make_batch(
            rows,
            released,
            canvas_length=recipe.model.canvas_length,
            vocab_size=recipe.model.vocab_size,
            eos_token_id=recipe.model.eos_token_id,
            generator=generator,
            jump=recipe.distill,
        )
        for part, canvas_share, target_share in micro_batches(batch, group, config.micro_batch_size):
            denoiser, encoder = losses(part.to(group.device))
            sums = denoiser * canvas_share * batch.canvas_tokens, encoder * target_share * batch.target_tokens
            totals += torch.stack(sums).float().cpu()
        canvas_tokens += batch.canvas_tokens
        target_tokens += batch.target_tokens
    losses.train()
    reshard(losses)
    denoiser_sum, encoder_sum = group.all_reduce_sum(totals).tolist()
    return denoiser_sum / canvas_tokens, encoder_sum / max(1, target_tokens)
