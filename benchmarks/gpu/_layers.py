"""Checks and times what a layer computes beside its products, and whole captured passes; see `kernels.py`."""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from gesso.bench.random_weights import random_model
from gesso.config import LayerConfig, ModelConfig
from gesso.models.cache import KVCache
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.models.quantization.plan import Quantization
from gesso.nn import attention as attention_module
from gesso.nn.attention import attend_all, attend_causal
from gesso.nn.experts import Router
from gesso.nn.norm import rms_norm
from gesso.nn.quant.base import Format
from gesso.nn.rope import apply_rope
from gesso.runner.cuda_graphs import CudaGraphRunner, cuda_graph_runner
from gpu._measuring import distance, milliseconds
from gpu.qlora import config

ATTENTION = (
    (torch.bfloat16, "canvas, sliding layer", (256, 16, 8, 256), 1279, 0),
    (torch.bfloat16, "canvas, full layer behind 4,096", (256, 16, 2, 512), 4352, 0),
    (torch.bfloat16, "token, full layer behind 4,096", (1, 16, 2, 512), 4097, 0),
    (torch.bfloat16, "prompt, sliding layer", (2048, 16, 8, 256), 3071, 1024),
    (torch.bfloat16, "prompt, full layer", (2048, 16, 2, 512), 4096, None),
)
SMALL_ATTENTION = (
    (torch.bfloat16, "canvas", (16, 4, 2, 32), 70, 0),
    (torch.bfloat16, "prompt", (40, 4, 1, 64), 90, None),
    (torch.float32, "prompt, window", (40, 4, 2, 16), 90, 12),
)
"""Type, name, (tokens, heads, key heads, head size), keys, and window: 0 for no mask, None for all that came before."""


def attention(
    device: torch.device, dtype: torch.dtype, name: str, sizes: tuple[int, int, int, int], keys: int, window: int | None
) -> dict[str, Any]:
    """Attention of the newest tokens over a row's keys by the kernel, and by PyTorch's: all see all where `window` is
    0, else a prompt's tokens see what came before."""
    tokens, heads, groups, width = sizes
    q = torch.randn(tokens, heads, width, device=device, dtype=dtype) * width**-0.5
    kv = torch.randn(2, groups, keys, width, device=device, dtype=dtype)
    ends = torch.tensor([0, keys], device=device)

    def by_kernel() -> Tensor:
        from gesso.kernels.attention import attend_between  # Triton is not everywhere

        return attend_between(q, kv[0], kv[1], ends, causal=window != 0, window=window or None)

    def plain() -> Tensor:
        if window == 0:
            return attend_all(q, kv[0], kv[1])
        with mock.patch.object(attention_module, "usable", return_value=False):
            return attend_causal(q, kv[0], kv[1], window)

    error = distance(by_kernel(), plain())
    near = 1e-4 if dtype == torch.float32 else 0.02
    told: dict[str, Any] = {"name": f"attention, {name}", "right": error <= near, "errors": {"out": error}}
    if device.type == "cuda":
        seen = tokens * keys if window == 0 else sum(min(keys - i, window or keys) for i in range(tokens))
        told |= {
            "ms": milliseconds(by_kernel, captured=True),
            "plain_ms": milliseconds(plain),
            "bytes": kv.nbytes + 2 * q.nbytes,
            "operations": 4 * seen * heads * width,
        }
    return told


