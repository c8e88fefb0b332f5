"""Keys and values of prompts that were read before, for requests that begin alike.

Prompts are encoded in chunks whose borders lie at multiples of the chunk length, whoever else is running, so that a
chunk's keys and values depend on the tokens up to its end alone. A copy of every whole chunk is kept in a tree of
chunks; a request starts from copies of the longest chain that begins its prompt.

A full layer needs the whole chain, a sliding layer only the chunks in sight of its end: the two are let go apart, the
least recently used first. A chunk is never older than those that follow it, so a chain shrinks from its end.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor

from gesso.config import ModelConfig
from gesso.models.cache import SequenceCache

Part = Literal["full", "sliding"]


@dataclass(eq=False, slots=True)
class _Chunk:
    """A node of the tree; `full` and `sliding` hold one tensor [2, G, chunk, K] for each such layer."""

    parent: "_Chunk | None" = None
    tokens: tuple[int, ...] = ()
    children: "dict[tuple[int, ...], _Chunk]" = field(default_factory=dict)
    full: list[Tensor] = field(default_factory=list)
    sliding: list[Tensor] | None = None


class PrefixStore:
    """A bounded store. Not for several threads at once."""

    def __init__(self, config: ModelConfig, chunk: int) -> None:
        self.chunk = chunk
        self.bytes = 0
        self._sliding = [layer.is_sliding for layer in config.layers]
        self._sight = max(1, -(-(config.sliding_window - 1) // chunk))
        self._roots: dict[str | None, _Chunk] = {}
        self._used: OrderedDict[tuple[_Chunk, Part], int] = OrderedDict()

    def restore(self, ids: Sequence[int], adapter: str | None, row: SequenceCache) -> int:
        """Fill an empty row with what is stored of the prompt `ids`, its last token excepted; returns the tokens."""
        chain = self._match(ids, adapter)
        if not chain:
            return 0
        fulls = iter(zip(*(chunk.full for chunk in chain), strict=True))
        slidings = iter(zip(*(chunk.sliding or [] for chunk in chain[-self._sight :]), strict=True))
        for layer, sliding in zip(row.layers, self._sliding, strict=True):
            layer.restore(next(slidings if sliding else fulls), row.max_seq_len, row.max_write_len)
        row.length = len(chain) * self.chunk
        return row.length

    def put(self, ids: Sequence[int], adapter: str | None, row: SequenceCache, room: int) -> None:
        """Keep the chunk that ends at the row's length, which was just encoded. `room` bounds the bytes of the store
        after it; where it cannot be made, nothing is kept."""
        end = row.length
        if end % self.chunk or not end:
            return
        parent = self._roots.setdefault(adapter, _Chunk())
        for start in range(0, end - self.chunk, self.chunk):
            known = parent.children.get(tuple(ids[start : start + self.chunk]))
            if known is None:
                return
            parent = known
        tokens = tuple(ids[end - self.chunk : end])
        node = parent.children.get(tokens)
        if node is not None and node.sliding is not None:
            self._touch(node, node)
            return
        layers = list(zip(row.layers, self._sliding, strict=True))
        sizes = [(layer.kv[:, :, :1].nbytes * self.chunk, slides) for layer, slides in layers]
        full_bytes = sum(size for size, slides in sizes if not slides)
        sliding_bytes = sum(size for size, slides in sizes if slides)
        missing = sliding_bytes + (full_bytes if node is None else 0)
        if missing > room:
            return
        self._touch(parent, parent)  # it must not go while room is made for what follows it
        self.shrink(room - missing)
        if node is None:
            if parent.parent is not None and (parent, "full") not in self._used:
                return
            node = _Chunk(parent, tokens, full=[layer.newest(self.chunk) for layer, slides in layers if not slides])
            parent.children[tokens] = node
            self._keep(node, "full", full_bytes)
        if (node, "full") not in self._used:
            return
        node.sliding = [layer.newest(self.chunk) for layer, slides in layers if slides]
        self._keep(node, "sliding", sliding_bytes)
        self._touch(node, node)

    def shrink(self, room: int) -> None:
        """Let go of the least recently used until at most `room` bytes are held."""
        while self.bytes > room and self._used:
            (chunk, part), size = self._used.popitem(last=False)
            self.bytes -= size
            if part == "sliding":
                chunk.sliding = None
                continue
            chunk.full = []
            self.bytes -= self._used.pop((chunk, "sliding"), 0)
            chunk.sliding = None
            assert chunk.parent is not None
            assert not chunk.children
            del chunk.parent.children[chunk.tokens]

    def clear(self) -> None:
        """Let go of everything."""
        self.shrink(0)

    def _match(self, ids: Sequence[int], adapter: str | None) -> list[_Chunk]:
        """The longest chain that begins `ids` and can be continued: all sliding layers have what is in sight."""
        chain: list[_Chunk] = []
        node = self._roots.get(adapter)
        for start in range(0, len(ids) - self.chunk, self.chunk):
            node = node and node.children.get(tuple(ids[start : start + self.chunk]))
            if node is None:
                break
            chain.append(node)
        while chain and any(chunk.sliding is None for chunk in chain[-self._sight :]):
            chain.pop()
        if chain:
            self._touch(chain[-1], chain[max(0, len(chain) - self._sight)])
        return chain

    def _keep(self, chunk: _Chunk, part: Part, size: int) -> None:
        self._used[chunk, part] = size
        self.bytes += size

    def _touch(self, last: _Chunk, first_in_sight: _Chunk) -> None:
        """The chain that ends at `last` was used: from its end to its root, so that none is older than what follows
        it; sliding layers back to `first_in_sight` only."""
        node: _Chunk | None = last
        in_sight = True
        while node is not None and node.parent is not None:
            if in_sight and (node, "sliding") in self._used:
                self._used.move_to_end((node, "sliding"))
            in_sight = in_sight and node is not first_in_sight
            self._used.move_to_end((node, "full"))
            node = node.parent
