"""The least number of rows whose results do not depend on how many there are."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from gesso.nn import row_alignment as module
from gesso.nn.linear import linear
from gesso.nn.row_alignment import GRAINS, align_rows, grain

CPU = torch.device("cpu")


@pytest.fixture
def fresh() -> Iterator[None]:
    module._cpu_grain.cache_clear()
    yield
    module._cpu_grain.cache_clear()


@pytest.mark.parametrize("needed", [1, 4, 5, 8, 9, 16, 17])
def test_the_least_that_is_kept_is_taken(fresh: None, monkeypatch: pytest.MonkeyPatch, needed: int) -> None:
    """On a machine whose matmuls of fewer than `needed` rows round in another way, or than its library asks for."""
    own = grain(CPU)
    module._cpu_grain.cache_clear()

    def rounding(x: Tensor, weight: Tensor) -> Tensor:
        out = linear(x, weight)
        return out if len(x) >= needed else out.float().mul(1 + 2.0**-7).to(out.dtype)

    monkeypatch.setattr(module, "linear", rounding)
    assert grain(CPU) == next((rows for rows in GRAINS if rows >= max(own, needed)), GRAINS[-1])


def test_it_is_asked_once_for_each_number_of_threads(fresh: None, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(module, "_keeps", lambda rows: asked.append(rows) is None)
    for threads in (1, 2, 1, 2, 2):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        assert grain(CPU) == GRAINS[0]
    assert len(asked) == 2
    assert grain(torch.device("meta")) == GRAINS[-1]


def test_rows_are_filled_up_with_the_last() -> None:
    for count in (1, 3, 4, 5, 15, 16, 17, 40):
        rows = grain(CPU) if count < GRAINS[-1] else GRAINS[-1]
        x = torch.arange(count * 2.0).view(count, 2)
        padded = align_rows(x)
        assert len(padded) == -(-count // rows) * rows
        assert torch.equal(padded[:count], x)
        assert (padded[count:] == x[-1]).all()
