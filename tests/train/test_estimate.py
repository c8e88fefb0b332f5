"""The memory estimate against what a step of the same settings really holds, tensor by tensor, and the 26B's."""

import dataclasses
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from models.test_describe import PUBLISHED
from oracle import Shape, random_model
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from gesso.config import LoraConfig
from gesso.models.adapters import attach
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.models.loading import load_folder
from gesso.models.quantization.convert import quantize_folder
from gesso.models.quantization.plan import QLORA, Quantization
from gesso.models.saving import save_folder
from gesso.nn.grouped_products import GROUP_ROWS
from gesso.nn.quant.integer import Int4, Int8
from gesso.train.attention import CPU_NUMBERS, NUMBERS
from gesso.train.batch import Conversation, make_batch
from gesso.train.config import TrainConfig
from gesso.train.estimate import Estimate, Workload, estimate
from gesso.train.estimate_parts import PROBABILITY_BYTES, probability_bytes
from gesso.train.optimizer import make_optimizer
from gesso.train.step import freeze_denoiser
from gesso.train.two_pass import losses

SHAPE = Shape(layers="ssfssf", vocab=1024, hidden=96, mlp=192, heads=4, window=32, canvas=32, experts=8, expert_size=64)
PROMPT, EXAMPLES = 64, 16
PACKED = Quantization(Int8(), Int4(32), Int8())
"""Of a checkpoint that was packed before."""


