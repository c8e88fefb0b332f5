"""Implements the text model in stages: a pass goes from stage to stage, one micro-batch behind the other.

Every rank has the whole model under its own names; what other ranks hold has no storage here (it is on the device
`meta`), so that layers, packed ones and adapters have the names and places that they have in one process.
"""

import dataclasses
import re
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gesso.config import AttentionKind, ModelConfig
from gesso.errors import OptionError
from gesso.models.block import Block
from gesso.models.cache import KVCache, SequenceCache
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.models.flat_rows import PlacedEmbeddings
from gesso.nn.image_attention import Span
from gesso.pipeline_parallel.stages import micro_batches, stage_layers
from gesso.ranks.caches import CacheNumbers
from gesso.ranks.group import RankGroup, Sending

KEPT_TIMES = 4096
"""Micro-batches whose times a stage remembers."""
_LAYER = re.compile(r"layers\.(\d+)\.")


@dataclass(slots=True)
class StagedPass:
    """Holds a micro-batch that is under way through the stages."""

    count: int
    """Rows without those that align them."""
    like: Tensor
    """A tensor with the shape and dtype of what comes back."""
    sending: Sending


class StagedModel(DiffusionGemma):
    """Holds a stage of the text model. The leader begins and ends every micro-batch; a follower is told of each.

    `config` is the whole model's; caches hold the layers of this stage alone.
    """

    def __init__(self, config: ModelConfig, group: RankGroup) -> None:
        super().__init__(config)
        self.group = group
        self.stages = stage_layers(config, group.size)
        self.own = self.stages[group.rank]
        self.numbers = CacheNumbers(group)
        self.begun = 0
        """Micro-batches that this stage has computed, or that the leader has begun."""
        self.under_way = 0
        self.most_under_way = 0
        """Micro-batches that were between begin and end at once, on the leader."""
        self.times: deque[tuple[int, int, int]] = deque(maxlen=KEPT_TIMES)
        """Number of a micro-batch, and when this stage began and ended it: nanoseconds of a clock that all processes of
        a machine have in common. On a GPU the host's times, which says less."""

    def holds(self, name: str) -> bool:
        """Says whether a tensor, or a layer (`name.`), is in this stage. The final norm, which tells dtype and device,
        is in every one."""
        match = _LAYER.match(name)
        if match is not None:
            return int(match[1]) in self.own
        return self.group.leads or name == "norm.weight"

    def part(self, stage: int) -> ModelConfig:
        """Returns the shape of a stage."""
        layers = self.config.layers
        return dataclasses.replace(self.config, layers=tuple(layers[number] for number in self.stages[stage]))

    def blocks(self) -> Iterator[tuple[int, AttentionKind, Block]]:
        for place, number in enumerate(self.own):
            block = self.layers[number]
            assert isinstance(block, Block)
            yield place, self.config.layers[number].kind, block

    def new_cache(self, batch_size: int = 1, max_seq_len: int = 0, max_write_len: int = 0) -> KVCache:
        if batch_size < 1:
            raise OptionError(f"batch_size must be at least 1, got {batch_size}", option="batch_size")
        part = self.part(self.group.rank)
        sizes = (max_seq_len, max_write_len)
        cache = KVCache([SequenceCache(part, self.dtype, self.device, *sizes) for _ in range(batch_size)])
        return self.numbers.announce(cache, *sizes)

    @torch.no_grad()
    def encode_flat(
        self,
        tokens_N: Tensor,
        counts: Sequence[int],
        cache: KVCache,
        images: Sequence[Sequence[PlacedEmbeddings]] = (),
    ) -> Tensor:
        parts, found = micro_batches(counts, self.group.size), list[Tensor]()
        tokens = iter(tokens_N.split([sum(counts[part]) for part in parts]))
        under_way = deque[StagedPass]()
        try:
            for part in parts:
                rows = KVCache(cache.rows[part])
                under_way.append(self.begin(next(tokens), counts[part], rows, None, causal=True, images=images[part]))
            while under_way:
                found.append(self.end(under_way.popleft()))
        finally:
            self.drop(under_way)
        # Not before all have come back: where a pass fails, no cache has changed on any stage.
        self.group.announce("commit", self.numbers.of(cache), list(counts))
        for row, count in zip(cache.rows, counts, strict=True):
            row.commit(count)
        return torch.cat(found)

    @torch.no_grad()
    def denoise_flat(
        self, canvas_N: Tensor, widths: Sequence[int], cache: KVCache, self_conditioning_ND: Tensor | None = None
    ) -> Tensor:
        return self.end(self.begin(canvas_N, widths, cache, self_conditioning_ND, causal=False))

    @torch.no_grad()
    def begin(
        self,
        tokens_N: Tensor,
        counts: Sequence[int],
        cache: KVCache,
        self_conditioning_ND: Tensor | None,
        *,
        causal: bool,
        images: Sequence[Sequence[PlacedEmbeddings]] = (),
    ) -> StagedPass:
        """Computes the leader's stage of a micro-batch and sends it on; `end` has what comes of it, in the same order.

        Raises:
            OptionError: tokens past the model's positions.
            RankLostError: a rank has ended or hangs.
        """
        with self.marked(len(tokens_N)):
            x, spans = self.embed_rows(tokens_N, counts, cache, self_conditioning_ND, causal=causal, images=images)
        x = self.run_stage(x, counts, cache, spans, causal=causal)
        self.group.announce("run", list(counts), self.numbers.of(cache), len(x), spans, causal)
        started = StagedPass(len(tokens_N), x, self.group.pass_on(x))
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        return started

    @torch.no_grad()
    def end(self, started: StagedPass) -> Tensor:
        """Returns the normed hidden states [N, D] of the micro-batch that was begun first.

        Raises:
            RankLostError: a rank has ended or hangs.
        """
        self.under_way -= 1
        x = self.group.take(started.like.shape, started.like.dtype)
        started.sending.wait()
        out: Tensor = self.norm(x)
        return out[: started.count]

    def drop(self, under_way: deque[StagedPass]) -> None:
        """Ends micro-batches of which nothing is wanted any more, so that the next one gets what is its own."""
        while under_way:
            self.end(under_way.popleft())

    def run_stage(
        self, x_ND: Tensor, counts: Sequence[int], cache: KVCache, spans: Sequence[Sequence[Span]], *, causal: bool
    ) -> Tensor:
        """Runs the layers of this stage, and notes when."""
        begun = time.monotonic_ns()
        with self.marked(len(x_ND)):
            out = self.run_blocks(x_ND, counts, cache, spans, causal=causal)
        self.times.append((self.begun, begun, time.monotonic_ns()))
        self.begun += 1
        return out
