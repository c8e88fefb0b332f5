"""Sequences over several processes make the run that one process makes."""

from pathlib import Path
from typing import Any

import pytest
import torch

from gesso.errors import OptionError
from gesso.train.context_parallel import ContextGroup, check_context_parallel
from train.context_runs import compare, make, train
from train.forks import run_forks
from train.runs import train as run
from train.test_expert_parallel import assert_same_gradients, assert_same_losses

CPU = torch.device("cpu")


def test_parts_of_the_losses_and_gradients_sum_to_those_of_whole_sequences(tmp_path: Path) -> None:
    """Over 2 processes, and over 5, of which one has no column of a canvas of 8."""
    run_forks(tmp_path / "meeting", "context_runs", (2, compare.__name__, []), (5, compare.__name__, []))


def test_a_run_over_four_processes_is_that_of_one(tmp_path: Path) -> None:
    """Two share each sequence, beside a batch in two parts; and beside experts that lie over all of them."""
    full: dict[str, Any] = {"batch_size": 5, "learning_rate": 1e-3, "steps": 2, "evaluate_every": 2}
    deltas: dict[str, Any] = {"batch_size": 3, "micro_batch_size": 2, "gradient_checkpointing": True, "steps": 1}
    start = str(tmp_path / "start")
    train(str(tmp_path / "full"), None, full, 2)
    train(str(tmp_path / "deltas"), start, deltas, 1)
    parts = {"context_parallel": 2, "expert_parallel": 2}
    run_forks(
        tmp_path / "meeting",
        "context_runs",
        (4, train.__name__, [str(tmp_path / "full-4"), None, {**full, "context_parallel": 2}, 2]),
        (2, train.__name__, [str(tmp_path / "deltas-2"), start, {**deltas, **parts}, 1]),
    )
    for one, more, step in (("full", "full-4", "step-000002"), ("deltas", "deltas-2", "step-000001")):
        assert_same_losses(tmp_path / one, tmp_path / more)
        assert_same_gradients(tmp_path / one / step, tmp_path / more / step)


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_pieces_are_whole_and_even(size: int) -> None:
    lengths = [1, 2, 7, 12, 31]
    groups = [ContextGroup(rank, size) for rank in range(size)]
    owned = [group.own_tokens(lengths, CPU) for group in groups]
    assert len({own.lengths for own in owned}) == 1
    places = torch.cat([own.places_M[own.real_M] for own in owned])
    assert places.sort().values.tolist() == list(range(sum(lengths)))
    owner_BT, nth_BT = groups[0].locate(torch.tensor(lengths), 32)
    for row, length in enumerate(lengths):
        begin = sum(owned[0].lengths[:row])
        for column in range(32):
            own = owned[int(owner_BT[row, column])]
            assert own.columns_M[begin + nth_BT[row, column]] == min(column, length - 1)
            assert nth_BT[row, column] < own.lengths[row]
    columns = torch.cat([held[real] for held, real in (group.own_columns(13, CPU) for group in groups)])
    assert columns.tolist() == list(range(13))
    # Pairs of a token and one that it sees under a causal mask: as many everywhere, but for whole pieces.
    seen = [int((own.columns_M[-own.lengths[-1] :] + 1).sum()) for own in owned]
    assert max(seen) - min(seen) <= 2 * 31


def test_a_number_of_processes_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        OptionError, match="context_parallel 2 is for 2 processes or a multiple of them, and the run has 1"
    ):
        run(make(None, context_parallel=2), tmp_path, device="cpu")
    with pytest.raises(OptionError, match=r"context_parallel 3 .* and the run has 4"):
        check_context_parallel(3, 4)
    check_context_parallel(3, 6)
