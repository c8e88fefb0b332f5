"""Computes the log-probabilities of recorded draws once more, with gradients.

The canvases of a step are what was recorded. The self-conditioning is not: it is what the weights make of the steps
before, so every canvas is replayed from its first step on. By default a step takes its self-conditioning as given, as
the released training does; with `backprop_steps` the gradient goes on through it into the steps before, and with as
many as there are steps it is the exact gradient of the walk's log-probability, but for what moves the set of accepted
positions (where two entropies change places, which happens nowhere but at single points).

Memory: the gradient of a stretch of `backprop_steps` is taken as soon as the stretch is replayed. Keys and values of
the prompt collect theirs, and take them through the encoder at the end.

    B canvases   b those that take the step   C canvas length   N = b C   D hidden
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.train.encoder_rows import TokenRows
from gesso.train.forward import Encoded, denoise, encode
from gesso.train.reinforce.rollout import CanvasRollout
from gesso.train.two_pass import logit_rows

Visit = Callable[[int, Sequence[int], Tensor], Tensor | None]
"""Takes a step's number (from 0), the canvases that take it, and their log-probabilities [b, C]; returns a loss."""


def replay(
    model: DiffusionGemma,
    canvases: Sequence[CanvasRollout],
    visit: Visit,
    *,
    backprop_steps: int = 1,
    checkpointing: bool = False,
) -> None:
    """Replays canvases of one width side by side and adds the gradients of the losses that `visit` returns.

    Args:
        visit: is called for every step; what it returns is summed. Without gradients (`torch.no_grad`) it only reads.
        backprop_steps: steps of a stretch, through all of which a gradient goes.
        checkpointing: compute each layer once more in the backward pass instead of keeping its activations.
    """
    contexts = sorted({canvas.context for canvas in canvases}, key=len)
    place = {context: i for i, context in enumerate(contexts)}
    order = sorted(range(len(canvases)), key=lambda i: place[canvases[i].context])
    flat = torch.tensor([token for context in contexts for token in context], device=model.device)
    whole = encode(model, TokenRows(flat, tuple(map(len, contexts))), checkpointing=checkpointing)
    encoded, leaves = _cut(whole)
    steps = max(len(canvas.transitions) for canvas in canvases)
    embedding_BCD: Tensor | None = None
    pending: list[Tensor] = []
    before: list[int] = []
    for step in range(steps):
        going = [i for i in order if step < len(canvases[i].transitions)]
        moves = [canvases[i].transitions[step] for i in going]
        if embedding_BCD is not None and len(going) < len(before):
            still = torch.tensor([before.index(i) for i in going], device=model.device)
            embedding_BCD = embedding_BCD.index_select(0, still)
        hidden_ND = denoise(
            model,
            torch.stack([move.canvas_C for move in moves]).to(model.device),
            torch.tensor([len(canvases[i].context) for i in going], device=model.device),
            encoded.select([place[canvases[i].context] for i in going]),
            None if embedding_BCD is None else embedding_BCD.flatten(0, 1),
            checkpointing=checkpointing,
        )
        tokens_bC = torch.stack([move.tokens_C for move in moves]).to(model.device)
        temperature_b = torch.tensor([move.temperature for move in moves], device=model.device)
        temperature_N = temperature_b.repeat_interleave(tokens_bC.shape[1])
        inside = (step + 1) % backprop_steps != 0
        log_probs_N, embedding_ND = _read(model, hidden_ND, tokens_bC.flatten(), temperature_N, through=inside)
        embedding_BCD, before = embedding_ND.view(*tokens_bC.shape, -1), going
        loss = visit(step, going, log_probs_N.view(tokens_bC.shape))
        if loss is not None and loss.requires_grad:
            pending.append(loss)
        if not inside or step + 1 == steps:
            _backward(pending)
            embedding_BCD = embedding_BCD.detach()
    reached = [(tensor, leaf.grad) for tensor, leaf in leaves if leaf.grad is not None]
    if reached:
        tensors, grads = zip(*reached, strict=True)
        torch.autograd.backward(tensors, grads)
    torch.clear_autocast_cache()


def _backward(pending: list[Tensor]) -> None:
    if pending:
        torch.stack(pending).sum().backward()
        pending.clear()
    # Copies of weights that autocast made belong to the graph that is gone.
    torch.clear_autocast_cache()


def _cut(encoded: Encoded) -> tuple[Encoded, list[tuple[Tensor, Tensor]]]:
    """Cuts keys and values from their graph; returns them, and pairs of each with its leaf, which collects its
    gradient."""
    pairs: list[tuple[Tensor, Tensor]] = []

    def leaf(tensor: Tensor) -> Tensor:
        if not tensor.requires_grad:
            return tensor
        pairs.append((tensor, tensor.detach().requires_grad_()))
        return pairs[-1][1]

    keys, values = ([[leaf(rows) for rows in layer] for layer in side] for side in (encoded.keys, encoded.values))
    return Encoded(encoded.hidden_ND.detach(), encoded.groups, keys, values, encoded.lengths), pairs


def _read(
    model: DiffusionGemma, hidden_ND: Tensor, tokens_N: Tensor, temperature_N: Tensor, *, through: bool
) -> tuple[Tensor, Tensor]:
    """Returns the log-probabilities [N] of tokens, and the embeddings [N, D] that the next step is conditioned on.

    Args:
        through: keep the embeddings attached to the graph.
    """
    rows = logit_rows(model.config)

    def part(hidden_nD: Tensor, tokens_n: Tensor, temperature_n: Tensor) -> tuple[Tensor, Tensor]:
        logits_nV = model.vocabulary.logits(hidden_nD) / temperature_n[:, None]
        log_probs_n = logits_nV.log_softmax(dim=-1).gather(1, tokens_n[:, None])[:, 0]
        return log_probs_n, model.vocabulary.mix(logits_nV if through else logits_nV.detach()).to(hidden_nD.dtype)

    inputs = (hidden_ND, tokens_N, temperature_N)
    if len(hidden_ND) <= rows or not torch.is_grad_enabled():
        parts = [part(*piece) for piece in zip(*(x.split(rows) for x in inputs), strict=True)]
    else:
        pieces = zip(*(x.split(rows) for x in inputs), strict=True)
        parts = [checkpoint(part, *piece, use_reentrant=False) for piece in pieces]
    log_probs, embeddings = zip(*parts, strict=True)
    return torch.cat(log_probs), torch.cat(embeddings)
