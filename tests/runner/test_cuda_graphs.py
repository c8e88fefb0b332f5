"""Captured passes: a recording stands for a CUDA graph here. Like one, it computes what was captured over the same
memory whatever the host would do now."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import torch
from oracle import Shape, random_model
from torch import Tensor, nn
from torch._subclasses.fake_tensor import DynamicOutputShapeException, FakeTensorMode

from gesso import load
from gesso.config import LoraConfig
from gesso.diffusion.canvas_state import CanvasState
from gesso.engine.canvases import Canvases
from gesso.engine.engine import Engine, Request
from gesso.errors import CheckpointError, OptionError
from gesso.generation import GenerationConfig
from gesso.models.adapter_files import save_adapter
from gesso.models.adapters import attach
from gesso.models.cache import KVCache
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.models.quantization.plan import Quantization, replace_layers
from gesso.nn import experts as experts_module
from gesso.nn.experts import Experts
from gesso.nn.quant import base
from gesso.nn.quant.base import Format, dequantize
from gesso.nn.quant.integer import Int8
from gesso.nn.quant.layers import quantized_tensors
from gesso.runner import cuda_graphs, model_runner
from gesso.runner.cuda_capture import Capture, Pass
from gesso.runner.cuda_graphs import CudaGraphRunner, cuda_graph_runner
from gesso.runner.model_runner import ModelRunner
from gesso.runner.protocol import CanvasBatch, CanvasItem, PrefillBatch, PrefillItem
from gesso.text.tokenizer import TokenIds
from runner.recorder import Recorder

SHAPE = Shape(layers="sf", vocab=150, window=12, canvas=8)
PROMPT = list(range(3, 20))
OPTIONS = {"max_new_tokens": 24, "ignore_eos": True, "max_denoising_steps": 6, "confidence_threshold": 0.0}


class Tracer:
    """Captures a pass by recording its operations."""

    def __init__(self) -> None:
        self.captured = self.replayed = 0

    def __call__(self, work: Pass, inputs: tuple[Tensor, ...]) -> tuple[Callable[[], None], Tensor]:
        with Recorder() as recorder:
            result = work(*inputs)
        again = recorder.replayed(result)
        out = torch.zeros(len(inputs[0]), SHAPE.hidden)
        self.captured += 1

        def replay() -> None:
            self.replayed += 1
            out.copy_(again())

        return replay, out


def run_again(work: Pass, inputs: tuple[Tensor, ...]) -> tuple[Callable[[], None], Tensor]:
    """Captures nothing: what stands for a replay runs the pass, to the same bits as one that reads places."""
    out = torch.zeros(len(inputs[0]), SHAPE.hidden)

    def replay() -> None:
        out.copy_(work(*inputs))

    return replay, out


class Counter:
    """Counts what would be captured and replayed."""

    def __init__(self) -> None:
        self.captured = self.replayed = 0

    def __call__(self, work: Pass, inputs: tuple[Tensor, ...]) -> tuple[Callable[[], None], Tensor]:
        again, out = run_again(work, inputs)
        self.captured += 1

        def replay() -> None:
            self.replayed += 1
            again()

        return replay, out


@pytest.fixture
def in_one_call() -> Iterator[None]:
    """Experts are multiplied in one call, as on a GPU."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(experts_module, "can_group", lambda *_: True)
        yield


def joined(caches: Sequence[KVCache]) -> KVCache:
    return KVCache([row for cache in caches for row in cache.rows])


def make_engine(tracer: Capture | None = None, model: DiffusionGemma | None = None) -> Engine:
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
    assert tracer.captured == 2, "the first step of a canvas and a further one, once for all canvases"
    assert tracer.replayed == 3 * 6 - 2, "all steps but the first of either kind"


@pytest.mark.usefixtures("in_one_call")
@pytest.mark.parametrize("prompt", [PROMPT, PROMPT[:2]], ids=["past the window", "within it"])
def test_tokens_one_by_one_are_replayed(prompt: list[int]) -> None:
    """Over more tokens than the window has, so that the keys of a sliding layer are moved in their memory."""
    tracer = Tracer()
    plain, engine = make_engine(), make_engine(tracer)
    options = {"ignore_eos": True, "mode": "ar", "max_new_tokens": 40, "seed": 3}
    expected, found = (one.generate(prompt, **options).token_ids for one in (plain, engine))
    assert found == expected
    assert (tracer.captured, tracer.replayed) == (1, 40 - 2), "all but the prompt's pass and the first token's"


