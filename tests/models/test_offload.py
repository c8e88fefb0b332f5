"""Models that do not fit a device: what stays, what streams, and that nothing of what they compute changes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from engine.tiny import make_tiny_folder
from nn.slow_store import SlowStore
from oracle import Shape, random_model
from torch import Tensor

from gesso import load
from gesso.engine.engine import Engine
from gesso.errors import OptionError
from gesso.generation import GenerationConfig
from gesso.models.cache import cache_bytes
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.models.loading import load_folder, plan_folder_offload
from gesso.models.offload import Offload
from gesso.models.quantization.convert import quantize_folder
from gesso.models.quantization.plan import Quantization
from gesso.models.saving import save_folder
from gesso.nn.quant.integer import Int4
from gesso.runner import offload as request
from gesso.runner.offload import offload_request
from gesso.text.tokenizer import TokenIds

WORKING = 10_000
FORMS = {"whole": None, "packed": Quantization(experts=Int4(64))}


@dataclass(frozen=True)
class Case:
    """A checkpoint of six layers, and what it computes and takes whole."""

    folder: Path
    plain: DiffusionGemma
    outputs: list[Tensor]

    @property
    def layer(self) -> int:
        """Bytes of a layer's experts."""
        tensors = self.plain.get_submodule("layers.0.experts").state_dict().values()
        return sum(tensor.nbytes for tensor in tensors)

    @property
    def whole(self) -> int:
        return sum(tensor.nbytes for tensor in self.plain.state_dict().values())

    def memory(self, resident: int) -> int:
        """What just lets the experts of so many layers stay."""
        config = self.plain.config
        cache = cache_bytes(config, torch.float32, min(8192, config.max_position_embeddings), 512)
        return self.whole - (6 - resident - 2) * self.layer + cache + WORKING


@pytest.fixture(scope="module", params=FORMS)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    place = tmp_path_factory.mktemp("offload")
    folder = place / "whole"
    shape = Shape("sfsfsf", hidden=64, mlp=64, head_dim=16, full_head_dim=32, expert_size=64)
    save_folder(random_model(shape), folder)
    if (chosen := FORMS[request.param]) is not None:
        quantize_folder(place / "whole", place / "packed", chosen)
        folder = place / "packed"
    plain = load_folder(folder, "cpu", "float32")
    return Case(folder, plain, outputs(plain))


def outputs(model: DiffusionGemma) -> list[Tensor]:
    cache = model.new_cache(1)
    encoded = model.encode(torch.arange(11)[None], cache)
    return [encoded, *(model.denoise(torch.arange(16)[None] * 3 + step, cache) for step in range(2))]


def offloaded(case: Case, memory: int, **options: Any) -> tuple[DiffusionGemma, SlowStore]:
    store = SlowStore()
    return load_folder(case.folder, "cpu", "float32", offload=Offload(memory, WORKING, store, **options)), store


@pytest.mark.parametrize("resident", [0, 3])
def test_outputs_are_equal_bit_by_bit(case: Case, resident: int) -> None:
    told: list[str] = []
    memory = case.memory(resident)
    model, store = offloaded(case, memory, tell=told.append)
    assert all(torch.equal(one, other) for one, other in zip(outputs(model), case.outputs, strict=True))
    plan = model.offload
    assert plan is not None
    assert store.bytes == plan.staged == 2 * case.layer  # two layers at most
    assert plan.streamed == (6 - resident) * case.layer
    assert len(set(plan.layers)) == 6 - resident
    assert plan.resident + plan.staged + plan.working + plan.cache == plan.device_memory == memory
    assert plan.resident == case.whole - plan.streamed
    assert len(store.contents) == 3 * (6 - resident) + 1  # three passes, and one copy ahead
    assert f"the experts of {6 - resident} of 6 layers" in told[0]
    assert f"a pass takes {plan.streamed / 2e6:.2f} s at least, at 0.0 GB/s (measured)" in told[0]
    assert plan_folder_offload(case.folder, "cpu", "float32", memory, WORKING) == plan
    assert "the link was not measured" in plan.sentence(None)


def test_what_fits_stays(case: Case) -> None:
    model, store = offloaded(case, case.memory(4), needs_all=("adapter",))
    assert model.offload is None
    assert (store.places, store.events) == ([], [])


def test_what_cannot_be_is_refused(case: Case) -> None:
    least = case.memory(0)
    with pytest.raises(OptionError, match=r"MB of device memory are too few: all but the experts, two layers' experts"):
        offloaded(case, least - 1)
    with pytest.raises(OptionError, match="cuda_graphs needs all weights on the device, and the experts of 6 of 6"):
        offloaded(case, least, needs_all=("cuda_graphs",))


def test_answers_are_the_same_and_the_runner_knows_what_is_left(case: Case) -> None:
    def engine(model: DiffusionGemma) -> Engine:
        return Engine(model, TokenIds(), None, GenerationConfig(eos_token_ids=(1,), pad_token_id=0))

    model, _ = offloaded(case, case.memory(2))
    streaming, plain = engine(model), engine(case.plain)
    for mode in "canvas", "ar":
        options = {"mode": mode, "max_new_tokens": 6, "seed": 4, "max_denoising_steps": 2}
        assert streaming.generate([5, 9, 31], **options).token_ids == plain.generate([5, 9, 31], **options).token_ids
    assert model.offload is not None
    assert streaming.runner.kv_memory(123) == model.offload.cache
    with pytest.raises(OptionError, match="adapters need all weights on the device"):
        streaming.runner.load_adapters({"one": case.folder})


def test_device_memory_is_of_cuda(tmp_path: Path) -> None:
    folder = make_tiny_folder(tmp_path / "tiny")
    for size, message in ("8GB", "needs CUDA: on cpu"), (0, "at least 1 byte"), ("much", "takes a size such as 4GiB"):
        with pytest.raises(OptionError, match=message):
            load(folder, "cpu", device_memory=size)


def test_the_device_is_asked_what_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    def made(device: torch.device) -> SlowStore:
        return SlowStore()

    monkeypatch.setattr(request, "CudaStore", made)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (8 * 10**9, 10 * 10**9))
    cuda = torch.device("cuda")
    free, bounded = (offload_request(cuda, memory, 5) for memory in (None, 6 * 10**9))
    assert free is not None
    assert bounded is not None
    assert (free.device_memory, bounded.device_memory) == (8 * 10**9, 6 * 10**9)
    assert free.working == request.working_bytes(5)
    with pytest.raises(OptionError, match=r"9\.00 GB is more than the 8\.00 GB that are free"):
        offload_request(cuda, 9 * 10**9, 5)
    assert offload_request(torch.device("cpu"), None, 5) is None
