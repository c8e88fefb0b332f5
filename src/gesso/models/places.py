"""Keeps on the device where a sequence's committed tokens begin and end, for passes that are captured and replayed.

A captured pass repeats what it did, so where it writes and what it reads may not be numbers of the host: it reads them
from memory, and whoever replays it writes them there first (`Places.update`). The cache's own memory must stay where it
was.

    T tokens written   H heads   G key heads   S positions that there is room for   K head size
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from gesso.kernels import usable
from gesso.nn.attention import attend_all


class Places:
    """Holds a sequence's length, and for every layer where its visible keys begin and its committed ones end."""

    def __init__(self, layers: int, device: torch.device) -> None:
        self._numbers = [0] * (2 * layers + 1)
        self._held = torch.tensor(self._numbers, device=device)

    def update(self, length: int, committed: Sequence[tuple[int, int]]) -> None:
        """Writes where the tokens of a sequence are now: its length, and each layer's beginning and end."""
        numbers = [length, *(place for ends in committed for place in ends)]
        if numbers != self._numbers:
            self._held.copy_(torch.tensor(numbers, device="cpu"))
            self._numbers = numbers

    def positions(self, tokens: int) -> Tensor:
        """Returns the positions of the next tokens, [T]."""
        return self._held[0] + torch.arange(tokens, device=self._held.device)

    def attend(self, layer: int, kv_2GSK: Tensor, q_THK: Tensor, k_TGK: Tensor, v_TGK: Tensor) -> Tensor:
        """Writes T keys and values of a layer behind the committed ones and attends from every query to all, [T, H,
        K]."""
        ends_2, tokens = self._held[2 * layer + 1 : 2 * layer + 3], len(k_TGK)
        if usable(q_THK.device):
            from gesso.kernels.appending import append_keys
            from gesso.kernels.attention import attend_between

            append_keys(k_TGK, v_TGK, kv_2GSK, ends_2)
            return attend_between(q_THK, kv_2GSK[0], kv_2GSK[1], ends_2, behind=tokens)
        places_T = ends_2[1] + torch.arange(tokens, device=ends_2.device)
        kv_2GSK.index_copy_(2, places_T, torch.stack((k_TGK, v_TGK)).transpose(1, 2))
        key_S = torch.arange(kv_2GSK.shape[2], device=ends_2.device)
        mask_1S = ((key_S >= ends_2[0]) & (key_S < ends_2[1] + tokens))[None]
        return attend_all(q_THK, kv_2GSK[0], kv_2GSK[1], mask_1S)