class Held(TorchDispatchMode):
    """Counts the bytes of tensors that are alive."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: dict[int, int] = {}
        self.now = self.most = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(out):
            if isinstance(leaf, torch.Tensor):
                self.count(leaf)
        return out

    def count(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        key, size = storage._cdata, storage.nbytes()
        if key not in self.sizes and size:
            self.sizes[key] = size
            self.now += size
            self.most = max(self.most, self.now)
            weakref.finalize(storage, self.forget, key)

    def forget(self, key: int) -> None:
        self.now -= self.sizes.pop(key, 0)


def start(folder: Path, mode: str) -> DiffusionGemma:
    save_folder(random_model(SHAPE), folder)
    if mode == "packed":
        quantize_folder(folder, folder / "packed", PACKED)
        folder /= "packed"
    model = load_folder(folder, "cpu", "float32", quantize="nf4" if mode == "qlora" else None)
    if mode == "full":
        return model.train().requires_grad_(True)
    attach(model, LoraConfig())
    return model.train()


def measured(folder: Path, mode: str, checkpointing: bool, canvases: bool = True) -> int:
    """Bytes at the peak of the second step, when the optimiser has its state."""
    generator = torch.Generator().manual_seed(0)
    rows = torch.randint(SHAPE.vocab, (EXAMPLES, PROMPT + 31), generator=generator).tolist()
    batch = make_batch(
        [Conversation(row[:PROMPT], row[PROMPT:]) for row in rows],
        TrainConfig(steps=1),
        canvas_length=32,
        vocab_size=SHAPE.vocab,
        eos_token_id=1,
        generator=generator,
    )
    model, held = start(folder, mode), Held()
    if not canvases:
        freeze_denoiser(model)
    optimizer = make_optimizer(model, TrainConfig(steps=1))
    with held:
        for tensor in (*model.parameters(), *model.buffers()):
            held.count(tensor)
        for _ in range(2):
            optimizer.zero_grad(set_to_none=True)
            found = losses(model, batch, checkpointing=checkpointing, denoiser=canvases)
            (found.denoiser + found.encoder).backward()
            optimizer.step()
    return held.most


@pytest.mark.parametrize(
    ("mode", "checkpointing"),
    [("full", False), ("full", True), ("lora", False), ("qlora", True), ("packed", False), ("packed", True)],
)
def test_the_estimate_is_near_what_is_held(tmp_path: Path, mode: str, checkpointing: bool) -> None:
    found = estimate(
        SHAPE.config(),
        Workload(EXAMPLES, PROMPT + 31, 31, 32, gradient_checkpointing=checkpointing),
        dtype=torch.float32,
        adapter=None if mode == "full" else LoraConfig(),
        quantize={"qlora": QLORA, "packed": PACKED}.get(mode),
    )
    assert found.total == pytest.approx(measured(tmp_path, mode, checkpointing), rel=0.15)


@pytest.mark.parametrize(("mode", "checkpointing"), [("full", True), ("lora", False)])
def test_without_canvases_it_is_as_near(tmp_path: Path, mode: str, checkpointing: bool) -> None:
    found = estimate(
        SHAPE.config(),
        Workload(EXAMPLES, PROMPT + 31, 31, 32, gradient_checkpointing=checkpointing, canvases=False),
        dtype=torch.float32,
        adapter=None if mode == "full" else LoraConfig(),
    )
    assert found.total == pytest.approx(measured(tmp_path, mode, checkpointing, canvases=False), rel=0.15)


def test_four_bits_checkpointing_and_fewer_examples_take_less() -> None:
    def total(examples: int = 8, quantize: Any = None, **changes: Any) -> int:
        work = Workload(examples, 95, 31, 32, **changes)
        settings = {"dtype": torch.float32, "adapter": LoraConfig(), "quantize": quantize}
        return estimate(SHAPE.config(), work, **settings).total

    assert total(quantize=QLORA) < total()
    assert total(gradient_checkpointing=True) < total()
    assert total(4) < total(8) < total(8, canvases_per_example=2)


def test_the_26b_fits_a_24_gb_card() -> None:
    """QLoRA, one example of 1,024 tokens; without 4-bit experts it would not."""
    settings: dict[str, Any] = {"dtype": torch.bfloat16, "adapter": LoraConfig()}
    work = Workload(1, 1024, 1024, 256, gradient_checkpointing=True, device_type="cuda", grouped=True)
    four = estimate(PUBLISHED, work, quantize=QLORA, **settings)
    assert four.total < 24e9
    assert four.workspace > 2 * 128 * 2 * 704 * 2816, "all experts of a layer are read back at once"
    assert four.weights == pytest.approx(24.5e9 * 4.25 / 8 + 2 * 0.74e9, rel=0.02)
    assert four.adapter < 0.1e9


EXPERTS = 16
FEW = dataclasses.replace(PUBLISHED, num_experts=EXPERTS)
"""The published shape with an eighth of its experts: each is counted by itself."""


def few(*, adapter: bool = True, quantize: Quantization | None = None, **changes: Any) -> Estimate:
    """Of one example of 1,024 tokens on a GPU."""
    work = Workload(1, 1024, 1024, 256, device_type="cuda", **changes)
    return estimate(FEW, work, dtype=torch.bfloat16, adapter=LoraConfig() if adapter else None, quantize=quantize)


def test_rows_that_fill_groups_up_are_kept_too() -> None:
    """16 rows more for each of the experts, in 30 layers and both passes; gates keep halves, mixtures all rows."""

    def more(**changes: Any) -> int:
        return few(grouped=True, **changes).activations - few(**changes).activations

    def beyond(tokens: int) -> int:
        choices, width = 8 * tokens, 704
        rows = choices + EXPERTS * GROUP_ROWS
        return 30 * 2 * (2 * width * rows + 2816 * rows - 3 * width * choices - 2816 * choices)

    assert more() == pytest.approx(beyond(1024) + beyond(256), rel=0.05)
    assert more(canvases=False) == pytest.approx(beyond(1024), rel=0.05)


def test_where_experts_are_not_grouped_one_matrix_is_read_back() -> None:
    every = EXPERTS * 2 * 704 * 2816
    grouped, alone = (few(quantize=QLORA, grouped=grouped).workspace for grouped in (True, False))
    assert grouped > 2 * every
    assert grouped - alone > 0.5 * 2 * every
    assert few(quantize=QLORA, grouped=True, expert_parallel=2).workspace < grouped


def test_trained_experts_are_copied_in_each_pass() -> None:
    experts = 30 * EXPERTS * 3 * 704 * 2816
    both, one = (few(adapter=False, canvases=canvases).weights for canvases in (True, False))
    assert both - one == 2 * experts
    one_layer = few(adapter=False, gradient_checkpointing=True).weights
    assert both - one_layer == 2 * (2 * experts - experts // 30), "a layer's are gone when it is done"


def test_a_process_of_several_holds_its_part_of_each_sequence() -> None:
    kept = []
    for size in (1, 2, 4):
        work = Workload(2, 400, 400, 64, context_parallel=size, gradient_checkpointing=size == 4)
        assert (work.processes, work.own_tokens, work.own_width) == (size, 400 // size, 64 // size)
        kept.append(estimate(SHAPE.config(), work, dtype=torch.float32, adapter=LoraConfig()))
    whole, half, quarter = kept
    assert 0.4 < half.activations / whole.activations < 0.9  # keys and values are gathered, all else is half
    assert quarter.activations < half.activations
    assert half.weights < 0.6 * whole.weights
    assert (whole.gathered, half.gathered > 0) == (0, True)


@pytest.mark.parametrize(("width", "grouped"), [(704, True), (700, False)])
def test_experts_whose_rows_are_not_aligned_count_no_groups(width: int, grouped: bool) -> None:
    """They are multiplied one by one on any GPU."""
    config = dataclasses.replace(FEW, layers=FEW.layers[:2], moe_intermediate_size=width)
    alone, together = (
        estimate(config, Workload(1, 1024, 256, 256, device_type="cuda", grouped=way), dtype=torch.bfloat16).activations
        for way in (False, True)
    )
    assert (together != alone) == grouped


def test_probabilities_that_no_kernel_does_without_are_counted() -> None:
    most = PROBABILITY_BYTES * NUMBERS
    for work, counted in (
        (Workload(1, 1024, 256, 256, device_type="cuda"), 0),
        (Workload(1, 4096, 256, 256, device_type="cuda"), most),
        (Workload(1, 4096, 256, 256, device_type="cuda", canvases=False), 0),
        (Workload(1, 1024, 256, 256, device_type="cuda", context_parallel=2), PROBABILITY_BYTES * 512 * 16 * 1024),
        (Workload(1, 1024, 256, 256), PROBABILITY_BYTES * CPU_NUMBERS),
    ):
        assert probability_bytes(PUBLISHED, work) == counted, work
