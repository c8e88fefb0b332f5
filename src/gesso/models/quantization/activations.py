"""Observes what the norms of a model put out while it answers prompts: what activation-aware scales are found from.

Prompts are encoded, and a canvas behind each is denoised a few times: from noise alone, then conditioned on what the
pass before found, with ever less noise in it. So encoder and denoiser are seen as they run.

    N rows of a pass   R rows that are kept   D hidden   C canvas length   k experts of a token
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.nn.experts import Router

KEPT = (0.5, 0.9)
"""Share of a canvas that the last pass has put in place, in the second denoising pass and in the third."""
ROWS = 128
"""Rows that are kept of a pass over a batch of prompts."""
LONGEST = 512
"""Tokens of a prompt that are read; more say no more of a layer."""
BATCH = 4096
"""Canvas tokens of the prompts that go through a model together."""
OBSERVED = ("input_norm", "pre_mlp_norm", "pre_experts_norm", "self_conditioning.pre_norm")


@torch.no_grad()
def observe(model: DiffusionGemma, prompts: Sequence[Sequence[int]]) -> dict[str, Tensor]:
    """Answers prompts in part, and returns what was seen, on the CPU.

    Args:
        prompts: token ids, at least one of each.

    Returns:
        By the name of a norm, `NAME.rows` [R, D], which are spread evenly over all, and `NAME.magnitude` [D], the mean
        magnitude of all rows; and `layers.I.router.experts` [R, k] of the same rows.
    """
    width = model.config.canvas_length
    generator = torch.Generator().manual_seed(0)
    each = max(1, BATCH // width)
    with _recorded(model) as (rows, sums):
        for begin in range(0, len(prompts), each):
            batch = [torch.tensor(prompt[:LONGEST]) for prompt in prompts[begin : begin + each]]
            _answer(model, batch, generator)
    found = {f"{name}.rows": torch.cat(parts) for name, parts in rows.items() if not name.endswith("router")}
    found |= {f"{name}.experts": torch.cat(parts) for name, parts in rows.items() if name.endswith("router")}
    return found | {f"{name}.magnitude": total / count for name, (total, count) in sums.items()}


def _answer(model: DiffusionGemma, batch: Sequence[Tensor], generator: torch.Generator) -> None:
    """Encodes prompts, and denoises a canvas behind each."""
    width, counts = model.config.canvas_length, [len(prompt) for prompt in batch]
    widths, count = [width] * len(batch), width * len(batch)
    cache = model.new_cache(len(batch), max(counts) + width, max(*counts, width))
    model.encode_flat(torch.cat(list(batch)), counts, cache)

    def noise() -> Tensor:
        return torch.randint(model.config.vocab_size, (count,), generator=generator)

    canvas, conditioning = noise(), None
    for kept in (*KEPT, None):
        hidden = model.denoise_flat(canvas, widths, cache, conditioning)
        if kept is None:
            break
        ones = torch.ones(count, device=hidden.device)
        found = model.vocabulary.predict(hidden, ones, ones / 2)
        conditioning = found.embedding_ND
        canvas = torch.where(torch.rand(count, generator=generator) < kept, found.argmax_N.cpu(), noise())


@contextmanager
def _recorded(
    model: DiffusionGemma,
) -> Iterator[tuple[dict[str, list[Tensor]], dict[str, tuple[Tensor, int]]]]:
    """Notes rows and sums of magnitudes of every norm that is observed, while it lasts, and what routers chose."""
    rows: dict[str, list[Tensor]] = defaultdict(list)
    sums: dict[str, tuple[Tensor, int]] = {}

    def kept(x: Tensor) -> Tensor:
        chosen = torch.linspace(0, len(x) - 1, min(ROWS, len(x))).long()
        return x[chosen.to(x.device)].cpu()

    def of_norm(name: str) -> Callable[..., None]:
        def note(_module: nn.Module, _given: Any, x_ND: Tensor) -> None:
            rows[name].append(kept(x_ND))
            total, count = sums.get(name, (torch.zeros(x_ND.shape[-1]), 0))
            sums[name] = total + x_ND.abs().sum(dim=0, dtype=torch.float32).cpu(), count + len(x_ND)

        return note

    def of_router(name: str) -> Callable[..., None]:
        def note(_module: nn.Module, _given: Any, chosen: tuple[Tensor, Tensor]) -> None:
            rows[name].append(kept(chosen[1]))

        return note

    handles = [
        module.register_forward_hook(of_router(name) if isinstance(module, Router) else of_norm(name))
        for name, module in model.named_modules()
        if isinstance(module, Router) or name.endswith(OBSERVED)
    ]
    try:
        yield rows, sums
    finally:
        for handle in handles:
            handle.remove()