def between_products(device: torch.device, sizes: tuple[int, int, int]) -> dict[str, Any]:
    """All that stands between the products of a layer but its attention, by kernels, and by operations one by one."""
    rows, width, inner = sizes
    router, top_k = Router(width, 16, 8, 1e-6).to(device, torch.bfloat16), 8

    def made(*shape: int) -> Tensor:
        return torch.randn(*shape, device=device, dtype=torch.bfloat16)

    x, one, other, weight, factor, heads = (
        made(rows, width), made(rows, width), made(rows, width), made(width), made(1), made(rows, 16, 256)
    )  # fmt: skip
    turn, halves = (made(rows, 1, 256), made(rows, 1, 256)), made(rows, 2 * inner)
    experts_MD = made(rows * top_k, width)
    slots = torch.randperm(rows * top_k, device=device).view(rows, top_k)
    shares = torch.rand(rows, top_k, device=device)

    def by_kernels() -> list[Tensor]:
        from gesso.kernels import normed  # Triton is not everywhere

        sums = normed.add_norm(x, one, weight, (weight, weight, weight), 1e-6, router.root)
        added = normed.add_branches(x, (one, other), (weight, weight, weight), 1e-6, factor)
        gated = normed.gate(*halves.chunk(2, dim=-1))
        turned = normed.norm_heads(heads, weight[:256], turn, 1e-6)
        return [*sums, added, turned, gated, normed.mix(experts_MD, slots, shares)]

    def plain() -> list[Tensor]:
        total = x + rms_norm(one, weight, 1e-6)
        both = rms_norm(one, weight, 1e-6) + rms_norm(other, weight, 1e-6)
        gate, up = halves.chunk(2, dim=-1)
        rows_NkD = experts_MD[slots.flatten()].view(*slots.shape, -1)
        return [
            total,
            rms_norm(total, weight, 1e-6),
            rms_norm(total, weight, 1e-6),
            rms_norm(total, None, 1e-6) * weight * router.root,
            (x + rms_norm(both, weight, 1e-6)) * factor,
            apply_rope(rms_norm(heads, weight[:256], 1e-6), *turn),
            torch.nn.functional.gelu(gate, approximate="tanh") * up,
            (rows_NkD * shares[..., None].to(rows_NkD.dtype)).float().sum(dim=1).to(x.dtype),
        ]

    error = max(distance(a, b) for a, b in zip(by_kernels(), plain(), strict=True))
    told: dict[str, Any] = {"name": "between products", "right": error <= 0.02, "errors": {"out": error}}
    if device.type == "cuda":
        moved = [x, one, *by_kernels(), x, one, other, heads, halves, experts_MD]
        told |= {
            "ms": milliseconds(by_kernels, captured=True),
            "plain_ms": milliseconds(plain, captured=True),
            "bytes": sum(tensor.nbytes for tensor in moved),
            "operations": 0,
        }
    return told


BESIDE_PLAIN = 0.15
"""Share of the largest number by which six layers may differ from those with PyTorch's attention, in bfloat16: noise of
its last bit alone moves one of them by 0.07, with random weights."""


PROMPT = 2048
"""Tokens that a GPU reads of a prompt in one pass."""


def captured_passes(
    device: torch.device, *, experts: int = 128, profile: bool = False, form: Format | None = None
) -> list[dict[str, Any]]:
    """Time passes of six layers of the published shape: a denoising step and a token of one sequence and of four,
    replayed and run, one that is captured anew, and part of a prompt, which is only run.

    With more than eight experts they are only timed: which of them is the eighth is a matter of the last bit for some
    tokens, whose results then have little to do with each other.

    Args:
        form: of linear layers and experts; None for bfloat16.
    """
    shape = dataclasses.replace(config(6, small=False), num_experts=experts)
    model = random_model(shape, torch.bfloat16, device, Quantization(form, form))
    model.fix_positions(model.config.max_position_embeddings)
    softs = torch.randn(4, 256, model.config.hidden_size, device=device, dtype=torch.bfloat16)
    canvases = torch.randint(2, 1000, (4, 256), device=device)
    kind = f"6 layers, {experts} experts" + (f", {form.kernel}" if form else "")
    graphs, run_again = cuda_graph_runner(model), CudaGraphRunner(model, _run_again)
    assert graphs is not None

    def steps(runner: DiffusionGemma | CudaGraphRunner, cache: KVCache) -> list[Tensor]:
        pairs = zip(canvases, softs, strict=True)
        return [runner.denoise_flat(canvas, [256], cache, soft) for canvas, soft in pairs]

    def tokens(runner: DiffusionGemma | CudaGraphRunner, cache: KVCache) -> list[Tensor]:
        return [runner.encode_flat(canvas[:1], [1], cache) for canvas in canvases]

    def steps_of_four(runner: DiffusionGemma | CudaGraphRunner, cache: KVCache) -> list[Tensor]:
        return [runner.denoise_flat(canvases.flatten(), [256] * 4, cache, softs.flatten(0, 1))]

    def tokens_of_four(runner: DiffusionGemma | CudaGraphRunner, cache: KVCache) -> list[Tensor]:
        return [runner.encode_flat(canvases[:, 0], [1] * 4, cache)]

    kinds = (
        ("step", steps, 1),
        ("token", tokens, 1),
        ("step of four", steps_of_four, 4),
        ("token of four", tokens_of_four, 4),
    )
    found = []
    for name, passes, rows in kinds:
        caches = [model.new_cache(rows, 1024, 512) for _ in range(3)]
        for cache in caches:
            model.encode(torch.arange(2, 514, device=device).expand(rows, -1), cache)
        runners: tuple[DiffusionGemma | CudaGraphRunner, ...] = (graphs, run_again, model)
        for runner, cache in zip(runners, caches, strict=True):
            passes(runner, cache)  # the first pass of a kind is not captured
        mine, same, plain = (passes(runner, cache) for runner, cache in zip(runners, caches, strict=True))
        bits = max(distance(a, b) for a, b in zip(mine, same, strict=True))
        error = max(distance(a, b) for a, b in zip(mine, plain, strict=True))
        if profile:
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as seen:
                passes(graphs, caches[0])
            print(seen.key_averages().table(sort_by="self_cuda_time_total", row_limit=30, max_name_column_width=70))
        found.append(
            {
                "name": f"captured {name}, {kind}",
                "right": bits == 0.0 and (error <= BESIDE_PLAIN or experts > 8),
                "errors": {"beside the same pass run": bits, "beside PyTorch's attention": error},
                "ms": milliseconds(partial(passes, graphs, caches[0])) / len(mine),
                "plain_ms": milliseconds(partial(passes, model, caches[2])) / len(mine),
            }
        )
    return [*found, _captured_anew(model, graphs, kind), _prompt_pass(model, PROMPT, kind, profile=profile)]