@pytest.mark.usefixtures("in_one_call")
def test_the_next_request_finds_the_graphs_of_the_one_before() -> None:
    """Its cache takes the memory of that one's, though its prompt is of another length."""
    plain, engine = make_engine(), make_engine(tracer := Tracer())
    for prompt in (PROMPT, PROMPT[:9], PROMPT * 3):
        expected, found = (one.generate(prompt, **OPTIONS, seed=1).token_ids for one in (plain, engine))
        assert found == expected
    assert (tracer.captured, tracer.replayed) == (2, 3 * 18 - 2)
    many = engine.generate(PROMPT * 70, **OPTIONS, seed=1).token_ids
    assert many == plain.generate(PROMPT * 70, **OPTIONS, seed=1).token_ids
    assert tracer.captured == 4, "a larger cache has other memory"


@pytest.mark.usefixtures("in_one_call")
def test_a_large_cache_is_not_kept_for_the_next_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept stands beside the account of memory."""
    engine = make_engine(Tracer())
    for most, kept in ((1 << 30, True), (1000, False)):
        monkeypatch.setattr(model_runner, "SPARE_BYTES", most)
        engine.generate(PROMPT, **OPTIONS, seed=1)
        assert isinstance(engine.runner, ModelRunner)
        assert (engine.runner._spare is not None) == kept


@pytest.mark.usefixtures("in_one_call")
def test_the_oldest_of_many_graphs_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = 2
    monkeypatch.setattr(cuda_graphs, "KEPT", kept)
    tracer = Tracer()
    model = random_model(SHAPE)
    graphs, cache = CudaGraphRunner(model, tracer), model.new_cache(1, 64, 32)
    model.encode(torch.arange(5)[None] + 2, cache)
    widths = range(4, 4 + kept + 1)
    for width in (*widths, *widths, 5, 4):
        graphs.denoise_flat(torch.arange(width), [width], cache)
    assert tracer.captured == kept + 2, "every width once, and the first again"
    assert tracer.replayed == kept + 3


@pytest.mark.usefixtures("in_one_call")
def test_tokens_past_the_positions_are_refused_by_a_graph_too() -> None:
    model = random_model(SHAPE)
    graphs, cache = CudaGraphRunner(model, Tracer()), model.new_cache(1, 64, 32)
    model.encode(torch.arange(5)[None] + 2, cache)
    most = model.config.max_position_embeddings
    for length in (5, most - 1, most):
        cache.rows[0].length = length
        if length == most:
            with pytest.raises(OptionError, match=f"^{most + 1} tokens are past the model's {most}$"):
                graphs.encode_flat(torch.tensor([3]), [1], cache)
        else:
            graphs.encode_flat(torch.tensor([3]), [1], cache)


@pytest.mark.usefixtures("in_one_call")
@pytest.mark.parametrize("mode", ["canvas", "ar"])
def test_a_batch_is_captured_when_the_same_sequences_come_together_again(mode: str) -> None:
    tracer = Tracer()
    plain, engine = make_engine(), make_engine(tracer)
    options = OPTIONS if mode == "canvas" else {"max_new_tokens": 24, "ignore_eos": True}
    requests = [
        {"prompt": PROMPT[:length], **options, "mode": mode, "seed": seed} for seed, length in ((1, 17), (2, 4), (3, 9))
    ]
    found, expected = (one.generate_batch(requests) for one in (engine, plain))
    assert [result.token_ids for result in found] == [result.token_ids for result in expected]
    # Of a canvas the first step and a further one, once for all canvases; of either kind two passes run.
    assert tracer.captured == (2 if mode == "canvas" else 1)
    assert tracer.replayed >= (18 - 4 if mode == "canvas" else 24 - 3)


@pytest.mark.usefixtures("in_one_call")
def test_sequences_that_come_together_once_are_not_captured() -> None:
    model, counter = random_model(SHAPE), Counter()
    expected = random_model(SHAPE)
    graphs = CudaGraphRunner(model, counter)
    caches = {one: [one.new_cache(1, 64, 32) for _ in range(4)] for one in (model, expected)}
    for one in (model, expected):
        for number, cache in enumerate(caches[one]):
            one.encode(torch.arange(5 + number)[None] + 2, cache)
    rows, drawn = [caches[model][n].rows[0] for n in range(4)], torch.Generator().manual_seed(0)
    # Who comes together, and what that adds to passes captured and replayed.
    told = [
        ((0, 1), 0, 0), ((0, 2), 0, 0), ((1, 2), 0, 0), ((1, 0), 0, 0), ((0, 1, 2), 0, 0), ((3, 1), 0, 0),
        ((0, 1), 1, 1), ((0, 1), 0, 1), ((0, 2), 1, 1),
    ]  # fmt: skip
    for members, captured, replayed in told:
        canvas = torch.randint(2, 100, (8 * len(members),), generator=drawn)
        before = counter.captured, counter.replayed
        mine, theirs = (joined([caches[one][n] for n in members]) for one in (model, expected))
        found = graphs.denoise_flat(canvas, [8] * len(members), mine)
        torch.testing.assert_close(found, expected.denoise_flat(canvas, [8] * len(members), theirs))
        assert all(row.places is None for row in rows)
        assert (counter.captured - before[0], counter.replayed - before[1]) == (captured, replayed)
    assert counter.captured == 2
    graphs.invalidate("other weights")
    graphs.denoise_flat(torch.arange(16), [8, 8], joined(caches[model][:2]))
    assert counter.captured == 2, "of other weights nothing has run yet"


@pytest.mark.usefixtures("in_one_call")
def test_batches_are_forgotten_but_for_the_last_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_graphs, "SEEN", 2)
    model, counter = random_model(SHAPE), Counter()
    graphs, caches = CudaGraphRunner(model, counter), [model.new_cache(1, 64, 32) for _ in range(4)]
    for cache in caches:
        model.encode(torch.arange(5)[None] + 2, cache)
    for members in ((0, 1), (0, 2), (0, 3), (0, 1), (0, 1)):
        graphs.denoise_flat(torch.arange(16), [8, 8], joined([caches[n] for n in members]))
        assert counter.captured == 0 or members == (0, 1)
    assert (counter.captured, counter.replayed) == (1, 1), "the last time alone"


@pytest.mark.usefixtures("in_one_call")
def test_kinds_of_passes_are_forgotten_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_graphs, "WARM", 3)
    model = random_model(SHAPE)
    graphs, cache = CudaGraphRunner(model, Counter()), model.new_cache(1, 64, 32)
    model.encode(torch.arange(5)[None] + 2, cache)
    for width in range(1, 9):
        graphs.denoise_flat(torch.arange(width), [width], cache)
        assert len(graphs._warm) <= 3


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
    graphs.invalidate("other weights")
    check(7)
    assert tracer.captured == 3


@pytest.mark.usefixtures("in_one_call")
def test_an_adapter_that_is_put_on_is_captured(tmp_path: Path) -> None:
    make_adapter(tmp_path / "one", LoraConfig().targets)
    tracer = Tracer()
    runners = [
        ModelRunner(model := random_model(SHAPE), CudaGraphRunner(model, capture)) for capture in (tracer, run_again)
    ]
    said = []
    for runner in runners:
        runner.load_adapters({"one": tmp_path / "one"})
        assert runner.adapters == ("one",)
        cache = runner.new_cache(64, 32)
        runner.prefill(PrefillBatch(None, (PrefillItem(0, cache, tuple(range(5))),)))
        entropies = []
        for adapter in (None, None, None, None, "one", "one", "one", None):
            state = new_canvas()
            runner.denoise(CanvasBatch(adapter, (CanvasItem(0, cache, state),)))
            entropies.append(state.entropy_C)
        said.append(torch.stack(entropies))
    torch.testing.assert_close(*said)
    assert float((said[0][3] - said[0][4]).abs().max()) > 0.1, "the adapter changes something"
    assert (tracer.captured, tracer.replayed) == (3, 6), "without it, with it, and without it again"


def make_adapter(folder: Path, targets: tuple[str, ...]) -> Path:
    """Saves an adapter that changes what it is put on."""
    model, lora = random_model(SHAPE), LoraConfig(targets=targets)
    attach(model, lora)
    drawn = torch.Generator().manual_seed(3)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.3, generator=drawn)
    save_adapter(model, lora, folder, base="random")
    return folder


def entropies(runner: ModelRunner, adapter: str | None, passes: int) -> list[Tensor]:
    """Takes the first step of so many canvases, behind one prompt."""
    cache = runner.new_cache(64, 32)
    runner.prefill(PrefillBatch(None, (PrefillItem(0, cache, tuple(range(5))),)))
    found = []
    for _ in range(passes):
        state = new_canvas()
        runner.denoise(CanvasBatch(adapter, (CanvasItem(0, cache, state),)))
        found.append(state.entropy_C)
    runner.release(cache)
    return found


@pytest.mark.usefixtures("in_one_call")
@pytest.mark.parametrize("needed", [False, True])
def test_passes_with_an_adapter_on_experts_are_not_captured(tmp_path: Path, needed: bool) -> None:
    """They go from expert to expert, which asks the device for numbers: a graph cannot do that."""
    tracer, model = Tracer(), random_model(SHAPE)
    runner = ModelRunner(model, CudaGraphRunner(model, tracer, needed=needed))
    runner.load_adapters({"one": make_adapter(tmp_path / "one", ("layers.*.experts",))})
    base, adapted = entropies(runner, None, 3), entropies(runner, "one", 3)
    assert (tracer.captured, tracer.replayed) == (1, 2), "without the adapter alone"
    torch.testing.assert_close(entropies(runner, None, 3), base)
    assert (tracer.captured, tracer.replayed) == (2, 5), "and again after it"
    assert float((adapted[0] - base[0]).abs().max()) > 0.01


@pytest.mark.usefixtures("in_one_call")
def test_an_adapter_that_cannot_be_loaded_leaves_no_graph_of_the_one_before(tmp_path: Path) -> None:
    """Loading takes the active adapter off, whatever comes of it."""
    model = random_model(SHAPE)
    runner = ModelRunner(model, CudaGraphRunner(model, Tracer()))
    runner.load_adapters({"one": make_adapter(tmp_path / "one", LoraConfig().targets)})
    base, _ = entropies(runner, None, 1), entropies(runner, "one", 3)
    with pytest.raises(CheckpointError):
        runner.load_adapters({"two": tmp_path / "none"})
    torch.testing.assert_close(entropies(runner, None, 1), base)


@pytest.mark.usefixtures("in_one_call")
def test_the_first_pass_with_an_adapter_that_takes_another_ones_name_runs(tmp_path: Path) -> None:
    tracer, model = Tracer(), random_model(SHAPE)
    runner = ModelRunner(model, CudaGraphRunner(model, tracer))
    for name, captured in (("first", 1), ("second", 1)):
        runner.load_adapters({"one": make_adapter(tmp_path / name, LoraConfig().targets)})
        tracer.captured = 0
        entropies(runner, "one", 1)
        assert tracer.captured == 0, "it may need kernels that nobody has asked for yet"
        entropies(runner, "one", 1)
        assert tracer.captured == captured


def new_canvas() -> CanvasState:
    config = GenerationConfig(max_denoising_steps=20, confidence_threshold=0.0)
    return Canvases(config, SHAPE.config(), 8, 0).make(0, (), 8)


class Addresses(Tracer):
    """A recording that, like a CUDA graph, is wrong once a table that it reads is not where it was."""

    def __init__(self, model: DiffusionGemma) -> None:
        super().__init__()
        self._model = model

    def _tables(self) -> list[int]:
        tables = [table._table for table in self._model.ropes.values()]
        return [0 if table is None else table.data_ptr() for table in tables]

    def __call__(self, work: Pass, inputs: tuple[Tensor, ...]) -> tuple[Callable[[], None], Tensor]:
        replay, out = super().__call__(work, inputs)
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
    plain = make_engine(run_again).generate_batch([short, long])
    assert [result.token_ids for result in found] == [result.token_ids for result in plain]


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
    monkeypatch.setattr(base, "place_in_kernel", lambda x_MD, parts, form: x_MD)
    monkeypatch.setattr(base, "multiply_placed", multiply)


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
    assert (tracer.captured, tracer.replayed) == (2, 16)


@pytest.mark.usefixtures("in_one_call")
def test_the_first_pass_of_a_kind_is_not_captured() -> None:
    captured = []

    def capture(work: Pass, inputs: tuple[Tensor, ...]) -> tuple[Callable[[], None], Tensor]:
        captured.append([tuple(given.shape) for given in inputs])
        return run_again(work, inputs)

    model = random_model(SHAPE)
    graphs, cache = CudaGraphRunner(model, capture), model.new_cache(1, 64, 32)
    for width in (8, 8, 4, 8, 4, 4):
        graphs.denoise_flat(torch.zeros(width, dtype=torch.int64), [width], cache, torch.zeros(width, SHAPE.hidden))
    assert captured == [[(8,), (8, SHAPE.hidden)], [(4,), (4, SHAPE.hidden)]]
    for _ in range(3):
        graphs.denoise_flat(torch.zeros(8, dtype=torch.int64), [8], cache)
        graphs.encode_flat(torch.zeros(1, dtype=torch.int64), [1], cache)
    assert captured[2:] == [[(8,)], [(1,)]]


def test_packed_experts_need_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    model = packed_engine(Int8()).model
    monkeypatch.setattr(DiffusionGemma, "device", torch.device("cuda"))
    with pytest.raises(OptionError, match=r"^cuda_graphs needs Triton, or experts in bfloat16"):
        cuda_graph_runner(model)
    monkeypatch.setattr(base, "usable", lambda device: True)
    monkeypatch.setattr(cuda_graphs, "CudaCapture", lambda device: Tracer())
    assert isinstance(cuda_graph_runner(model), CudaGraphRunner)


def test_it_is_refused_where_there_is_no_cuda() -> None:
    with pytest.raises(OptionError, match=r"^cuda_graphs needs a CUDA device, the model is on cpu"):
        cuda_graph_runner(random_model(SHAPE))
    with pytest.raises(OptionError, match=r"^cuda_graphs"):
        load("mini", device="cpu", cuda_graphs=True)


def test_it_is_refused_where_experts_need_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DiffusionGemma, "device", torch.device("cuda"))
    with pytest.raises(OptionError, match=r"^cuda_graphs needs Triton, or experts in bfloat16"):
        cuda_graph_runner(random_model(SHAPE))


def test_without_being_asked_for_it_is_left_out_where_it_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    model = random_model(SHAPE)
    assert ModelRunner.of(model).graphs is None
    monkeypatch.setattr(DiffusionGemma, "device", torch.device("cuda"))
    assert cuda_graph_runner(model, needed=False) is None
    monkeypatch.setattr(cuda_graphs, "can_group", lambda *_: True)
    monkeypatch.setattr(cuda_graphs, "CudaCapture", lambda device: Tracer())
    assert isinstance(cuda_graph_runner(model, needed=False), CudaGraphRunner)
    monkeypatch.setattr(model, "offload", object())
    assert cuda_graph_runner(model, needed=False) is None
    with pytest.raises(OptionError, match="cuda_graphs needs all weights on the device"):
        cuda_graph_runner(model)


@pytest.mark.usefixtures("in_one_call")
def test_a_capture_that_fails_ends_no_answer_that_did_not_ask_for_it(caplog: pytest.LogCaptureFixture) -> None:
    captured = 0

    def capture(work: Pass, inputs: tuple[Tensor, ...]) -> tuple[Callable[[], None], Tensor]:
        nonlocal captured
        captured += 1
        if captured == 2:
            raise torch.OutOfMemoryError("no room for a second graph")
        return run_again(work, inputs)

    model = random_model(SHAPE)
    expected = tokens_of(make_engine(), seed=1)
    graphs = CudaGraphRunner(model, capture, needed=False)
    engine = Engine(ModelRunner(model, graphs), TokenIds(), None, GenerationConfig(eos_token_ids=(1,)))
    assert tokens_of(engine, seed=1) == expected
    one_by_one = {"mode": "ar", "ignore_eos": True, "max_new_tokens": 12, "seed": 1}
    found, run = (one.generate(PROMPT, **one_by_one).token_ids for one in (engine, make_engine()))
    assert found == run
    assert captured == 2
    (record,) = caplog.records
    assert "no room for a second graph" in record.getMessage()
    captured = 1
    with pytest.raises(torch.OutOfMemoryError):
        tokens_of(make_engine(capture), seed=1)
