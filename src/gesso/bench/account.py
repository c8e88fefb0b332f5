"""Counts the bytes that a shape takes on a device, without its weights and without the device.

Weights and caches are added up. The passes of a step are run once on PyTorch's meta device, where tensors have shapes
and no numbers, over one layer of each kind, and what they hold at once is counted storage by storage. Code that asks
for the device takes meta for an accelerator. Attention is counted in PyTorch's plain form, which holds its scores in
fp32: a fused kernel needs less. What a device's driver and its allocator keep for themselves is not in it.
"""

import dataclasses
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from gesso.bench.cells import Cell
from gesso.bench.random_weights import empty_model
from gesso.config import ModelConfig
from gesso.models.cache import KVCache, cache_bytes
from gesso.models.describe import parameters
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.models.quantization.plan import Quantization
from gesso.runner.memory import CHUNK

BENCHMARK, FORMAT = "gesso bench, bytes", 1
META = torch.device("meta")


@dataclass(frozen=True, slots=True)
class Account:
    """Holds the bytes of one cell."""

    experts: int
    dense: int
    """Everything of the model that is neither an expert nor the table: linear layers, routers, norms."""
    table: int
    """The embedding table, which is the head too."""
    cache: int
    """Keys and values of all requests; a sliding layer has room for its window and what is written at once."""
    workspace: int
    """The most that a pass holds beside these, and the tables of positions."""

    @property
    def total(self) -> int:
        """Returns the sum of all parts."""
        return self.experts + self.dense + self.table + self.cache + self.workspace


def account(
    config: ModelConfig, dtype: torch.dtype, cell: Cell, chosen: Quantization | None = None, chunk: int = CHUNK
) -> Account:
    """Counts the bytes of one cell, part by part, without allocating them.

    Args:
        dtype: of what is not packed, of the activations, and of keys and values.
        chunk: prompt tokens that are encoded at a time.

    Raises:
        OptionError: a layer's width cannot be cut into groups.
    """
    parts = {"experts": 0, "dense": 0, "table": 0}
    for name, tensor in empty_model(config, dtype, chosen).state_dict().items():
        part = "experts" if ".experts." in name else "table" if name.startswith("vocabulary.") else "dense"
        parts[part] += tensor.nbytes
    reach = cell.reach(config.canvas_length)
    max_write_len = max(min(chunk, cell.prompt), config.canvas_length)
    kinds = dataclasses.replace(config, layers=tuple(dict.fromkeys(config.layers)))
    return Account(
        **parts,
        cache=cell.batch * cache_bytes(config, dtype, reach, max_write_len),
        workspace=_workspace(empty_model(kinds, dtype, chosen), cell, reach, max_write_len, chunk),
    )


def account_report(
    config: ModelConfig, name: str, dtype: torch.dtype, cells: Sequence[Cell], chosen: Quantization | None
) -> dict[str, Any]:
    """Writes an account ready for JSON, in bytes."""
    accounts = [account(config, dtype, cell, chosen) for cell in cells]
    return {
        "benchmark": BENCHMARK,
        "format": FORMAT,
        "model": {
            "name": name,
            "dtype": str(dtype).removeprefix("torch."),
            "parameters": parameters(config)[0],
            "canvas_length": config.canvas_length,
        },
        "cells": [
            dataclasses.asdict(cell) | dataclasses.asdict(found) | {"total": found.total}
            for cell, found in zip(cells, accounts, strict=True)
        ],
    }


class LiveBytes(TorchDispatchMode):
    """Counts the bytes of tensors that are alive, and the most there were at once; `known` ones do not count."""

    def __init__(self, known: Iterable[Tensor] = ()) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now = self.most = 0
        self._known = {tensor.untyped_storage()._cdata for tensor in known}
        self._sizes: dict[int, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(out):
            if isinstance(leaf, Tensor):
                self.count(leaf)
        return out

    def count(self, tensor: Tensor) -> None:
        """Counts a tensor that is there, whoever made it."""
        storage = tensor.untyped_storage()
        key, size = storage._cdata, storage.nbytes()
        if key not in self._sizes and key not in self._known and size:
            self._sizes[key] = size
            self.now += size
            self.most = max(self.most, self.now)
            weakref.finalize(storage, self._forget, key)

    def _forget(self, key: int) -> None:
        self.now -= self._sizes.pop(key, 0)


@dataclass(frozen=True, slots=True)
class _Pass:
    """`rows` requests of `tokens` each, behind so many committed tokens."""

    rows: int
    tokens: int
    committed: int
    causal: bool


def _passes(cell: Cell, width: int, chunk: int) -> Iterator[_Pass]:
    """The largest of each sort: the end of a prompt, the commit of a canvas, and the last step."""
    first = min(chunk, cell.prompt)
    yield _Pass(1, first, cell.prompt - first, causal=True)
    if cell.mode == "ar":
        yield _Pass(cell.batch, 1, cell.prompt + cell.output - 1, causal=True)
        return
    last = cell.reach(width) - width
    if last > cell.prompt:
        yield _Pass(cell.batch, width, last - width, causal=True)
    yield _Pass(cell.batch, width, last, causal=False)


@torch.no_grad()
def _workspace(model: DiffusionGemma, cell: Cell, reach: int, max_write_len: int, chunk: int) -> int:
    tables = LiveBytes()
    with META, tables:
        model.rope(torch.zeros(1, dtype=torch.int64), reach)
    most = 0
    for one in _passes(cell, model.config.canvas_length, chunk):
        cache = _filled(model, one, reach, max_write_len)
        live = LiveBytes([*model.state_dict().values(), *(layer.kv for row in cache.rows for layer in row.layers)])
        with live:
            _run(model, one, cache, ends=one.causal and cell.mode == "ar")
        most = max(most, live.most)
    return tables.now + most


def _run(model: DiffusionGemma, one: _Pass, cache: KVCache, *, ends: bool) -> None:
    """A pass and, where a step ends with it, the vocabulary's."""
    count, counts = one.rows * one.tokens, [one.tokens] * one.rows
    tokens = torch.zeros(count, dtype=torch.int64, device=META)
    if one.causal:
        hidden = model.encode_flat(tokens, counts, cache)
        if not ends:
            return
        hidden = torch.stack([part[-1] for part in hidden.split(counts)])
    else:
        self_conditioning = torch.zeros(count, model.config.hidden_size, dtype=model.dtype, device=META)
        hidden = model.denoise_flat(tokens, counts, cache, self_conditioning)
    model.vocabulary.predict(hidden, torch.ones(len(hidden), device=META), torch.zeros(len(hidden), device=META))


def _filled(model: DiffusionGemma, one: _Pass, reach: int, max_write_len: int) -> KVCache:
    """A cache with room for all, of which so much is committed."""
    cache, window = model.new_cache(one.rows, reach, max_write_len), model.config.sliding_window
    for row in cache.rows:
        row.length = one.committed
        for layer, held in zip(model.config.layers, row.layers, strict=True):
            seen = min(one.committed, window - 1) if layer.is_sliding else one.committed
            shape = (2, layer.num_key_value_heads, seen, layer.head_dim)
            held.restore([torch.empty(shape, dtype=model.dtype, device=META)], reach, max_write_len)
    return cache
