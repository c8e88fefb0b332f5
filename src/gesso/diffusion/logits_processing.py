"""Processes logits as requests ask: temperature, top_p, top_k, min_p, logit_bias, penalties and constraints.

`Vocabulary.predict` never holds the logits of a whole canvas; ranking tokens needs them, so here they are made for
`ROWS` positions at a time. Biases are added to the logits, `NEVER` is minus infinity; what else changes them by place
(`LogitsChange`) comes next. At the schedule's temperature the
distribution is cut to its `top_k` likeliest tokens, then to the nucleus `top_p` (arXiv 1904.09751) of those, and to
tokens that are `min_p` as likely as the likeliest (arXiv 2407.01082); what is left is the canvas's prediction (argmax,
entropy, mixed embedding). The sample comes from the same tokens, `temperature` times as hot.

    N positions   V vocabulary   K tokens in order of rank   G blocks of B tokens   D hidden
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from gesso.diffusion.guidance import Scores
from gesso.diffusion.logits_changes import LogitsChange
from gesso.diffusion.penalties import Penalties
from gesso.diffusion.prediction import LogProbs
from gesso.kernels import BLOCK
from gesso.nn.vocabulary import Vocabulary, VocabularyPass, pick_block

ROWS = 64
"""Positions whose logits are held at a time: 64 MiB of fp32 for 262,144 tokens."""
NUCLEUS = 1024
"""Tokens that are ranked before all are."""
NEVER = -100.0
"""A bias that keeps a token out altogether, as every smaller one does."""


@dataclass(frozen=True, slots=True)
class LogitsProcessing:
    """Holds how a request processes its logits. The options (`gesso.generation`) declare and check the ranges."""

    temperature: float = 1.0
    """Temperature of the samples, times that of the schedule; 0 takes the likeliest token."""
    top_p: float = 1.0
    """Mass of the nucleus; 1 keeps all."""
    top_k: int = 0
    """How many tokens are kept; 0 keeps all."""
    min_p: float = 0.0
    """Share of the likeliest token's probability that a token needs to be kept; 0 keeps all."""
    bias: tuple[tuple[int, float], ...] = ()
    """Token ids, and what is added to their logits."""
    penalties: Penalties = field(default_factory=Penalties)
    """Penalties of what stands before a position, which reach `processed_pass` as a `LogitsChange`."""

    @property
    def never(self) -> tuple[int, ...]:
        """Returns the token ids that a bias keeps out."""
        return tuple(token for token, bias in self.bias if bias <= NEVER)

    @property
    def neutral(self) -> bool:
        """Says whether it changes nothing, so that `Vocabulary.predict` serves."""
        return self.temperature == 1 and not self.needs_logits

    @property
    def needs_logits(self) -> bool:
        """Says whether it takes `processed_pass`; temperature 0 alone is the argmax of `Vocabulary.predict`."""
        cuts = self.top_p < 1 or self.top_k > 0 or self.min_p > 0
        return self.temperature not in (0, 1) or cuts or bool(self.bias) or not self.penalties.neutral


@dataclass(frozen=True, slots=True)
class ConstraintPosterior:
    """Holds the distribution of a whole canvas given a constraint."""

    canvas_C: Tensor
    """The most probable canvas that satisfies it, int64; it and the entropy may lie on the CPU."""
    entropy_C: Tensor
    """Entropy of each position given the constraint, nats."""
    apply: Callable[[Tensor, slice], Tensor]
    """Log-probabilities of some rows given the constraint, from the scores of the same rows [R, V]."""


class CanvasConstraint(Protocol):
    """Constrains one canvas: it takes scores of each position by itself to the joint distribution of all."""

    def forced(self, piece: Callable[[int], str]) -> Tensor:
        """Finds the free positions to which the last pass left one text, bool [C]; none is before the first.

        Args:
            piece: the text of a token.
        """

    def reads_hidden(self, device: torch.device) -> bool:
        """Says whether `predict` works on a device; scores are held for it elsewhere."""

    def predict(
        self, vocabulary: Vocabulary, hidden_ND: Tensor, temperature_N: Tensor, uniform_N: Tensor
    ) -> VocabularyPass:
        """Computes `processed_pass` of neutral processing without changes, without holding the logits."""

    def summarise(self, scores_RV: Tensor, rows: slice) -> Any:
        """Returns what it needs of some rows' scores; -inf is impossible. It may change the scores in place."""

    def infer(self, parts: Sequence[Any]) -> ConstraintPosterior:
        """Infers the posterior from the summaries of all rows, in order."""


