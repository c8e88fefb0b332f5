"""Captured passes: a trace stands for a CUDA graph here. Like one, it computes what was captured over the same memory
whatever the host would do now."""

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from oracle import Shape, random_model
from torch import Tensor, nn
from torch._subclasses.fake_tensor import DynamicOutputShapeException, FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from gesso import load
from gesso.config import LoraConfig
from gesso.diffusion.canvas_state import CanvasState
from gesso.engine.canvases import Canvases
from gesso.engine.engine import Engine, Request
from gesso.errors import OptionError
from gesso.generation import GenerationConfig
from gesso.models.adapter_files import save_adapter
from gesso.models.adapters import attach
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.models.quantization.plan import Quantization, replace_layers
from gesso.nn import experts as experts_module
from gesso.nn.experts import Experts
from gesso.nn.quant import base
from gesso.nn.quant.base import Format, dequantize
from gesso.nn.quant.integer import Int8
from gesso.nn.quant.layers import quantized_tensors
from gesso.runner import cuda_graphs
from gesso.runner.cuda_graphs import CudaGraphRunner, Pass, cuda_graph_runner
from gesso.runner.model_runner import ModelRunner
from gesso.runner.protocol import CanvasBatch, CanvasItem, PrefillBatch, PrefillItem
from gesso.text.tokenizer import TokenIds

SHAPE = Shape(layers="sf", vocab=150, window=12, canvas=8)
PROMPT = list(range(3, 20))
OPTIONS = {"max_new_tokens": 24, "ignore_eos": True, "max_denoising_steps": 6, "confidence_threshold": 0.0}


class Tracer:
    """Captures a pass as a trace."""

    def __init__(self) -> None:
        self.captured = self.replayed = 0

    def __call__(self, work: Pass, canvas_N: Tensor, self_conditioning_ND: Tensor) -> tuple[Callable[[], None], Tensor]:
        trace = make_fx(work)(canvas_N, self_conditioning_ND)
        out = torch.zeros_like(self_conditioning_ND)
        self.captured += 1

        def replay() -> None:
            self.replayed += 1
            out.copy_(trace(canvas_N, self_conditioning_ND))

        return replay, out


