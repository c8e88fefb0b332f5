"""Names of devices: what is there is taken, all else is refused by name."""

import pytest
import torch

from gesso.errors import OptionError
from gesso.models.device import pick_device


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)


@pytest.mark.parametrize("name", ["cpu", "cpu:0"])
def test_the_cpu_has_no_number(name: str) -> None:
    assert pick_device(name) == torch.device("cpu")


@pytest.mark.parametrize("name", ["cpu:3", "meta", "xpu", "privateuseone", "gpu", ""])
def test_unknown_devices_are_refused_before_anything_is_read(name: str) -> None:
    with pytest.raises(OptionError, match="does not exist; known: auto, cpu, cuda, mps") as refusal:
        pick_device(name)
    assert refusal.value.option == "device"


@pytest.mark.usefixtures("two_gpus")
def test_a_gpu_is_known_by_its_number() -> None:
    assert pick_device("auto") == torch.device("cuda")
    assert pick_device("cuda:1") == torch.device("cuda:1")
    with pytest.raises(OptionError, match="cuda:2: PyTorch finds 2 CUDA devices here, numbered from 0") as refusal:
        pick_device("cuda:2")
    assert refusal.value.option == "device"


def test_gpus_that_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert pick_device("auto") == torch.device("cpu")
    for name in ("cuda", "cuda:1", "mps"):
        with pytest.raises(OptionError, match=f"device {name}: PyTorch finds no"):
            pick_device(name)
