"""Implements the text model in parts: the same passes, in which every rank computes its heads, rows and experts."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from gesso.config import LayerConfig, ModelConfig
from gesso.models.block import Block
from gesso.models.cache import KVCache
from gesso.models.diffusion_gemma import DiffusionGemma, SelfConditioning
from gesso.models.flat_rows import PlacedEmbeddings
from gesso.nn.attention import Attend
from gesso.ranks.caches import CacheNumbers
from gesso.ranks.group import RankGroup
from gesso.tensor_parallel.experts import ShardedExperts
from gesso.tensor_parallel.shards import local_config
from gesso.tensor_parallel.vocabulary import EMBEDDING, HIDDEN, ShardedVocabulary


class ShardedBlock(Block):
    """Implements a layer with two sums over the ranks: behind attention, and behind dense MLP and experts at once."""

    def __init__(self, config: ModelConfig, layer: LayerConfig, group: RankGroup, number: int) -> None:
        super().__init__(config, layer)
        self.name = f"the experts of layer {number}"
        self.experts = ShardedExperts(config.hidden_size, config.moe_intermediate_size, config.num_experts, group)
        self.group = group

    def forward(self, x_ND: Tensor, rope: tuple[Tensor, Tensor], attend: Attend, scalar: Tensor) -> Tensor:
        attended = self.group.sum_(self.attention(self.input_norm(x_ND), rope, attend))
        x_ND = x_ND + self.post_attention_norm(attended)
        dense = self.mlp(self.pre_mlp_norm(x_ND))
        weights, experts = self.router(x_ND)
        self.group.decide(self.name, experts)
        routed = self.experts(self.pre_experts_norm(x_ND), weights, experts)
        # Each of the two has a norm of its own, so that they cannot be added up before.
        dense, routed = self.group.sum_(torch.cat((dense, routed.to(dense.dtype)), dim=-1)).chunk(2, dim=-1)
        mixed = self.post_mlp_norm(dense.contiguous()) + self.post_experts_norm(routed.contiguous())
        out: Tensor = (x_ND + self.post_norm(mixed)) * scalar
        return out


class ShardedModel(DiffusionGemma):
    """Holds a rank's part of the text model. On the leader every pass is announced; a follower is told of each.

    `config` is the shape of this rank's part: caches hold its key heads alone.
    """

    def __init__(self, config: ModelConfig, group: RankGroup) -> None:
        local = local_config(config, group)
        super().__init__(local)
        self.whole = config
        self.group = group
        self.vocabulary = ShardedVocabulary(
            config.vocab_size, config.hidden_size, config.final_logit_softcapping, group
        )
        self.layers = nn.ModuleList(
            ShardedBlock(local, layer, group, number) for number, layer in enumerate(local.layers)
        )
        self.self_conditioning = SelfConditioning(config)
        self.numbers = CacheNumbers(group)

    def new_cache(self, batch_size: int = 1, max_seq_len: int = 0, max_write_len: int = 0) -> KVCache:
        cache = super().new_cache(batch_size, max_seq_len, max_write_len)
        return self.numbers.announce(cache, max_seq_len, max_write_len)

    @torch.no_grad()
    def encode_flat(
        self,
        tokens_N: Tensor,
        counts: Sequence[int],
        cache: KVCache,
        images: Sequence[Sequence[PlacedEmbeddings]] = (),
    ) -> Tensor:
        if self.group.followers:
            placed = [[(place, embeddings.cpu()) for place, embeddings in row] for row in images]
            self.group.announce("encode", tokens_N, list(counts), self.numbers.of(cache), placed)
        with self.group.passing():
            return super().encode_flat(tokens_N, counts, cache, images)

    @torch.no_grad()
    def denoise_flat(
        self, canvas_N: Tensor, widths: Sequence[int], cache: KVCache, self_conditioning_ND: Tensor | None = None
    ) -> Tensor:
        if self.group.followers:
            known = self_conditioning_ND is not None
            sent = self.group.reference(EMBEDDING, self_conditioning_ND) if self_conditioning_ND is not None else None
            self.group.announce("denoise", canvas_N, list(widths), self.numbers.of(cache), known, sent)
        with self.group.passing():
            found = super().denoise_flat(canvas_N, widths, cache, self_conditioning_ND)
        self.group.sent[HIDDEN] = found
        return found

    @property
    def shards(self) -> ShardedVocabulary:
        """Returns the vocabulary as what it is here."""
        assert isinstance(self.vocabulary, ShardedVocabulary)
        return self.vocabulary
