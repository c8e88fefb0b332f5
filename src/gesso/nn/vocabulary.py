"""Embeds tokens and scores hidden states by one tied table.

The table is tied three ways: it embeds tokens (times sqrt(D)), scores hidden states (soft-capped, fp32)
and turns a distribution over tokens back into a hidden state. Scoring and mixing together are attention
with K = V = the table, so one pass over chunks of the vocabulary with a running maximum gives the sample,
the argmax, the entropy and the mixed embedding without ever holding the logits of a whole canvas.

`gesso.nn.quant.vocabulary` has the same over a table in few bits, so whoever reads the table asks for the `rows` of
tokens or for the `rows_between` two.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gesso.kernels import BLOCK, SoftmaxPass, usable
from gesso.nn.cross_entropy import SoftcappedCrossEntropy
from gesso.nn.elementwise import softmax
from gesso.nn.linear import linear
from gesso.nn.online_softmax import cap_, online_softmax
from gesso.nn.row_alignment import align_rows

CPU_CHUNK = 2048
"""Tokens of a chunk on a CPU: with `ROWS` positions 2 MiB of fp32, which stays in a core's cache."""
GPU_CHUNK = 1 << 16
"""The same on an accelerator, where few large kernels win: 64 MiB."""
ROWS = 256
"""Positions of one pass. Chunks do not depend on how many positions there are, so that a position's numbers do
not depend on its neighbours."""


@dataclass(frozen=True, slots=True)
class VocabularyPass:
    """Holds what one pass over the tempered logits of N positions yields."""

    sample_N: Tensor
    """One token drawn from each distribution, int64."""
    argmax_N: Tensor
    """The likeliest token of each position, int64."""
    entropy_N: Tensor
    """Nats, fp32."""
    normaliser_N: Tensor
    """log-sum-exp of the tempered logits, fp32."""
    embedding_ND: Tensor
    """sqrt(D) * probabilities @ table, in the vocabulary's dtype: the next step's self-conditioning.
    No columns where it was left out."""

    @staticmethod
    def cat(parts: "Sequence[VocabularyPass]") -> "VocabularyPass":
        """Concatenates the positions of several passes."""
        names = [field.name for field in fields(VocabularyPass)]
        return VocabularyPass(*(torch.cat([getattr(part, name) for part in parts]) for name in names))

    def first(self, count: int) -> "VocabularyPass":
        """Returns the first `count` positions."""
        return VocabularyPass(*(getattr(self, field.name)[:count] for field in fields(VocabularyPass)))


class TableSlice:
    """Holds neighbouring rows of the table, [n, D], to score and to mix by."""

    def __init__(self, rows_nD: Tensor) -> None:
        self._rows_nD = rows_nD

    def scores(self, hidden_ND: Tensor) -> Tensor:
        """Returns the scores of hidden states before the soft-cap, [N, n]."""
        return linear(hidden_ND, self._rows_nD)

    def mix(self, weights_Nn: Tensor) -> Tensor:
        """Returns the weighted sums of the rows, [N, D]."""
        return linear(weights_Nn.to(self._rows_nD.dtype), self._rows_nD.T)


class Mixture:
    """Adds up rows of the table, each times a weight, a part of the table after another."""

    def __init__(self, rows: int, width: int, device: torch.device) -> None:
        self._mixed_ND = torch.zeros(rows, width, dtype=torch.float32, device=device)

    def add(self, shrink_N1: Tensor, weights_Nn: Tensor, table: TableSlice) -> None:
        """Multiplies what there is by `shrink_N1`, and adds rows of the table times their weights."""
        self._mixed_ND.mul_(shrink_N1).add_(table.mix(weights_Nn))

    def take(self) -> Tensor:
        """Returns the mixtures, [N, D] in fp32."""
        return self._mixed_ND


