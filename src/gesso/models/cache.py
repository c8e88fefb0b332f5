"""Holds keys and values of what is committed, one row per sequence.

Life cycle of a row: `encode` writes T new keys behind the committed end of every layer and attends over
them (`write_causal`), then `commit(T)` moves the end. `denoise` writes the canvas's keys into the same tail
(`write_canvas`), attends, and moves nothing: the next step overwrites them. So nothing is concatenated, and
while denoising the committed part is only read.

A full layer keeps every position. A sliding layer keeps the last `window - 1`: that is all a canvas or the
next token may see. Its buffer has room for these and the most that was written at once; what is kept is moved to
the front when the tail is reached.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from gesso.config import LayerConfig, ModelShape
from gesso.models.places import Places
from gesso.nn.attention import attend_all
from gesso.nn.image_attention import Span, attend_with_images


class LayerCache:
    """Holds keys and values of one layer and one sequence: `kv` [2, G, capacity, K], committed in [start, end)."""

    def __init__(self, layer: LayerConfig, window: int | None, dtype: torch.dtype, device: torch.device) -> None:
        self.window = window
        self.start = self.end = 0
        self.kv = torch.empty(2, layer.num_key_value_heads, 0, layer.head_dim, dtype=dtype, device=device)

    def make_room(self, tokens: int, max_seq_len: int, max_write_len: int) -> None:
        """Makes room for `tokens` behind the end; the sequence is expected to reach `max_seq_len` tokens and to write
        `max_write_len` at once."""
        keep = self.end - self.start
        capacity = self.kv.shape[2]
        if self.end + tokens <= capacity:
            return
        kept = self.kv[:, :, self.start : self.end]
        need = keep + tokens
        if need <= capacity:
            self.kv[:, :, :keep] = kept.clone() if self.start < keep else kept
        else:
            wanted = max_seq_len if max_seq_len > need else max(need, 2 * capacity)
            if self.window is not None:
                wanted = max(need, min(wanted, self.window - 1 + max(tokens, max_write_len)))
            self.kv = self.kv.new_zeros(2, self.kv.shape[1], wanted, self.kv.shape[3])  # a mask leaves nan in
            self.kv[:, :, :keep] = kept
        self.start, self.end = 0, keep

    def write(self, k_TGK: Tensor, v_TGK: Tensor, max_seq_len: int, max_write_len: int) -> tuple[Tensor, Tensor]:
        """Writes T keys and values behind the end; returns what is visible, [G, S, K] each, without a copy."""
        tokens = k_TGK.shape[0]
        self.make_room(tokens, max_seq_len, max_write_len)
        stop = self.end + tokens
        if tokens == 1 and self.kv.is_cpu and k_TGK.dtype == self.kv.dtype and not torch.is_grad_enabled():
            torch.stack((k_TGK[0], v_TGK[0]), out=self.kv.select(2, self.end))  # fewer calls than below
        else:
            self.kv[0, :, self.end : stop] = k_TGK.transpose(0, 1)
            self.kv[1, :, self.end : stop] = v_TGK.transpose(0, 1)
        keys, values = self.kv[:, :, self.start : stop].unbind()
        return keys, values

    def commit(self, tokens: int) -> None:
        """Commits the next `tokens` written; a sliding layer drops what is out of its window."""
        self.end += tokens
        if self.window is not None:
            self.start = max(self.start, self.end - (self.window - 1))

    def rollback(self, tokens: int) -> Tensor:
        """Undoes the last commit, of so many tokens, which were written at once; returns a copy of them, [2, G, tokens,
        K]."""
        taken = self.newest(tokens)
        self.end -= tokens
        if self.window is not None:  # what went out of sight is still in the buffer
            self.start = max(0, self.end - (self.window - 1))
        return taken

    def newest(self, tokens: int) -> Tensor:
        """Copies the last `tokens` committed, [2, G, tokens, K]; they must have been written at once."""
        return self.kv[:, :, self.end - tokens : self.end].clone()

    def restore(self, parts: Sequence[Tensor], max_seq_len: int, max_write_len: int) -> None:
        """Refills the cache from copies of neighbouring stretches, in order; a sliding layer is given those in its
        window."""
        self.start = self.end = 0
        for part in parts:
            self.write(part[0].transpose(0, 1), part[1].transpose(0, 1), max_seq_len, max_write_len)
            self.commit(part.shape[2])


class SequenceCache:
    """Holds all layers of one sequence and its committed length in tokens."""

    def __init__(
        self,
        config: ModelShape,
        dtype: torch.dtype,
        device: torch.device,
        max_seq_len: int = 0,
        max_write_len: int = 0,
    ) -> None:
        self.length = 0
        self.max_seq_len = max_seq_len
        self.max_write_len = max_write_len
        self.layers = [
            LayerCache(layer, config.sliding_window if layer.is_sliding else None, dtype, device)
            for layer in config.layers
        ]
        self.places: Places | None = None
        """Where passes read on the device what is committed; None where the host says it."""

    def clear(self) -> None:
        """Forgets all tokens; the buffers stay."""
        self.length = 0
        for layer in self.layers:
            layer.start = layer.end = 0

    def make_room(self, tokens: int) -> None:
        """Makes room in every layer for the next tokens that are written."""
        for layer in self.layers:
            layer.make_room(tokens, self.max_seq_len, self.max_write_len)

    def positions(self, tokens: int, device: torch.device) -> Tensor:
        """Returns the positions of the next tokens."""
        if self.places is not None:
            return self.places.positions(tokens)
        return torch.arange(self.length, self.length + tokens, device=device)

    def attend_causal(
        self, layer: int, q_THK: Tensor, k_TGK: Tensor, v_TGK: Tensor, images: Sequence[Span] = ()
    ) -> Tensor:
        """Writes T keys and values of a layer and attends causally over all, [T, H, K]; `images` are the spans of the T
        tokens that see themselves both ways."""
        cache = self.layers[layer]
        if self.places is not None:
            assert len(q_THK) == 1, "a later token would be seen"
            return self.places.attend(layer, cache.kv, q_THK, k_TGK, v_TGK)
        keys, values = cache.write(k_TGK, v_TGK, self.max_seq_len, self.max_write_len)
        return attend_with_images(q_THK, keys, values, cache.window, images)

    def attend_canvas(self, layer: int, q_CHK: Tensor, k_CGK: Tensor, v_CGK: Tensor) -> Tensor:
        """Writes a canvas's keys and values behind the committed ones and attends over all without a mask, [C, H,
        K]."""
        if self.places is not None:
            return self.places.attend(layer, self.layers[layer].kv, q_CHK, k_CGK, v_CGK)
        keys, values = self.layers[layer].write(k_CGK, v_CGK, self.max_seq_len, self.max_write_len)
        return attend_all(q_CHK, keys, values)

    def commit(self, tokens: int) -> None:
        """Commits the next `tokens` written, in every layer."""
        for layer in self.layers:
            layer.commit(tokens)
        self.length += tokens

    def rollback(self, tokens: int) -> list[Tensor]:
        """Undoes the last `encode`, of so many tokens; returns what it wrote, by layer, for `restore`."""
        self.length -= tokens
        return [layer.rollback(tokens) for layer in self.layers]

    def restore(self, taken: Sequence[Tensor]) -> None:
        """Undoes the last `rollback`; nothing may have been encoded since."""
        for layer, part in zip(self.layers, taken, strict=True):
            layer.write(part[0].transpose(0, 1), part[1].transpose(0, 1), self.max_seq_len, self.max_write_len)
        self.commit(taken[0].shape[2])

    def copy_newest(self, tokens: int, *, sliding: bool) -> tuple[Tensor, ...]:
        """Copies the last `tokens` committed in the layers of a kind; they must have been written at once."""
        return tuple(layer.newest(tokens) for layer in self._of_kind(sliding=sliding))

    def refill(self, tokens: int, full: Sequence[Sequence[Tensor]], sliding: Sequence[Sequence[Tensor]]) -> None:
        """Makes copies of neighbouring stretches, in order, the `tokens` that are committed; sliding layers are given
        those in their window."""
        for is_sliding, stretches in ((False, full), (True, sliding)):
            layers = self._of_kind(sliding=is_sliding)
            for layer, parts in zip(layers, zip(*stretches, strict=True), strict=True):
                layer.restore(parts, self.max_seq_len, self.max_write_len)
        self.length = tokens

    def _of_kind(self, *, sliding: bool) -> list[LayerCache]:
        return [layer for layer in self.layers if (layer.window is not None) == sliding]

    @property
    def bytes(self) -> int:
        """Returns the bytes of all buffers."""
        return sum(layer.kv.numel() * layer.kv.element_size() for layer in self.layers)


class KVCache:
    """Groups the caches of a batch. Rows may have different lengths and may be regrouped without a copy."""

    def __init__(self, rows: list[SequenceCache]) -> None:
        self.rows = rows

    @property
    def batch_size(self) -> int:
        """Returns the number of rows."""
        return len(self.rows)

    @property
    def lengths(self) -> list[int]:
        """Returns the committed tokens of every row."""
        return [row.length for row in self.rows]

    @property
    def bytes(self) -> int:
        """Returns the bytes of all buffers."""
        return sum(row.bytes for row in self.rows)


def cache_bytes(config: ModelShape, dtype: torch.dtype, max_seq_len: int, max_write_len: int) -> int:
    """Returns the bytes of one sequence's buffers when it reaches `max_seq_len` and writes `max_write_len` at once."""
    total = 0
    for layer in config.layers:
        capacity = min(max_seq_len, config.sliding_window - 1 + max_write_len) if layer.is_sliding else max_seq_len
        total += 2 * layer.num_key_value_heads * layer.head_dim * capacity
    return total * dtype.itemsize