@pytest.fixture
def in_one_call() -> Iterator[None]:
    """Experts are multiplied in one call, as on a GPU."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(experts_module, "can_group", lambda *_: True)
        yield


def make_engine(tracer: "Tracer | None" = None, model: DiffusionGemma | None = None) -> Engine:
    model = model or random_model(SHAPE)
    runner = ModelRunner(model, None if tracer is None else CudaGraphRunner(model, tracer))
    return Engine(runner, TokenIds(), None, GenerationConfig(eos_token_ids=(1,)))


def tokens_of(engine: Engine, **options: object) -> tuple[int, ...]:
    return engine.generate(PROMPT, **(OPTIONS | options)).token_ids


@pytest.mark.usefixtures("in_one_call")
@pytest.mark.parametrize("seed", [1, 2])
def test_tokens_are_those_of_passes_that_are_run(seed: int) -> None:
    tracer = Tracer()
    plain, engine = make_engine(), make_engine(tracer)
    assert tokens_of(engine, seed=seed) == tokens_of(plain, seed=seed)
    assert tracer.captured == 3, "once for each canvas"
    assert tracer.replayed == 3 * 5 - 1, "all steps but the first of each, and the first that could have been"


@pytest.mark.usefixtures("in_one_call")
def test_a_batch_runs_as_ever() -> None:
    tracer = Tracer()
    plain, engine = make_engine(), make_engine(tracer)
    requests = [{"prompt": PROMPT, **OPTIONS, "seed": seed} for seed in (1, 2)]
    found, expected = (one.generate_batch(requests) for one in (engine, plain))
    assert [result.token_ids for result in found] == [result.token_ids for result in expected]
    assert tracer.captured == 0


@pytest.mark.usefixtures("in_one_call")
def test_other_caches_and_other_weights_are_captured_anew() -> None:
    model, tracer = random_model(SHAPE), Tracer()
    expected = random_model(SHAPE)
    graphs = CudaGraphRunner(model, tracer)
    canvas, soft = torch.arange(8), torch.randn(8, model.config.hidden_size, generator=torch.Generator().manual_seed(1))

    def check(length: int) -> None:
        caches = [one.new_cache(1, 64, 32) for one in (model, expected)]
        for one, cache in zip((model, expected), caches, strict=True):
            one.encode(torch.arange(length)[None] + 2, cache)
        for _ in range(3):
            found = graphs.denoise_flat(canvas, [8], caches[0], soft)
            torch.testing.assert_close(found, expected.denoise_flat(canvas, [8], caches[1], soft))

    check(5)
    assert tracer.captured == 1
    check(7)
    assert tracer.captured == 2
    for one in (model, expected):
        one.norm.weight.data.mul_(2.0)
    graphs.invalidate()
    check(7)
    assert tracer.captured == 3


@pytest.mark.usefixtures("in_one_call")
def test_an_adapter_that_is_put_on_is_captured(tmp_path: Path) -> None:
    made = random_model(SHAPE)
    attach(made, LoraConfig())
    for name, parameter in made.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.3)
    save_adapter(made, LoraConfig(), tmp_path / "one", base="random")
    tracer = Tracer()
    runners = [
        ModelRunner(model := random_model(SHAPE), CudaGraphRunner(model, tracer)),
        ModelRunner(random_model(SHAPE)),
    ]
    said = []
    for runner in runners:
        runner.load_adapters({"one": tmp_path / "one"})
        assert runner.adapters == ("one",)
        cache, state = runner.new_cache(64, 32), new_canvas()
        runner.prefill(PrefillBatch(None, (PrefillItem(0, cache, tuple(range(5))),)))
        entropies = []
        for adapter in (None, None, None, None, "one", "one", "one", None):
            runner.denoise(CanvasBatch(adapter, (CanvasItem(0, cache, state),)))
            entropies.append(state.entropy_C)
        said.append(torch.stack(entropies))
    torch.testing.assert_close(*said)
    assert (tracer.captured, tracer.replayed) == (3, 5), "without it, with it, and without it again"


def new_canvas() -> CanvasState:
    config = GenerationConfig(max_denoising_steps=20, confidence_threshold=0.0)
    return Canvases(config, SHAPE.vocab, 8, 0, None).make(0, 0, 8)


class Addresses(Tracer):
    """A trace that, like a CUDA graph, is wrong once a table that it reads is not where it was."""

    def __init__(self, model: DiffusionGemma) -> None:
        super().__init__()
        self._model = model

    def _tables(self) -> list[int]:
        tables = [table._table for table in self._model.ropes.values()]
        return [0 if table is None else table.data_ptr() for table in tables]

    def __call__(self, work: Pass, canvas_N: Tensor, self_conditioning_ND: Tensor) -> tuple[Callable[[], None], Tensor]:
        replay, out = super().__call__(work, canvas_N, self_conditioning_ND)
        captured = self._tables()

        def checked() -> None:
            assert self._tables() == captured, "a graph reads a table that is gone"
            replay()

        return checked, out


@pytest.mark.usefixtures("in_one_call")
def test_tables_of_positions_stay_where_a_graph_found_them() -> None:
    """One request steps from a graph while another one's prompt goes on to positions that nobody had asked for."""
    model = random_model(SHAPE)
    engine = make_engine(tracer := Addresses(model), model)
    options = {**OPTIONS, "max_denoising_steps": 12, "seed": 1}
    short, long = (
        Request(PROMPT, {**options, "max_new_tokens": 8}),
        Request(PROMPT * 65, {**options, "max_new_tokens": 8}),
    )
    assert len(long.prompt) > 1024
    found = engine.generate_batch([short, long])
    assert tracer.replayed > 8
    assert [result.token_ids for result in found] == [
        result.token_ids for result in make_engine().generate_batch([short, long])
    ]


def _soft(model: DiffusionGemma) -> Tensor:
    return torch.zeros(8, model.config.hidden_size, dtype=model.dtype)


def without_numbers(model: DiffusionGemma) -> None:
    """A pass over tensors that hold nothing."""
    cache = model.new_cache(1, 64, 32)
    model.encode(torch.arange(5)[None], cache)
    with FakeTensorMode(allow_non_fake_inputs=True):
        model.denoise_flat(torch.zeros(8, dtype=torch.int64), [8], cache, _soft(model))


def test_only_experts_one_by_one_ask_the_device_for_numbers() -> None:
    model = random_model(dataclasses.replace(SHAPE, expert_size=16)).to(torch.bfloat16)
    with pytest.raises(DynamicOutputShapeException):
        without_numbers(model)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(experts_module, "can_group", lambda *_: True)
        without_numbers(model)


