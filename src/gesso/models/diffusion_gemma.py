"""Defines DiffusionGemma's text model: one stack of weights used as causal encoder and as canvas denoiser.

    B batch rows   T tokens   C canvas length   N = all rows laid flat   D hidden   V vocabulary

Norms, projections and experts see all tokens of all rows as one flat [N, D]; only attention is done row by
row, over each row's own keys. Embeddings are scaled by sqrt(D), the head is tied, logits are soft-capped fp32.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn

from gesso.config import AttentionKind, ModelConfig
from gesso.errors import OptionError
from gesso.models.block import Block
from gesso.models.cache import KVCache, SequenceCache
from gesso.models.flat_rows import PlacedEmbeddings, attend_by_row, longest_of, place_images
from gesso.models.listed_passes import ListedPasses
from gesso.models.offload_plan import OffloadPlan
from gesso.nn.attention import Attend
from gesso.nn.host_kernels import keeps_rows_apart
from gesso.nn.image_attention import Span
from gesso.nn.mlp import MLP
from gesso.nn.norm import RMSNorm, rms_norm
from gesso.nn.pass_threads import host_pass
from gesso.nn.rope import RopeTable
from gesso.nn.row_alignment import align_rows
from gesso.nn.vocabulary import Vocabulary

PREFILL_CHUNK = 512
"""Tokens encoded at a time: bounds the memory of a long prompt and changes no result."""


class SelfConditioning(nn.Module):
    """Adds the self-conditioning embedding of the last step to the canvas embeddings; the final norm is always
    applied."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.eps = config.rms_norm_eps
        self.pre_norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.mlp = MLP(config.hidden_size, config.intermediate_size)

    def forward(self, x_ND: Tensor, self_conditioning_ND: Tensor | None) -> Tensor:
        """Returns conditioned embeddings, [N, D]. `self_conditioning_ND` None is the first step's exact zero: the
        bias-free MLP of zero is zero."""
        return rms_norm(
            x_ND if self_conditioning_ND is None else x_ND + self.mlp(self.pre_norm(self_conditioning_ND)),
            None,
            self.eps,
        )


