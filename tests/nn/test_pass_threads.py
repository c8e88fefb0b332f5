"""Threads in a pass of few rows: PyTorch's one, the products' all of them, and nobody else's business."""

import threading
from collections.abc import Iterator

import pytest
import torch

from gesso.kernels.host import threads as host_threads
from gesso.kernels.host.threads import product_threads
from gesso.nn import linear as linear_module
from gesso.nn import pass_threads
from gesso.nn.pass_threads import FEW_ROWS, WATCH, all_threads, host_pass, in_few_rows

own = pytest.mark.skipif(pass_threads.own_threads() is None, reason="PyTorch has no such function here")


@pytest.fixture(autouse=True)
def three(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    monkeypatch.setattr(pass_threads, "processors", lambda: 3)
    yield
    torch.set_num_threads(before)


@own
def test_pytorch_has_one_thread_and_products_have_all() -> None:
    with host_pass(1):
        assert (torch.get_num_threads(), product_threads(), in_few_rows()) == (1, 3, True)
        assert host_threads._own.watch == WATCH
        with host_pass(1):  # a pass within a pass changes nothing
            assert (torch.get_num_threads(), product_threads()) == (1, 3)
        assert (torch.get_num_threads(), product_threads()) == (1, 3)
        with all_threads():
            assert (torch.get_num_threads(), product_threads()) == (3, 3)
        assert torch.get_num_threads() == 1
    assert (torch.get_num_threads(), product_threads(), in_few_rows()) == (3, 3, False)


@own
def test_threads_are_given_back_after_an_error() -> None:
    with pytest.raises(ValueError, match="of the pass"), host_pass(2):
        raise ValueError("of the pass")
    assert (torch.get_num_threads(), in_few_rows()) == (3, False)


def test_a_pass_of_many_rows_runs_as_ever() -> None:
    with host_pass(FEW_ROWS + 1):
        assert (torch.get_num_threads(), in_few_rows()) == (3, False)
        with all_threads():
            assert torch.get_num_threads() == 3


def test_a_pass_runs_as_ever_where_threads_cannot_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pass_threads, "own_threads", lambda: None)
    with host_pass(1):
        assert (torch.get_num_threads(), in_few_rows()) == (3, False)


@own
def test_helpers_do_not_look_on_where_threads_outnumber_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pass_threads, "processors", lambda: 2)
    with host_pass(1):
        assert (host_threads._own.watch, product_threads()) == (0, 3)


@own
def test_a_thread_that_begins_meanwhile_has_all_threads() -> None:
    found: list[int] = []
    with host_pass(1):
        other = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
        other.start()
        other.join()
    assert found == [3]


@own
def test_plain_matmuls_take_all_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    found, multiply = list[int](), linear_module.multiply_aligned

    def noted(*arguments: object) -> torch.Tensor:
        found.append(torch.get_num_threads())
        return multiply(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(linear_module, "multiply_aligned", noted)
    with torch.no_grad(), host_pass(1):
        linear_module.linear(torch.ones(1, 8), torch.ones(4, 8))
    assert found == [3]


def test_processors_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(pass_threads, "allowed_cpus", lambda: {0, 1, 5})
    for share, expected in ((None, 3), (2, 2), (8, 3)):
        monkeypatch.setattr(pass_threads, "_quota", lambda share=share: share)
        assert pass_threads.processors() == expected