class Vocabulary(nn.Module):
    """Holds the tied table [V, D] with the input scale sqrt(D) and the soft-cap of its logits."""

    def __init__(self, vocab_size: int, hidden_size: int, softcap: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocab_size, hidden_size))
        self.size, self.width = vocab_size, hidden_size
        self.softcap = softcap
        self.root = hidden_size**0.5

    @property
    def dtype(self) -> torch.dtype:
        """Returns the dtype of embeddings, and of the table's rows as they are read."""
        return self.weight.dtype

    @property
    def scale(self) -> float:
        """Returns sqrt(D), rounded to the table's dtype as the reference rounds it."""
        return float(torch.tensor(self.root, dtype=self.dtype))

    def rows(self, tokens: Tensor) -> Tensor:
        """Returns the table's rows of `tokens` [...], [..., D]."""
        return F.embedding(tokens, self.weight)

    def rows_between(self, begin: int, end: int) -> Tensor:
        """Returns the table's rows from `begin` to before `end`, or to its own end, [n, D]."""
        return self.weight[begin:end]

    def slice(self, begin: int, end: int) -> "TableSlice":
        """Returns the part of the table from `begin` to before `end`, or to its own end."""
        return TableSlice(self.rows_between(begin, end))

    def mixture(self, hidden_ND: Tensor) -> Mixture:
        """Begins to mix rows of the table, for the positions of these hidden states."""
        return Mixture(len(hidden_ND), self.width, hidden_ND.device)

    def chunk(self, device: torch.device) -> int:
        """Returns the number of tokens that are scored at a time, whole blocks."""
        return chunk_of(device)

    def embed(self, tokens: Tensor) -> Tensor:
        """Returns embeddings of `tokens` [...] times sqrt(D), [..., D]."""
        return self.rows(tokens) * self.scale

    def scores(self, hidden: Tensor) -> Tensor:
        """Returns `logits` before the soft-cap, in the dtype of `hidden`."""
        return linear(hidden, self.weight)

    def logits(self, hidden: Tensor) -> Tensor:
        """Returns soft-capped scores of hidden states [..., D], fp32 [..., V]."""
        scores = self.scores(hidden).float()
        if torch.is_grad_enabled():
            return (scores / self.softcap).tanh() * self.softcap
        return self.cap_(scores)

    def mix(self, logits: Tensor) -> Tensor:
        """Returns sqrt(D) * softmax(logits) @ table, [..., D]."""
        return (softmax(logits).to(self.weight.dtype) @ self.weight) * self.scale

    def cross_entropy(self, hidden_ND: Tensor, targets_N: Tensor) -> Tensor:
        """Returns the mean cross-entropy in nats of `logits(hidden)` against `targets`; a chunk of rows is scored at a
        time.

        Gradients are made in the same pass and kept in place of the logits, so that neither the logits of all rows
        nor a second scoring of them is needed (as in arXiv 2410.10989).
        """
        loss: Tensor = SoftcappedCrossEntropy.apply(hidden_ND, self.weight, targets_N, self.softcap)  # type: ignore[no-untyped-call]
        return loss

    def cap_(self, scores: Tensor) -> Tensor:
        """Applies the soft-cap in place."""
        return cap_(scores, self.softcap)

    @torch.no_grad()
    def predict(
        self, hidden_ND: Tensor, temperature_N: Tensor, uniform_N: Tensor, *, mix: bool = True
    ) -> VocabularyPass:
        """Computes sample, argmax, entropy, normaliser and mixed embedding of softmax(logits / temperature).

        Args:
            hidden_ND: normed hidden states.
            temperature_N: above zero, one per position, fp32.
            uniform_N: numbers in [0, 1) that decide the samples by inverse distribution function.
            mix: False leaves the embedding out, [N, 0], where no step follows: it takes half of the time.
        """
        # Random numbers come from the host, where rows are padded to another multiple.
        # Autocast may have left hidden states in another type than the table's.
        inputs = (hidden_ND.to(self.dtype), *(x.to(hidden_ND.device) for x in (temperature_N, uniform_N)))
        rows = (align_rows(x).split(ROWS) for x in inputs)
        passes = [self._predict_rows(*part, mix=mix) for part in zip(*rows, strict=True)]
        return VocabularyPass.cat(passes).first(len(hidden_ND))

    @torch.no_grad()
    def log_probs_of(self, tokens_N: Tensor, hidden_ND: Tensor, temperature_N: Tensor, normaliser_N: Tensor) -> Tensor:
        """Returns log softmax(logits / temperature) of one token of each position, in nats, fp32 [N].

        Args:
            normaliser_N: of the same positions, as `predict` found it.
        """
        scores_N = (self.rows(tokens_N).float() * hidden_ND.float()).sum(dim=-1)
        return (self.cap_(scores_N) / temperature_N.float() - normaliser_N).clamp_(max=0)

    def _predict_rows(
        self, hidden_ND: Tensor, temperature_N: Tensor, uniform_N: Tensor, *, mix: bool
    ) -> VocabularyPass:
        inverse_N1 = (1.0 / temperature_N.float())[:, None]
        mass_NB, maximum_N1, total_N1, weighted_N1, argmax_N1, mixed_ND = self._softmax_pass(
            hidden_ND, inverse_N1, mix=mix
        )
        return VocabularyPass(
            sample_N=self._draw(mass_NB, hidden_ND, inverse_N1, uniform_N),
            argmax_N=argmax_N1[:, 0],
            entropy_N=(total_N1.log() - weighted_N1 / total_N1)[:, 0],
            normaliser_N=(maximum_N1 + total_N1.log())[:, 0],
            embedding_ND=(mixed_ND / total_N1 * self.scale).to(self.dtype),
        )

    def _softmax_pass(self, hidden_ND: Tensor, inverse_N1: Tensor, *, mix: bool) -> SoftmaxPass:
        """Makes the fused online-softmax pass over the whole table; on CUDA a kernel does it."""
        if usable(hidden_ND.device):
            from gesso.kernels.vocabulary import softmax_pass

            return softmax_pass(hidden_ND, self.weight, inverse_N1, self.softcap, BLOCK, mix=mix)
        return self._softmax_pass_chunked(hidden_ND, inverse_N1, mix=mix)

    def _softmax_pass_chunked(self, hidden_ND: Tensor, inverse_N1: Tensor, *, mix: bool) -> SoftmaxPass:
        chunk = self.chunk(hidden_ND.device)
        softmax = online_softmax(self.size, chunk, self.softcap, inverse_N1)
        mixture = self.mixture(hidden_ND) if mix else Mixture(len(hidden_ND), 0, hidden_ND.device)
        for start in range(0, self.size, chunk):
            table = self.slice(start, start + chunk)
            shrink_N1, p_Nn = softmax.add(table.scores(hidden_ND).float())
            if mix:
                mixture.add(shrink_N1, p_Nn, table)
        return softmax.take(mixture.take())

    def _draw(self, mass_NG: Tensor, hidden_ND: Tensor, inverse_N1: Tensor, uniform_N: Tensor) -> Tensor:
        """Samples by inverse distribution function in two strides: first the block, then the token in it."""
        block_N1, share_N1 = pick_block(mass_NG, uniform_N)
        tokens_NB = block_N1 * BLOCK + torch.arange(BLOCK, device=mass_NG.device)
        inside_NB = tokens_NB < self.size
        return pick_token(self, tokens_NB, inside_NB, hidden_ND, inverse_N1, share_N1)