def _captured_anew(model: DiffusionGemma, graphs: CudaGraphRunner, kind: str) -> dict[str, Any]:
    """Drops all graphs again and again, as adapters that take turns do, and checks that passes are captured each time,
    to the same bits, and that the device's memory does not grow."""
    cache, canvas = model.new_cache(1, 1024, 512), torch.arange(2, 258, device=model.device)
    model.encode(canvas[None], cache)
    expected, held = graphs.denoise_flat(canvas, [256], cache), list[int]()
    error = 0.0
    for weights in range(8):
        graphs.invalidate(weights)
        for _ in range(3):  # run, captured, replayed
            error = max(error, distance(graphs.denoise_flat(canvas, [256], cache), expected))
        held.append(torch.cuda.memory_reserved(model.device) if model.device.type == "cuda" else 0)
    right = error == 0.0 and held[-1] == held[1]
    return {"name": f"captured anew, {kind}", "right": right, "errors": {"out": error}, "reserved": held}


def _prompt_pass(model: DiffusionGemma, tokens: int, kind: str, *, profile: bool) -> dict[str, Any]:
    """Times the first pass over a prompt of so many tokens, and checks that it is what two passes over its halves make
    of its end."""
    prompt = torch.randint(2, 1000, (tokens,), device=model.device)

    def encode(*parts: Tensor) -> Tensor:
        cache = model.new_cache(1, tokens, tokens)
        return [model.encode_flat(part, [len(part)], cache) for part in parts][-1]

    halves = prompt.chunk(2)
    error = distance(encode(prompt)[-len(halves[1]) :], encode(*halves))
    told: dict[str, Any] = {
        "name": f"prompt of {tokens:,}, {kind}",
        "right": error <= BESIDE_PLAIN or model.config.num_experts > 8,
        "errors": {"beside its halves": error},
    }
    if model.device.type == "cuda":
        if profile:
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as seen:
                encode(prompt)
            print(seen.key_averages().table(sort_by="self_cuda_time_total", row_limit=30, max_name_column_width=70))
        told |= {"ms": milliseconds(partial(encode, prompt)), "bytes": _layer_bytes(model)}
        told["operations"] = 2 * tokens * sum(map(partial(_active_weights, model.config), model.config.layers))
    return told


def _layer_bytes(model: DiffusionGemma) -> int:
    return sum(tensor.nbytes for layer in model.layers for tensor in layer.state_dict().values())


def _active_weights(shape: ModelConfig, layer: LayerConfig) -> int:
    """Counts the weights of a layer that a token is multiplied by."""
    into = shape.intermediate_size + shape.top_k_experts * shape.moe_intermediate_size
    heads = shape.num_attention_heads + layer.num_key_value_heads
    return shape.hidden_size * (3 * into + 2 * layer.head_dim * heads)


def _run_again(work: Callable[..., Tensor], inputs: tuple[Tensor, ...]) -> tuple[Callable[[], None], Tensor]:
    """Captures nothing: what stands for a replay runs the pass."""
    out = work(*inputs)

    def replay() -> None:
        out.copy_(work(*inputs))

    return replay, out
