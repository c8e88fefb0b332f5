"""Defines the texts of a vocabulary as a tree of bytes.

V vocabulary   N nodes of a level
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class VocabularyTree:
    """Holds the texts of a vocabulary as a tree of bytes."""

    parents: tuple[NDArray[np.int32], ...]
    """Place of each node in the level above, per level, [N]; the root is alone in its own."""
    labels: tuple[NDArray[np.uint8], ...]
    """Byte on the way to each node, per level, [N]."""
    ends: tuple[tuple[NDArray[np.int64], NDArray[np.int64]], ...]
    """Tokens that end in each level, and their nodes' places."""
    size: int
    """V, tokens without a text included."""

    @classmethod
    def build(cls, texts: Sequence[bytes | None]) -> "VocabularyTree":
        """Returns the tree of the texts of tokens 0, 1, ...; a token whose text is None or empty is left out."""
        lengths = np.array([len(text or b"") for text in texts])
        flat = np.frombuffer(b"".join(text or b"" for text in texts), dtype=np.uint8)
        begins = lengths.cumsum() - lengths
        tokens = np.flatnonzero(lengths)
        nodes = np.zeros(len(tokens), dtype=np.int64)
        parents, labels, ends = [], [], []
        depth = 0
        while len(tokens):
            codes, nodes = np.unique(nodes * 256 + flat[begins[tokens] + depth], return_inverse=True)
            parents.append((codes // 256).astype(np.int32))
            labels.append((codes % 256).astype(np.uint8))
            depth += 1
            ended = lengths[tokens] == depth
            ends.append((tokens[ended], nodes[ended]))
            tokens, nodes = tokens[~ended], nodes[~ended]
        return cls(tuple(parents), tuple(labels), tuple(ends), len(texts))