@pytest.fixture
def packed_in_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Packed weights are multiplied by a stand-in for the kernel, which asks for no numbers either."""

    def multiply(x_MD: Tensor, ends_E: Tensor | None, parts: tuple[Tensor, ...], form: Format) -> Tensor:
        if ends_E is None:
            return x_MD @ dequantize(parts, form, x_MD.dtype).T
        matrices = torch.stack([dequantize(part, form, x_MD.dtype) for part in zip(*parts, strict=True)])
        groups_M = torch.searchsorted(ends_E, torch.arange(len(x_MD), dtype=torch.int32), right=True)
        return (matrices[groups_M] @ x_MD[..., None])[..., 0]

    monkeypatch.setattr(base, "usable", lambda device: device.type != "meta")
    monkeypatch.setattr(base, "multiply_in_kernel", multiply)


def packed_engine(form: Format, tracer: Tracer | None = None) -> Engine:
    engine = make_engine(tracer)
    model = engine.model
    tensors = {f"{name}.weight": one.weight for name, one in model.named_modules() if isinstance(one, nn.Linear)}
    for name, one in model.named_modules():
        if isinstance(one, Experts):
            tensors |= {f"{name}.{key}": tensor for key, tensor in one.named_parameters()}
    replaced = replace_layers(model, Quantization(form, form))
    state = model.state_dict()
    for name, tensor in tensors.items():
        if name.rpartition(".")[0] in replaced:
            state |= quantized_tensors(name, tensor.detach(), form)
    model.load_state_dict(state, assign=True)
    model.requires_grad_(False)
    return engine


@pytest.mark.usefixtures("packed_in_one_call")
def test_packed_layers_are_captured() -> None:
    tracer = Tracer()
    plain, engine = packed_engine(Int8()), packed_engine(Int8(), tracer)
    assert tokens_of(engine, seed=1) == tokens_of(plain, seed=1)
    assert (tracer.captured, tracer.replayed) == (3, 14)


def test_the_first_pass_of_a_width_is_not_captured() -> None:
    seen, replayed = [], []

    def capture(work: Pass, canvas_N: Tensor, self_conditioning_ND: Tensor) -> tuple[Callable[[], None], Tensor]:
        return lambda: replayed.append(len(canvas_N)), torch.zeros_like(self_conditioning_ND)

    def work(canvas_N: Tensor, self_conditioning_ND: Tensor) -> Tensor:
        seen.append(len(canvas_N))
        return self_conditioning_ND

    model: Any = SimpleNamespace(denoise_flat=lambda canvas, widths, cache, soft: work(canvas, soft))
    model.device, model.reference_parameter = torch.device("cpu"), torch.zeros(1)
    graphs, cache = CudaGraphRunner(model, capture), random_model(SHAPE).new_cache(1, 64, 32)
    for width in (8, 8, 4, 8, 4, 4):
        graphs.denoise_flat(torch.zeros(width, dtype=torch.int64), [width], cache, torch.zeros(width, 3))
    assert seen == [8, 4]
    assert replayed == [8, 8, 4, 4]


def test_packed_experts_need_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    model = packed_engine(Int8()).model
    monkeypatch.setattr(DiffusionGemma, "device", torch.device("cuda"))
    with pytest.raises(OptionError, match=r"^cuda_graphs needs experts .* or quantized ones and Triton$"):
        cuda_graph_runner(model)
    monkeypatch.setattr(base, "usable", lambda device: True)
    monkeypatch.setattr(cuda_graphs, "_CudaCapture", lambda device: Tracer())
    assert isinstance(cuda_graph_runner(model), CudaGraphRunner)


def test_it_is_refused_where_there_is_no_cuda() -> None:
    with pytest.raises(OptionError, match=r"^cuda_graphs needs a CUDA device, the model is on cpu"):
        cuda_graph_runner(random_model(SHAPE))
    with pytest.raises(OptionError, match=r"^cuda_graphs"):
        load("mini", device="cpu", cuda_graphs=True)


def test_it_is_refused_where_experts_need_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DiffusionGemma, "device", torch.device("cuda"))
    with pytest.raises(OptionError, match=r"^cuda_graphs needs experts in bfloat16"):
        cuda_graph_runner(random_model(SHAPE))
