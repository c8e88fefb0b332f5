"""SHA-256 with a state that can be kept: the sums of `hashlib`, in any pieces, and after a break."""

import hashlib
import json
import random

import pytest

from gesso.kernels.host.checksum import Sha256

DATA = random.Random(1).randbytes(5000)


@pytest.mark.parametrize("length", [0, 1, 55, 56, 57, 63, 64, 65, 119, 120, 128, 5000])
def test_it_is_the_sum_of_hashlib(length: int) -> None:
    total = Sha256()
    total.update(DATA[:length])
    assert total.hexdigest() == hashlib.sha256(DATA[:length]).hexdigest()
    assert total.hexdigest() == hashlib.sha256(DATA[:length]).hexdigest()  # asking changes nothing


@pytest.mark.parametrize("seed", range(5))
def test_pieces_and_breaks_change_nothing(seed: int) -> None:
    draw, total, place = random.Random(seed), Sha256(), 0
    while place < len(DATA):
        count = draw.choice([0, 1, 3, 63, 64, 65, 500])
        total.update(bytearray(DATA[place : place + count]))
        place += count
        if draw.random() < 0.3:
            total = Sha256(json.loads(json.dumps(total.state)))
    assert total.hexdigest() == hashlib.sha256(DATA).hexdigest()
