"""QLoRA on the published 26B shape with random weights: peak memory beside the estimate, and seconds a step.

    python benchmarks/gpu/qlora.py [--layers 30] [--tokens 1024] [--steps 5] [--device cuda] [--json]

Nothing is downloaded: 4-bit weights are drawn on the device. With fewer layers it runs on smaller cards, and with
`--device cpu --layers 1 --small` anywhere, to see that it works. The last line is one line of JSON.
"""

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

from gesso.config import LayerConfig, LoraConfig, ModelConfig, RopeConfig
from gesso.models.adapters import attach
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.models.quantization.plan import QLORA, replace_layers
from gesso.nn.grouped_products import device_groups
from gesso.train.batch import Conversation, make_batch
from gesso.train.config import TrainConfig
from gesso.train.estimate import Workload, estimate
from gesso.train.optimizer import make_optimizer, set_rate, trainable
from gesso.train.two_pass import losses

SLIDING = LayerConfig("sliding_attention", head_dim=256, num_key_value_heads=8)
FULL = LayerConfig("full_attention", head_dim=512, num_key_value_heads=2)


def config(layers: int, *, small: bool) -> ModelConfig:
    """The published shape with so many layers, or a small one of the same kind."""
    kinds = tuple(FULL if i % 6 == 5 else SLIDING for i in range(layers))
    return ModelConfig(
        vocab_size=4096 if small else 262_144,
        hidden_size=256 if small else 2816,
        intermediate_size=192 if small else 2112,
        num_attention_heads=16,
        layers=kinds,
        num_experts=8 if small else 128,
        top_k_experts=8,
        moe_intermediate_size=64 if small else 704,
        sliding_window=1024,
        sliding_rope=RopeConfig("default", 10_000.0),
        full_rope=RopeConfig("proportional", 1_000_000.0, 0.25),
        canvas_length=256,
    )


def random_model(shape: ModelConfig, device: torch.device) -> DiffusionGemma:
    """4-bit layers of random codes, everything else random in bf16; made on the device."""
    with torch.device("meta"):
        model = DiffusionGemma(shape).to(torch.bfloat16)
        replace_layers(model, QLORA)
    model.to_empty(device=device)
    with torch.no_grad():
        for name, tensor in (*model.named_parameters(), *model.named_buffers()):
            if tensor.dtype == torch.uint8:
                tensor.random_(0, 256)
            elif name.endswith("scales"):
                tensor.fill_(0.05)
            elif tensor.dim() == 1:
                tensor.fill_(1.0)
            else:
                tensor.normal_(0.0, 0.02)
    return model


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    device = torch.device(arguments.device)
    shape, adapter = config(arguments.layers, small=arguments.small), LoraConfig()
    answer = min(256, arguments.tokens // 2)
    grouped = device.type == "cuda" and device_groups(device)
    work = Workload(
        1, arguments.tokens, answer, 256, gradient_checkpointing=True, device_type=device.type, grouped=grouped
    )
    expected = estimate(shape, work, dtype=torch.bfloat16, adapter=adapter, quantize=QLORA)
    model = random_model(shape, device)
    attach(model, adapter)
    model.train()
    optimizer = make_optimizer(model, TrainConfig(steps=1))
    set_rate(optimizer, 1e-4)
    seconds = []
    for step in range(arguments.steps + 1):
        generator = torch.Generator().manual_seed(step)
        ids = torch.randint(2, shape.vocab_size - 8, (arguments.tokens,), generator=generator).tolist()
        batch = make_batch(
            [Conversation(ids[:-answer], ids[-answer:])],
            TrainConfig(steps=1, self_conditioning_probability=1.0),
            canvas_length=256,
            vocab_size=shape.vocab_size,
            eos_token_id=1,
            generator=generator,
        ).to(device)
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            loss = losses(model, batch, checkpointing=True)
        (loss.denoiser + loss.encoder).backward()
        optimizer.step()
        if device.type == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begin)
        print(f"step {step}: {seconds[-1]:.2f} s", file=sys.stderr, flush=True)
    peak = torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None
    step_s = statistics.median(seconds[1:])
    return {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "layers": arguments.layers,
        "tokens": arguments.tokens,
        "trainable": sum(p.numel() for _, p in trainable(model)),
        "step_s": step_s,
        "tokens_per_s": (arguments.tokens + 256) / step_s,
        "estimate_gb": expected.total / 1e9,
        "peak_gb": None if peak is None else peak / 1e9,
        "estimate_over_peak": None if peak is None else expected.total / peak,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=30)
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--small", action="store_true", help="narrow layers and a small vocabulary")
    parser.add_argument("--json", action="store_true", help="the JSON line alone")
    arguments = parser.parse_args()
    if min(arguments.layers, arguments.steps) < 1 or arguments.tokens < 32:
        parser.error("--layers and --steps must be at least 1, --tokens at least 32")
    found = run(arguments)
    if not arguments.json:
        for name, value in found.items():
            print(f"{name:20} {value}")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