class DiffusionGemma(nn.Module):
    """Implements the text model. See `encode`, `denoise`, `self_conditioning_embeddings`, `logits`; the engine uses the
    flat passes."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.vocabulary = Vocabulary(config.vocab_size, config.hidden_size, config.final_logit_softcapping)
        self.layers = nn.ModuleList(Block(config, layer) for layer in config.layers)
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.self_conditioning = SelfConditioning(config)
        self.listed = ListedPasses(config)
        self.offload: OffloadPlan | None = None
        """What of it streams from host memory; None where all of it is on its device."""
        self.ropes: dict[AttentionKind, RopeTable] = {
            layer.kind: RopeTable(config.rope(layer.kind), layer.head_dim) for layer in config.layers
        }

    @property
    def reference_parameter(self) -> Tensor:
        """Returns a weight that is never quantized: it has the dtype of the activations and the device of all
        weights."""
        assert self.norm.weight is not None
        return self.norm.weight

    @property
    def device(self) -> torch.device:
        return self.reference_parameter.device

    @property
    def dtype(self) -> torch.dtype:
        return self.reference_parameter.dtype

    def new_cache(self, batch_size: int = 1, max_seq_len: int = 0, max_write_len: int = 0) -> KVCache:
        """Makes an empty cache.

        Args:
            max_seq_len: the length in tokens that rows will reach, canvas included, where it is known; buffers are then
                allocated once instead of doubling.
            max_write_len: the most tokens that will be written at once, where it is known: a chunk or a canvas.

        Raises:
            OptionError: `batch_size` below 1.
        """
        if batch_size < 1:
            raise OptionError(f"batch_size must be at least 1, got {batch_size}", option="batch_size")
        return KVCache(
            [SequenceCache(self.config, self.dtype, self.device, max_seq_len, max_write_len) for _ in range(batch_size)]
        )

    def blocks(self) -> Iterator[tuple[int, AttentionKind, Block]]:
        """Yields the number, kind and module of every layer."""
        for i, (layer, block) in enumerate(zip(self.config.layers, self.layers, strict=True)):
            assert isinstance(block, Block)
            yield i, layer.kind, block

    def check_length(self, tokens: int) -> None:
        """Refuses a sequence of so many tokens where the model has fewer positions.

        Raises:
            OptionError: it has.
        """
        if tokens > self.config.max_position_embeddings:
            raise OptionError(f"{tokens} tokens are past the model's {self.config.max_position_embeddings}")

    def fix_positions(self, positions: int) -> None:
        """Makes the tables of positions below `positions` at once. They are not replaced from here on, so that a CUDA
        graph may keep their addresses; without this they grow as they are needed."""
        for table in self.ropes.values():
            table.fix(positions, self.device, self.dtype)

    def rope(self, positions_N: Tensor, longest: int) -> dict[AttentionKind, tuple[Tensor, Tensor]]:
        """Returns cos and sin for each kind of layer, [N, 1, K] each; positions are below `longest`."""
        return {kind: table.lookup(positions_N, longest, self.dtype) for kind, table in self.ropes.items()}

    @torch.no_grad()
    def encode(self, tokens_BT: Tensor, cache: KVCache) -> Tensor:
        """Appends T tokens to every row of the cache, causally; returns normed hidden states [B, T, D].

        The last hidden state read through `logits` scores the next token. Cutting a prompt into several calls
        gives the same result as one.

        Raises:
            OptionError: tokens of another shape than [B, T], or past the model's positions.
        """
        tokens_BT = self._check(tokens_BT, cache)
        rows = []
        for tokens_T, row in zip(tokens_BT, cache.rows, strict=True):
            chunks = tokens_T.split(PREFILL_CHUNK)
            rows.append(torch.cat([self.encode_flat(chunk, [len(chunk)], KVCache([row])) for chunk in chunks]))
        return torch.stack(rows)

    @torch.no_grad()
    def encode_flat(
        self,
        tokens_N: Tensor,
        counts: Sequence[int],
        cache: KVCache,
        images: Sequence[Sequence[PlacedEmbeddings]] = (),
    ) -> Tensor:
        """Appends the next `counts[b]` of the flat tokens to row b; returns normed hidden states [N, D].

        Args:
            images: for each row its images, in order, whole and as they are, not scaled by sqrt(D). The tokens of an
                image see each other both ways in sliding layers; see `gesso.nn.image_attention`. () for none anywhere.
        """
        x = self.pass_causal(tokens_N, counts, cache, images)
        for row, count in zip(cache.rows, counts, strict=True):
            row.commit(count)
        return x

    @torch.no_grad()
    def pass_causal(
        self,
        tokens_N: Tensor,
        counts: Sequence[int],
        cache: KVCache,
        images: Sequence[Sequence[PlacedEmbeddings]] = (),
    ) -> Tensor:
        """Runs the pass of `encode_flat`, which is not committed yet."""
        return self._layers(tokens_N, counts, cache, None, causal=True, images=images)

    @torch.no_grad()
    def denoise_flat(
        self, canvas_N: Tensor, widths: Sequence[int], cache: KVCache, self_conditioning_ND: Tensor | None = None
    ) -> Tensor:
        """Runs one denoising pass of canvases of any widths, laid flat; returns normed hidden states [N, D] and leaves
        what is committed in the cache as it is."""
        return self._layers(canvas_N, widths, cache, self_conditioning_ND, causal=False)

    def _layers(
        self,
        tokens_N: Tensor,
        counts: Sequence[int],
        cache: KVCache,
        self_conditioning_ND: Tensor | None,
        *,
        causal: bool,
        images: Sequence[Sequence[PlacedEmbeddings]] = (),
    ) -> Tensor:
        """Runs all layers over flat rows; returns normed hidden states [N, D]."""
        with self.marked(len(tokens_N)):
            x, spans = self.embed_rows(tokens_N, counts, cache, self_conditioning_ND, causal=causal, images=images)
            out: Tensor = self.norm(self.run_blocks(x, counts, cache, spans, causal=causal))
        return out[: len(tokens_N)]

    def marked(self, rows: int) -> AbstractContextManager[None]:
        """Marks a pass of so many rows that kernels compute (see `gesso.nn.pass_threads`)."""
        _, _, first = next(iter(self.blocks()))
        return host_pass(rows, self.listed.most_rows) if keeps_rows_apart(first) else nullcontext()

    def embed_rows(
        self,
        tokens_N: Tensor,
        counts: Sequence[int],
        cache: KVCache,
        self_conditioning_ND: Tensor | None,
        *,
        causal: bool,
        images: Sequence[Sequence[PlacedEmbeddings]] = (),
    ) -> tuple[Tensor, list[Sequence[Span]]]:
        """Returns what the first layer is given, and for each row where its images are. Rows are aligned with copies of
        the last token (see `gesso.nn.row_alignment`) where kernels do not keep rows apart by themselves.

        Raises:
            OptionError: tokens past the model's positions.
        """
        align = (lambda x: x) if keeps_rows_apart(self.layers[0]) else align_rows
        self.check_length(longest_of(cache, counts))
        x = self.vocabulary.embed(align(tokens_N.to(self.device)))
        spans = place_images(x, counts, images)
        if not causal:
            x = self.self_conditioning(x, None if self_conditioning_ND is None else align(self_conditioning_ND))
        return x, spans

    def run_blocks(
        self, x_ND: Tensor, counts: Sequence[int], cache: KVCache, spans: Sequence[Sequence[Span]], *, causal: bool
    ) -> Tensor:
        """Runs the layers over aligned rows, behind what the cache holds; [N, D]."""
        pairs = zip(cache.rows, counts, strict=True)
        positions = torch.cat([row.positions(count, x_ND.device) for row, count in pairs])
        aligned = positions if len(positions) == len(x_ND) else align_rows(positions)
        rope = self.rope(aligned, longest_of(cache, counts))

        def attend(layer: int) -> Attend:
            return attend_by_row(cache.rows, layer, counts, causal, spans)

        if (out := self.listed.run(self.blocks, x_ND, rope, cache.rows, attend, causal=causal)) is not None:
            return out
        for i, kind, block in self.blocks():
            block.side.causal = causal
            x_ND = block(x_ND, rope[kind], attend(i), block.encoder_scalar if causal else block.decoder_scalar)
        return x_ND

    def denoise_hidden(self, canvas_BC: Tensor, cache: KVCache, self_conditioning_BCD: Tensor | None = None) -> Tensor:
        """Runs `denoise_flat` of canvases of one width; returns [B, C, D]."""
        canvas_BC = self._check(canvas_BC, cache)
        batch, width = canvas_BC.shape
        self_conditioning = None if self_conditioning_BCD is None else self_conditioning_BCD.reshape(batch * width, -1)
        return self.denoise_flat(canvas_BC.flatten(), [width] * batch, cache, self_conditioning).view(batch, width, -1)

    def denoise(self, canvas_BC: Tensor, cache: KVCache, self_conditioning_BCD: Tensor | None = None) -> Tensor:
        """Returns logits [B, C, V], fp32, of every canvas position given the cache and the whole canvas.

        Args:
            canvas_BC: token ids at positions `length`, `length + 1`, ... of each row.
            self_conditioning_BCD: `self_conditioning_embeddings` of the step before; None on the first step.
        """
        return self.logits(self.denoise_hidden(canvas_BC, cache, self_conditioning_BCD))

    @torch.no_grad()
    def self_conditioning_embeddings(self, logits_BCV: Tensor) -> Tensor:
        """Returns sqrt(D) * softmax(logits) @ embedding table, [B, C, D], which the next step is conditioned on."""
        return self.vocabulary.mix(logits_BCV)

    @torch.no_grad()
    def logits(self, hidden: Tensor) -> Tensor:
        """Returns soft-capped fp32 scores [..., V] of hidden states of `encode` or `denoise_hidden`."""
        return self.vocabulary.logits(hidden)

    def _check(self, tokens_BT: Tensor, cache: KVCache) -> Tensor:
        if tokens_BT.dim() != 2 or tokens_BT.shape[1] == 0:
            raise OptionError(f"tokens must have shape [batch, tokens >= 1], got {list(tokens_BT.shape)}")
        if tokens_BT.shape[0] != cache.batch_size:
            raise OptionError(f"{tokens_BT.shape[0]} rows of tokens, but the cache has {cache.batch_size}")
        return tokens_BT.to(self.device)


def initialise(model: DiffusionGemma, seed: int) -> None:
    """Draws random weights for training from scratch.

    The table is drawn so that scaled embeddings have unit size; matrices are normal with the config's range;
    the norms that end a branch start at (2 * layers)**-0.5, so that the residual keeps its size with depth.
    """
    generator = torch.Generator(device=model.device).manual_seed(seed)
    config = model.config
    branch = (2 * len(config.layers)) ** -0.5
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(("post_attention_norm.weight", "post_norm.weight")):
                parameter.fill_(branch)
            elif parameter.dim() == 1:
                parameter.fill_(0.0 if name.endswith("bias") else 1.0)
            else:
                std = config.hidden_size**-0.5 if name.startswith("vocabulary") else config.initializer_range
                parameter.normal_(0.0, std, generator=generator)
