"""Ranks that compare what they decide."""

import socket
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from gesso.errors import RankLostError
from gesso.ranks import group as group_module
from gesso.ranks.group import RankGroup


@dataclass(slots=True)
class Beside(RankGroup):
    """A group of two in one process: the other one decided something of its own."""

    other: "Beside | None" = None

    def gather(self, x: Tensor) -> Tensor:
        assert self.other is not None
        return torch.stack([x, torch.tensor([digest for _, digest in self.other.decided])])


def pair(checks: bool = True) -> tuple[Beside, Beside]:
    made = [Beside(rank, 2, torch.device("cpu"), checks=checks) for rank in range(2)]
    made[0].other = made[1]
    return made[0], made[1]


def test_ranks_that_decide_alike_go_on() -> None:
    first, second = pair()
    for group in (first, second):
        group.decide("the experts of layer 0", torch.tensor([[1, 2]]))
    first.compare()
    assert first.decided == []
    assert first.lost is None
    first.compare()  # nothing was decided since


def test_the_first_difference_is_named() -> None:
    first, second = pair()
    for layer in range(3):
        first.decide(f"the experts of layer {layer}", torch.tensor([[1, 2]]))
        second.decide(f"the experts of layer {layer}", torch.tensor([[1, 2 + (layer > 0)]]))
    with pytest.raises(RankLostError, match="rank 1 and rank 0 in the experts of layer 1"):
        first.compare()
    assert first.lost is not None


def test_a_pass_ends_with_the_comparison() -> None:
    first, second = pair()
    second.decide("a", torch.tensor([1]))
    with pytest.raises(RankLostError), first.passing():
        first.decide("a", torch.tensor([2]))
    assert not first.in_pass


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_a_pass_that_is_broken_off_is_the_end_of_the_group(error: type[BaseException]) -> None:
    first, _ = pair()
    with pytest.raises(error), first.passing():
        raise error
    for use in (lambda: first.sum_(torch.ones(1)), lambda: first.take((1,), torch.float32)):
        with pytest.raises(RankLostError, match="was broken off"):
            use()


def test_a_message_that_is_broken_off_is_the_end_of_the_group(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(channel: socket.socket, message: object) -> None:
        raise KeyboardInterrupt

    ours, theirs = socket.socketpair()
    with ours, theirs:
        group = RankGroup(0, 2, torch.device("cpu"), followers=[ours])
        monkeypatch.setattr(group_module, "send", interrupted)
        with pytest.raises(KeyboardInterrupt):
            group.announce("rollback", 1, 1)
        with pytest.raises(RankLostError, match="was broken off"):
            group.announce("rollback", 1, 1)


def test_nothing_is_kept_where_nobody_asks() -> None:
    first, _ = pair(checks=False)
    first.decide("a", torch.tensor([1]))
    assert first.decided == []
    first.compare()
