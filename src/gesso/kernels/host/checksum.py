"""Sums up bytes by SHA-256 with a state that can be written down, so that a download goes on with its checksum.

`hashlib` keeps its state to itself: after a break it would have to read a file of 50 GB from its first byte again.
"""

from typing import Any

import numpy as np

from gesso.kernels.host.library import sha256_kernel
from gesso.kernels.host.sha256 import BLOCK, fractions


class Sha256:
    """Sums up bytes as `hashlib.sha256` does; `state` is what another one goes on from."""

    def __init__(self, state: dict[str, Any] | None = None) -> None:
        words = state["words"] if state is not None else fractions()[0]
        self._words = np.array(words, dtype=np.uint32)
        self._rest = bytes.fromhex(state["rest"]) if state is not None else b""
        self._length = int(state["length"]) if state is not None else 0

    @property
    def state(self) -> dict[str, Any]:
        """Returns what was summed up so far, for JSON."""
        return {"words": self._words.tolist(), "rest": self._rest.hex(), "length": self._length}

    def update(self, data: bytes | bytearray) -> None:
        """Takes the next bytes."""
        self._length += len(data)
        view = memoryview(data)
        if self._rest:
            missing = BLOCK - len(self._rest)
            self._rest, view = self._rest + bytes(view[:missing]), view[missing:]
            if len(self._rest) < BLOCK:
                return
            self._take(memoryview(self._rest))
        whole = len(view) // BLOCK * BLOCK
        self._take(view[:whole])
        self._rest = bytes(view[whole:])

    def hexdigest(self) -> str:
        """Returns the sum of all bytes so far; more may follow."""
        other = Sha256(self.state)
        padding = b"\x80" + bytes((BLOCK - 9 - self._length) % BLOCK)
        other.update(padding + (8 * self._length).to_bytes(8, "big"))
        return "".join(f"{word:08x}" for word in other._words.tolist())

    def _take(self, blocks: memoryview) -> None:
        if len(blocks):
            kernel = sha256_kernel()
            kernel(self._words.ctypes.data, np.frombuffer(blocks, np.uint8).ctypes.data, len(blocks) // BLOCK)