def chunk_of(device: torch.device) -> int:
    """Returns the number of tokens that are scored at a time."""
    return CPU_CHUNK if device.type == "cpu" else GPU_CHUNK


_FEW_ROWS = 16


def pick_block(mass_NG: Tensor, uniform_N: Tensor) -> tuple[Tensor, Tensor]:
    """Takes the first stride of the inverse distribution function: returns the block [N, 1], and the share of it that
    is left to go."""
    # Sums are rounded: a share of exactly 0, or of 1 and more, could fall on a token that is as good as impossible.
    low, high = 2.0**-25, 1 - 2.0**-24
    cumulative = mass_NG.cumsum(dim=-1)
    target = uniform_N.to(mass_NG.device, torch.float32).clamp(low, high)[:, None] * cumulative[:, -1:]
    block = torch.searchsorted(cumulative, target, right=True).clamp_(max=mass_NG.shape[1] - 1)
    before = F.pad(cumulative, (1, 0)).gather(1, block)
    return block, ((target - before) / mass_NG.gather(1, block)).clamp_(low, high)


def pick_token(
    vocabulary: Vocabulary,
    tokens_NB: Tensor,
    inside_NB: Tensor,
    hidden_ND: Tensor,
    inverse_N1: Tensor,
    share_N1: Tensor,
) -> Tensor:
    """Takes the second stride: returns the token [N] of a block, whose scores are computed once more.

    Args:
        tokens_NB: of each position's block; any that are not `inside_NB` are none.
        inverse_N1: of the temperature.
        share_N1: of the block's mass, from its begin on.
    """
    ids_NB = tokens_NB.clamp(0, vocabulary.size - 1)
    # On a CPU few rows at a time: their tables stay in its cache, and the memory is not asked for anew in every step.
    stride = _FEW_ROWS if ids_NB.device.type == "cpu" else len(ids_NB)
    scores = torch.cat(
        [
            torch.bmm(hidden[:, None], vocabulary.rows(ids).mT)[:, 0].float()  # on CPUs ten times as fast turned round
            for ids, hidden in zip(ids_NB.split(stride), hidden_ND.split(stride), strict=True)
        ]
    )
    # These scores are computed a second time, by another product, and a low temperature makes much of what they differ
    # by: they are taken relative to their own maximum, and the share is of their own sum.
    z = vocabulary.cap_(scores).mul_(inverse_N1).masked_fill_(~inside_NB, -torch.inf)
    p = z.sub_(z.amax(dim=-1, keepdim=True)).exp_()
    last = torch.where(p > 0, torch.arange(p.shape[1], device=p.device), 0).amax(dim=-1)
    inner = p.cumsum(dim=-1)
    place = torch.minimum((inner <= share_N1 * inner[:, -1:]).sum(dim=-1), last)
    return tokens_NB.gather(1, place[:, None])[:, 0]
