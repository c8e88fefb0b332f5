"""Stores keys and values of prompts that were encoded before, for requests that begin alike.

Prompts are encoded in chunks whose borders depend on the prompt up to them alone (see `PromptInput.chunks`), whoever
else is running, so that a chunk's keys and values depend on the tokens and the embeddings up to its end alone. A copy
of every whole chunk is kept in a tree of chunks; a request starts from copies of the longest chain that begins its
prompt. Chunks are compared by ids and by the content hashes of their spans, so no two contents share a prefix.

A full layer needs the whole chain, a sliding layer only the chunks in sight of its end: the two are let go apart, the
least recently used first. A chunk is never older than those that follow it, so a chain shrinks from its end.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from gesso.runner.prompt_input import ChunkKey, PromptChunk
from gesso.runner.protocol import CacheHandle, LayerKind, PrefixCopy, Runner


@dataclass(eq=False, slots=True)
class _Node:
    """Holds a chunk in the tree, with copies of its keys and values."""

    parent: "_Node | None" = None
    key: ChunkKey = field(default_factory=lambda: ChunkKey(()))
    children: "dict[ChunkKey, _Node]" = field(default_factory=dict)
    full: PrefixCopy | None = None
    sliding: PrefixCopy | None = None

    @property
    def tokens(self) -> int:
        """Returns the number of tokens of the chunk."""
        return len(self.key.ids)


class PrefixStore:
    """Keeps a bounded number of bytes of copies that a runner makes. Only one thread may use it."""

    def __init__(self, runner: Runner) -> None:
        self.bytes = 0
        self._runner = runner
        self._window = runner.config.sliding_window
        self._roots: dict[tuple[str | None, int], _Node] = {}
        self._used: OrderedDict[tuple[_Node, LayerKind], int] = OrderedDict()

    def restore(self, chunks: Sequence[PromptChunk], adapter: str | None, cache: CacheHandle) -> int:
        """Fills an empty cache with the longest stored prefix of a prompt, its last token excepted; returns the number
        of tokens.

        An error of the runner comes out as it is; the cache is of no more use then.
        """
        chain = self._match(chunks, adapter)
        if not chain:
            return 0
        tokens = sum(node.tokens for node in chain)
        full = [node.full for node in chain if node.full is not None]
        sliding = [node.sliding for node in chain[self._in_sight(chain) :] if node.sliding is not None]
        self._runner.restore_prefix(cache, tokens, full, sliding)
        return tokens

    def put(
        self, chunks: Sequence[PromptChunk], number: int, adapter: str | None, cache: CacheHandle, room: int
    ) -> None:
        """Stores chunk `number` of a prompt, which was just encoded.

        Args:
            room: bound on the bytes of the store afterwards; where it cannot be kept, nothing is stored.

        An error of the runner comes out as it is; the store is as it was then, but for what had to make room.
        """
        chunk = chunks[number]
        if not chunk.whole:
            return
        parent = self._roots.setdefault(self._weights(adapter), _Node())
        for before in chunks[:number]:
            known = parent.children.get(before.key)
            if known is None:
                return
            parent = known
        node = parent.children.get(chunk.key)
        if node is not None and node.sliding is not None:
            self._touch(node, node)
            return
        length = chunk.end - chunk.start
        full_bytes = self._runner.prefix_bytes(length, "full")
        sliding_bytes = self._runner.prefix_bytes(length, "sliding")
        missing = sliding_bytes + (full_bytes if node is None else 0)
        if missing > room:
            return
        self._touch(parent, parent)  # it must not go while room is made for what follows it
        self.shrink(room - missing)
        above = parent if node is None else node
        if above.parent is not None and (above, "full") not in self._used:
            return
        # A copy may fail: nothing is linked before both are made, or a chunk would be newer than the one before it.
        full = self._runner.copy_prefix(cache, length, "full") if node is None else None
        sliding = self._runner.copy_prefix(cache, length, "sliding")
        if node is None:
            key = chunk.key.without_sources()
            node = parent.children[key] = _Node(parent, key, full=full)
            self._keep(node, "full", full_bytes)
        node.sliding = sliding
        self._keep(node, "sliding", sliding_bytes)
        self._touch(node, node)

    def _weights(self, adapter: str | None) -> tuple[str | None, int]:
        """Names what computed a prompt's keys: an adapter's name, and how often adapters had been loaded by then."""
        return adapter, 0 if adapter is None else self._runner.adapter_loads

    def shrink(self, room: int) -> None:
        """Evicts the least recently used copies until at most `room` bytes are held."""
        while self.bytes > room and self._used:
            (node, kind), size = self._used.popitem(last=False)
            self.bytes -= size
            if kind == "sliding":
                node.sliding = None
                continue
            node.full = None
            self.bytes -= self._used.pop((node, "sliding"), 0)
            node.sliding = None
            assert node.parent is not None
            assert not node.children
            del node.parent.children[node.key]

    def clear(self) -> None:
        """Evicts everything."""
        self.shrink(0)

    def _match(self, chunks: Sequence[PromptChunk], adapter: str | None) -> list[_Node]:
        """Returns the longest chain that begins a prompt and can be continued: sliding layers have all that is in
        sight."""
        chain: list[_Node] = []
        node = self._roots.get(self._weights(adapter))
        for chunk in chunks[:-1]:  # the last one holds the last token, which is encoded by each request itself
            node = None if node is None else node.children.get(chunk.key)
            if node is None:
                break
            chain.append(node)
        while chain and any(node.sliding is None for node in chain[self._in_sight(chain) :]):
            chain.pop()
        if chain:
            self._touch(chain[-1], chain[self._in_sight(chain)])
        return chain

    def _in_sight(self, chain: Sequence[_Node]) -> int:
        """Returns the place in the chain of the first chunk that a sliding layer sees from its end."""
        place, seen = len(chain) - 1, 0
        while place > 0 and (seen := seen + chain[place].tokens) < self._window - 1:
            place -= 1
        return place

    def _keep(self, node: _Node, kind: LayerKind, size: int) -> None:
        self._used[node, kind] = size
        self.bytes += size

    def _touch(self, last: _Node, first_in_sight: _Node) -> None:
        """Marks the chain that ends at `last` as used, from its end to its root, so that none is older than what
        follows it; sliding layers back to `first_in_sight` only."""
        node: _Node | None = last
        in_sight = True
        while node is not None and node.parent is not None:
            if in_sight and (node, "sliding") in self._used:
                self._used.move_to_end((node, "sliding"))
            in_sight = in_sight and node is not first_in_sight
            self._used.move_to_end((node, "full"))
            node = node.parent
