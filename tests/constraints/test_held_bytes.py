"""What the bytes of an object are."""

import random
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from constraints.tables import automaton_of
from gesso.constraints.held_bytes import held_bytes
from gesso.constraints.inference import Lattice


@dataclass(frozen=True, slots=True)
class _Slots:
    array: object
    more: tuple[object, ...] = ()


_Slots.__module__ = "gesso.made_for_a_test"


def test_bytes_are_counted_once_whoever_shares_them() -> None:
    array, tensor = np.zeros(10), torch.zeros(6)
    view = array[3:].reshape(7, 1)
    assert held_bytes(array) == 80
    assert held_bytes(_Slots(array, (tensor, {"key": [view, tensor[1:]]}))) == held_bytes("key") + 80 + 24
    assert held_bytes(torch.from_numpy(array), array) == 80
    assert held_bytes(random.Random()) == 0


def test_a_lattice_knows_its_size_before_its_first_use() -> None:

    automaton = automaton_of([[0, 1, -1], [-1, 1, -1]], accepting=[1], end_tokens=[2])
    lattice = Lattice(automaton)
    lattice.prepare()
    before = held_bytes(lattice)
    assert before > held_bytes(automaton) > 0
    lattice.posterior(lattice.emissions(torch.zeros(4, 3)), automaton.start, 4)
    assert held_bytes(lattice) == pytest.approx(before, abs=64)
