"""The measuring processes of `train.py`: one engine each, so that neither sees the other's memory.

    python _training.py '{"job": "gesso", "shape": "small", "folder": ..., "steps": 5, ...}'     -> one JSON line

Both train all weights in fp32 with the same AdamW on the same batches, made by gesso: the released two-pass loss plus
the encoder's next-token loss. The plain loop pads the encoder's rows to the longest and masks what a canvas may not
see; its losses must equal ours, and are printed beside them.
Memory over the weights: the highest resident size of the steps, less the resident size after loading.
"""

import json
import random
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from inspect import signature
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from _engines import _peak, _reset_peak, _resident
from _shapes import CANVAS, SHAPES, write_checkpoint

LENGTHS = (32, 448)
"""Shortest and longest prompt, tokens; drawn evenly."""
VOCABULARY_LIMIT = 30_000
"""Tokens are drawn below this, clear of the image tokens."""


def batch(step: int, examples: int, vocab: int) -> Any:
    """The same batch for both engines: prompts of very different lengths, answers of one canvas."""
    from gesso.train.batch import Conversation, make_batch
    from gesso.train.config import TrainConfig

    draw = random.Random(step)

    def some(length: int) -> list[int]:
        return [draw.randrange(2, VOCABULARY_LIMIT) for _ in range(length)]

    conversations = [
        Conversation(some(draw.randint(*LENGTHS)), some(draw.randint(CANVAS // 4, CANVAS))) for _ in range(examples)
    ]
    return make_batch(
        conversations,
        TrainConfig(steps=1, self_conditioning_probability=0.5),
        canvas_length=CANVAS,
        vocab_size=vocab,
        eos_token_id=1,
        generator=torch.Generator().manual_seed(step),
    )


def gesso_step(folder: Path, checkpointing: bool) -> tuple[torch.nn.Module, Callable[[Any], tuple[Tensor, Tensor]]]:
    from gesso.models.loading import load_folder
    from gesso.train.two_pass import losses

    model = load_folder(folder, "cpu", "float32").train().requires_grad_(True)

    def loss(data: Any) -> tuple[Tensor, Tensor]:
        found = losses(model, data, checkpointing=checkpointing)
        return found.denoiser, found.encoder

    return model, loss


def transformers_step(folder: Path, experts: str) -> tuple[torch.nn.Module, Callable[[Any], tuple[Tensor, Tensor]]]:
    """A plain loop's loss around the reference model."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from transformers import DiffusionGemmaForBlockDiffusion, DynamicCache
        from transformers.utils import logging

        logging.set_verbosity_error()
        model = DiffusionGemmaForBlockDiffusion.from_pretrained(
            folder, dtype=torch.float32, attn_implementation="sdpa", experts_implementation=experts
        ).train()
    text = model.config.get_text_config(decoder=True)
    cap = text.final_logit_softcapping
    # transformers 5.24 renamed it.
    cache_name = "cache" if "cache" in signature(model.model.encoder.forward).parameters else "past_key_values"

    def loss(data: Any) -> tuple[Tensor, Tensor]:
        rows, width = len(data.lengths), data.canvas_BC.shape[1]
        ids = torch.nn.utils.rnn.pad_sequence(list(data.tokens_N.split(data.lengths)), batch_first=True)
        targets = torch.nn.utils.rnn.pad_sequence(
            list(data.targets_N.split(data.lengths)), batch_first=True, padding_value=-100
        )
        cached = {cache_name: DynamicCache(config=text)}
        encoded = model.model.encoder(input_ids=ids, **cached).last_hidden_state
        key = torch.arange(ids.shape[1] + width)
        seen = (key < data.starts_B[:, None]) | (key >= ids.shape[1])
        mask = torch.where(seen, 0.0, torch.finfo(torch.float32).min)[:, None, None].expand(rows, 1, width, -1)
        canvas = {
            **cached,
            "decoder_input_ids": data.noisy_BC,
            "decoder_attention_mask": {"full_attention": mask, "sliding_attention": mask},
            "decoder_position_ids": data.starts_B[:, None] + torch.arange(width),
        }
        with torch.no_grad():
            first = model(**canvas).logits
        logits = model(**canvas, self_conditioning_logits=first, self_conditioning_mask=data.self_conditioned_B).logits
        denoiser = F.cross_entropy(logits.flatten(0, 1), data.canvas_BC.flatten())
        inside = targets != -100
        scores = torch.tanh(model.lm_head(encoded[inside]) / cap) * cap
        return denoiser, F.cross_entropy(scores, targets[inside])

    return model, loss


def measure(spec: dict[str, Any]) -> dict[str, Any]:
    """Seconds a step, examples a second, memory over the weights, and the losses."""
    folder, vocab = Path(spec["folder"]), SHAPES[spec["shape"]].vocab
    if spec["job"] == "gesso":
        model, loss = gesso_step(folder, spec["checkpointing"])
    else:
        model, loss = transformers_step(folder, spec["experts"])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    batches = [batch(step, spec["examples"], vocab) for step in range(spec["steps"] + 1)]
    for parameter in model.parameters():
        parameter.data.add_(0.0)  # every weight resident before the count begins
    before = _resident()
    _reset_peak()
    seconds, told = [], []
    for data in batches:
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        denoiser, encoder = loss(data)
        (denoiser + encoder).backward()
        optimizer.step()
        seconds.append(time.perf_counter() - begin)
        told.append([round(denoiser.item(), 5), round(encoder.item(), 5)])
    step = statistics.median(seconds[1:])
    return {
        "step_s": step,
        "step_s_all": [round(s, 3) for s in seconds],
        "examples_per_s": spec["examples"] / step,
        "over_weights_mb": (_peak() - before) / 2**20,
        "losses": told,
    }


def checkpoint(spec: dict[str, Any]) -> dict[str, Any]:
    write_checkpoint(SHAPES[spec["shape"]], Path(spec["folder"]))
    return {}


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    torch.set_num_threads(asked["threads"])
    print(json.dumps({"checkpoint": checkpoint}.get(asked["job"], measure)(asked)))