@torch.no_grad()
def processed_pass(
    vocabulary: Scores,
    hidden_ND: Tensor,
    temperature_N: Tensor,
    uniform_N: Tensor,
    processing: LogitsProcessing,
    changes: Sequence[LogitsChange] = (),
    constraint: CanvasConstraint | None = None,
    *,
    mix: bool = True,
) -> VocabularyPass:
    """Computes `Vocabulary.predict` of the processed distributions; equal to it, up to rounding, where `processing` is
    neutral.

    Args:
        vocabulary: the table, or what guides by it; every biased token is in it.
        hidden_ND: normed hidden states.
        temperature_N: the schedule's, above zero, one per position, fp32.
        uniform_N: numbers in [0, 1) that decide the samples by inverse distribution function.
        processing: of all positions.
        changes: what bans and penalises, in order.
        constraint: the N positions are one canvas and have to satisfy it. Its most probable canvas is the argmax; the
            logits of all of them are held for it.
        mix: False leaves the embedding out, where no step follows; see `Vocabulary.predict`.
    """
    unprocessed = not changes and not processing.needs_logits
    reads = constraint is not None and constraint.reads_hidden(hidden_ND.device)
    if constraint is not None and reads and unprocessed and isinstance(vocabulary, Vocabulary):
        found = constraint.predict(vocabulary, hidden_ND, temperature_N, uniform_N)
        return found if processing.temperature else dataclasses.replace(found, sample_N=found.argmax_N)
    scores, rows = _scores_of_rows(vocabulary, hidden_ND, temperature_N, processing, changes), _parts(hidden_ND)
    if constraint is None:
        passes = [_outcome(vocabulary, scores(part), uniform_N[part], processing, mix=mix) for part in rows]
    else:
        held = [(scores(part), part) for part in rows]
        posterior = constraint.infer([constraint.summarise(z_NV, part) for z_NV, part in held])
        passes = [
            _outcome(
                vocabulary,
                posterior.apply(z_NV, part),
                uniform_N[part],
                processing,
                posterior.canvas_C[part].to(z_NV.device),
                posterior.entropy_C[part].to(z_NV.device),
                mix=mix,
            )
            for z_NV, part in held
        ]
    return VocabularyPass.cat(passes)


@torch.no_grad()
def processed_log_probs(
    vocabulary: Scores,
    hidden_ND: Tensor,
    temperature_N: Tensor,
    processing: LogitsProcessing,
    changes: Sequence[LogitsChange] = (),
    constraint: CanvasConstraint | None = None,
) -> LogProbs:
    """Returns the distributions that `processed_pass` samples from at temperature 1 of `processing`, on demand. A
    constraint is inferred here once."""
    scores, posterior = _scores_of_rows(vocabulary, hidden_ND, temperature_N, processing, changes), None
    if constraint is not None:
        posterior = constraint.infer([constraint.summarise(scores(part), part) for part in _parts(hidden_ND)])

    @torch.no_grad()
    def log_probs(rows: slice, cut: bool = True) -> Tensor:
        z_RV = scores(rows)
        if posterior is not None:
            z_RV = posterior.apply(z_RV, rows)
        if cut:
            _cut(z_RV, processing)
        return z_RV.log_softmax(dim=-1)

    return log_probs


def _parts(hidden_ND: Tensor) -> list[slice]:
    """Returns the positions whose logits are held at a time."""
    return [slice(start, start + ROWS) for start in range(0, len(hidden_ND), ROWS)]


def _scores_of_rows(
    vocabulary: Scores,
    hidden_ND: Tensor,
    temperature_N: Tensor,
    processing: LogitsProcessing,
    changes: Sequence[LogitsChange],
) -> Callable[[slice], Tensor]:
    """Returns what computes the biased and changed logits of some positions over the schedule's temperature, [R, V]
    fp32."""

    def scores(rows: slice) -> Tensor:
        z_RV = vocabulary.logits(hidden_ND[rows])
        if processing.bias:
            tokens, biases = (torch.tensor(part, device=z_RV.device) for part in zip(*processing.bias, strict=True))
            biases = biases.to(z_RV).masked_fill(biases <= NEVER, -math.inf)
            z_RV.index_add_(1, tokens, biases.expand(len(z_RV), -1))
        for change in changes:
            change.apply(z_RV, rows)
        z_RV *= (1.0 / temperature_N[rows].to(z_RV))[:, None]
        return z_RV

    return scores


