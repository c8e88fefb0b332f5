"""Implements the tied table in parts: every rank scores, mixes and draws among the tokens whose rows it holds.

N positions   V vocabulary   v tokens of this rank   D hidden   R ranks
"""

from itertools import count
from weakref import WeakKeyDictionary, finalize

import torch
from torch import Tensor
from torch.nn import functional as F

from gesso.constraints.class_pass import TokenClasses
from gesso.nn.linear import linear
from gesso.nn.vocabulary import Vocabulary, VocabularyPass, pick_block
from gesso.ranks.group import RankGroup
from gesso.tensor_parallel.classes import LeadingClassPass, ShardedClasses
from gesso.tensor_parallel.shards import tokens_of

HIDDEN, EMBEDDING = 0, 1
"""Places of `RankGroup.sent`."""


class ShardedVocabulary(Vocabulary):
    """Holds a rank's rows of the table, [v, D]. Sizes are those of the whole vocabulary."""

    def __init__(self, vocab_size: int, hidden_size: int, softcap: float, group: RankGroup) -> None:
        self.tokens = tokens_of(vocab_size, group.rank, group.size)
        super().__init__(len(self.tokens), hidden_size, softcap)
        self.size = vocab_size
        self.group = group
        self._made: tuple[Vocabulary, ...] = ()
        self._classes: WeakKeyDictionary[TokenClasses, tuple[int, ShardedClasses]] = WeakKeyDictionary()
        self._numbers = count()

    @property
    def part(self) -> Vocabulary:
        """Returns this rank's rows as a vocabulary of their own, whose first token is 0."""
        if not self._made or self._made[0].weight is not self.weight:
            with torch.device("meta"):
                part = Vocabulary(len(self.tokens), self.width, self.softcap)
            part.weight = self.weight
            self._made = (part,)  # in a tuple, so that it is no module of this one
        return self._made[0]

    def embed(self, tokens: Tensor) -> Tensor:
        if not self.group.in_pass:
            self.group.announce("table_rows", tokens)
        return self.rows_together(tokens) * self.scale

    def rows(self, tokens: Tensor) -> Tensor:
        self.group.announce("table_rows", tokens)
        return self.rows_together(tokens)

    def rows_together(self, tokens: Tensor) -> Tensor:
        """Returns `rows` where all ranks ask for them."""
        place = tokens.to(self.weight.device) - self.tokens.start
        inside = (place >= 0) & (place < len(self.tokens))
        own = F.embedding(place.clamp(0, len(self.tokens) - 1), self.weight)
        return self.group.sum_(own * inside[..., None])

    def rows_between(self, begin: int, end: int) -> Tensor:
        return self.rows(torch.arange(begin, min(end, self.size)))

    def scores(self, hidden: Tensor) -> Tensor:
        self.group.announce("scores", hidden)
        return self.scores_together(hidden)

    def scores_together(self, hidden: Tensor) -> Tensor:
        """Returns `scores` where all ranks ask for them."""
        own = linear(hidden, self.weight)
        sizes = [len(tokens_of(self.size, rank, self.group.size)) for rank in range(self.group.size)]
        parts = self.group.gather(F.pad(own, (0, max(sizes) - own.shape[-1])))
        return torch.cat([part[..., :size] for part, size in zip(parts, sizes, strict=True)], dim=-1)

    def mix(self, logits: Tensor) -> Tensor:
        shares = logits.softmax(dim=-1, dtype=torch.float32).to(self.weight.dtype)
        self.group.announce("weighted", shares)
        return self.weighted_together(shares) * self.scale

    def weighted_together(self, shares: Tensor) -> Tensor:
        """Returns the sums of all rows times `shares` [..., V], [..., D], where all ranks ask for them."""
        return self.group.sum_(shares[..., self.tokens.start : self.tokens.stop] @ self.weight)

    @torch.no_grad()
    def predict(
        self, hidden_ND: Tensor, temperature_N: Tensor, uniform_N: Tensor, *, mix: bool = True
    ) -> VocabularyPass:
        sent = self.group.reference(HIDDEN, hidden_ND) if self.group.followers else None
        self.group.announce("predict", sent, temperature_N, uniform_N, mix)
        found = super().predict(hidden_ND, temperature_N, uniform_N.to(hidden_ND.device), mix=mix)
        self.group.sent[EMBEDDING] = found.embedding_ND
        self.group.decide("the tokens drawn", found.sample_N)
        self.group.compare()
        return found

    def read_classes(self, classes: TokenClasses, hidden_RD: Tensor, temperature_R: Tensor) -> LeadingClassPass:
        """Begins a pass over classes of tokens on all ranks; see `gesso.constraints.class_pass.ClassPass`."""
        if (known := self._classes.get(classes)) is None:
            known = next(self._numbers), ShardedClasses(classes.class_V, self.tokens, self.group.device)
            self._classes[classes] = known
            self.group.announce("classes", known[0], classes.class_V)
            finalize(classes, self.group.dropped.append, ("classes", known[0])).atexit = False
        number = next(self._numbers)
        sent = self.group.reference(HIDDEN, hidden_RD) if self.group.followers else None
        self.group.announce("read_classes", number, known[0], sent, temperature_R)
        made = LeadingClassPass(self.part, known[1], self.group, hidden_RD, temperature_R)
        made.number = number
        finalize(made, self.group.dropped.append, ("class pass", number)).atexit = False
        return made

    def _predict_rows(
        self, hidden_ND: Tensor, temperature_N: Tensor, uniform_N: Tensor, *, mix: bool
    ) -> VocabularyPass:
        inverse_N1 = (1.0 / temperature_N.float())[:, None]
        part = self.part
        found = part._softmax_pass(hidden_ND, inverse_N1, mix=mix)
        argmax_N1 = found.argmax_N1 + self.tokens.start
        own = torch.stack([x[:, 0].double() for x in (found.maximum_N1, found.total_N1, found.weighted_N1, argmax_N1)])
        maximum_RN, total_RN, weighted_RN, argmax_RN = self.group.gather(own).unbind(dim=1)
        # The first of the ranks that have the largest: the lowest token, as within a rank.
        maximum_N, best_N = maximum_RN.max(dim=0)
        shift_RN = maximum_RN - maximum_N
        scale_RN = shift_RN.exp()
        total_N = (total_RN * scale_RN).sum(dim=0)
        weighted_N = ((weighted_RN + shift_RN * total_RN) * scale_RN).sum(dim=0)
        # Three strides of the inverse distribution function: the rank, its block, the token in it.
        rank_N1, share_N1 = pick_block((total_RN * scale_RN).T.float(), uniform_N)
        token_N = part._draw(found.mass_NB, hidden_ND, inverse_N1, share_N1[:, 0])
        drawn_here_N = rank_N1[:, 0] == self.group.rank
        token_N = torch.where(drawn_here_N, token_N + self.tokens.start, 0)
        mixed_ND = found.mixed_ND * scale_RN[self.group.rank, :, None].float()
        summed = self.group.sum_(torch.cat((mixed_ND, token_N[:, None].float()), dim=1))
        return VocabularyPass(
            sample_N=summed[:, -1].long(),
            argmax_N=argmax_RN.gather(0, best_N[None])[0].long(),
            entropy_N=(total_N.log() - weighted_N / total_N).float(),
            normaliser_N=(maximum_N + total_N.log()).float(),
            embedding_ND=(summed[:, :-1] / total_N[:, None].float() * self.scale).to(self.dtype),
        )
