"""Runs over the positions of a canvas: the kernels say what plain array operations say."""

import numpy as np
import pytest

from gesso.constraints import scan
from gesso.constraints.scan import Scan
from gesso.kernels import host


@pytest.mark.skipif(not host.available(), reason="LLVM is not here")
@pytest.mark.parametrize("seed", range(4))
def test_kernels_say_what_arrays_say(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(seed)
    states, pairs, sets, positions = 7 + seed, 30, 5, 9 + seed
    # A state that no pair starts from is among them.
    source = np.sort(random.integers(0, states - 1, pairs))
    target, of_set = random.integers(0, states, pairs), random.integers(0, sets, pairs)
    of_set[:sets] = np.arange(sets)
    runs = Scan(source, target, of_set, states)
    weight_CL = random.random((positions, sets)) ** 8 * (random.random((positions, sets)) > 0.2) + 1e-30
    weight_CL /= weight_CL.max(axis=1, keepdims=True)
    first_S, last_S = np.full(states, -np.inf), np.where(random.random(states) < 0.5, 0.0, -np.inf)
    first_S[source[0]], last_S[target[:3]] = 0.0, 0.0
    by_kernels = runs.best(np.log(weight_CL), last_S), runs.shares(weight_CL, first_S, last_S)
    monkeypatch.setattr(scan, "scan_kernels", lambda: None)
    by_arrays = runs.best(np.log(weight_CL), last_S), runs.shares(weight_CL, first_S, last_S)
    np.testing.assert_array_equal(by_kernels[0], by_arrays[0])
    assert by_kernels[1] is not None
    assert by_arrays[1] is not None
    np.testing.assert_allclose(by_kernels[1][0], by_arrays[1][0], rtol=0, atol=1e-14)
    assert by_kernels[1][1] == pytest.approx(by_arrays[1][1], rel=1e-13)


def test_what_underflows_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = Scan(np.array([0, 0]), np.array([0, 1]), np.array([0, 1]), 2)
    # Only the way that weighs nothing leads to the end.
    weight_CL = np.array([[1.0, 1e-300]] * 8)
    first_S, last_S = np.array([0.0, -np.inf]), np.array([-np.inf, 0.0])
    assert runs.shares(weight_CL, first_S, last_S) is None
    monkeypatch.setattr(scan, "scan_kernels", lambda: None)
    assert runs.shares(weight_CL, first_S, last_S) is None