def _outcome(
    vocabulary: Scores,
    z_NV: Tensor,
    uniform_N: Tensor,
    processing: LogitsProcessing,
    argmax_N: Tensor | None = None,
    entropy_N: Tensor | None = None,
    *,
    mix: bool,
) -> VocabularyPass:
    """Summarises scores as a vocabulary pass, and cuts them in place. `argmax_N` and `entropy_N` are given where more
    is known than the scores of each position by itself."""
    _cut(z_NV, processing)
    top_N1, likeliest_N1 = z_NV.max(dim=-1, keepdim=True)
    mass_NV = (z_NV - top_N1).exp_()
    total_N1 = mass_NV.sum(dim=-1, keepdim=True)
    if entropy_N is None:
        entropy_N = (total_N1.log() + torch.special.entr(mass_NV).sum(dim=-1, keepdim=True) / total_N1)[:, 0]
    best_N = likeliest_N1[:, 0] if argmax_N is None else argmax_N
    sample_N = best_N
    if processing.temperature > 0:
        if processing.temperature != 1:
            coldest = torch.finfo(torch.float32).tiny
            mass_NV = (z_NV - top_N1).div_(max(processing.temperature, coldest)).exp_()
        drawn_N1 = _draw(mass_NV, uniform_N.to(mass_NV))
        # Sums are rounded, so that a number between two tokens could fall on one that was cut.
        sample_N = torch.where(mass_NV.gather(1, drawn_N1) > 0, drawn_N1, likeliest_N1)[:, 0]
    return VocabularyPass(
        sample_N=sample_N,
        argmax_N=best_N,
        entropy_N=entropy_N,
        normaliser_N=(top_N1 + total_N1.log())[:, 0],
        embedding_ND=vocabulary.mix(z_NV) if mix else z_NV.new_zeros(len(z_NV), 0),
    )


def _cut(z_NV: Tensor, processing: LogitsProcessing) -> None:
    """Makes all tokens impossible, in place, but the `top_k` likeliest, of these the nucleus, and of the nucleus those
    that `min_p` keeps; of equals the lower ids are kept, by `min_p` all or none."""
    _cut_ranks(z_NV, processing)
    if processing.min_p > 0:
        z_NV.masked_fill_(z_NV < z_NV.amax(dim=-1, keepdim=True) + math.log(processing.min_p), -math.inf)


def _cut_ranks(z_NV: Tensor, processing: LogitsProcessing) -> None:
    vocab = z_NV.shape[1]
    kept = min(processing.top_k or vocab, vocab)
    if kept == vocab and processing.top_p == 1:
        return
    ranked_NK = _ranked(z_NV, kept, processing.top_p)
    count_N1 = torch.full_like(z_NV[:, :1], kept, dtype=torch.int64)
    if processing.top_p < 1:
        whole_N1 = (z_NV if kept == vocab else ranked_NK).logsumexp(dim=-1, keepdim=True)
        share_NK = (ranked_NK - whole_N1).exp_()
        # A top_p that is zero in fp32 keeps the likeliest token all the same.
        count_N1 = (share_NK.cumsum(dim=-1) - share_NK < processing.top_p).sum(dim=-1, keepdim=True).clamp_(min=1)
    border_N1 = ranked_NK.gather(1, count_N1 - 1)
    tied_NV = z_NV == border_N1
    room_N1 = count_N1 - (z_NV > border_N1).sum(dim=-1, keepdim=True)
    z_NV.masked_fill_((z_NV < border_N1) | (tied_NV & (tied_NV.cumsum(dim=-1, dtype=torch.int32) > room_N1)), -math.inf)


def _ranked(z_NV: Tensor, kept: int, top_p: float) -> Tensor:
    """Returns the `kept` highest scores in order, or fewer of them that are sure to reach `top_p`: a nucleus is nearly
    always small, and ranking a whole vocabulary is slow."""
    vocab = z_NV.shape[1]
    if kept == vocab > NUCLEUS:
        few_NK = z_NV.topk(NUCLEUS).values
        if (few_NK.logsumexp(dim=-1) - z_NV.logsumexp(dim=-1)).exp().min() > top_p + 1e-5:
            return few_NK
    return (z_NV.topk(kept) if kept < vocab else z_NV.sort(dim=-1, descending=True)).values


def _draw(mass_NV: Tensor, uniform_N: Tensor) -> Tensor:
    """Samples by inverse distribution function, [N, 1], in the two strides of `Vocabulary.predict`: the block, the
    token in it."""
    vocab = mass_NV.shape[1]
    blocks_NGB = F.pad(mass_NV, (0, -vocab % BLOCK)).unflatten(1, (-1, BLOCK))
    block_N1, share_N1 = pick_block(blocks_NGB.sum(dim=-1), uniform_N)
    inner_NB = blocks_NGB[torch.arange(len(block_N1), device=block_N1.device), block_N1[:, 0]].cumsum(dim=-1)
    place_N1 = (inner_NB <= share_N1 * inner_NB[:, -1:]).sum(dim=-1, keepdim=True)
    token_N1: Tensor = (block_N1 * BLOCK + place_N1).clamp_(max=vocab - 1)
    return token_N1
