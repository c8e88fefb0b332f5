"""Loads models and engines by name: a bundled model, a folder, or a Hugging Face id."""

from pathlib import Path

from gesso.engine.engine import Engine
from gesso.errors import OptionError
from gesso.models.adapter_files import load_adapter
from gesso.models.adapters import merge
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.models.hub import resolve
from gesso.models.loading import load_folder, pick_device, read_generation_defaults
from gesso.models.vision_loading import has_vision, load_vision
from gesso.runner.distributed_runner import DistributedRunner
from gesso.text.chat_template import ChatTemplate
from gesso.text.tokenizer import TokenIds, Tokenizer


def load_model(path: str | Path, device: str = "auto", dtype: str = "auto", *, offline: bool = False) -> DiffusionGemma:
    """Loads the text model of a checkpoint.

    Args:
        path: a bundled name such as `mini`, a folder, or a Hugging Face id (downloaded unless `offline`).
        device: `auto`, `cpu`, `cuda`, `mps`, or any device PyTorch knows.
        dtype: `auto`, `float32`, `bfloat16` or `float16`.

    Raises:
        HubError: the model is not here and cannot be fetched.
        CheckpointError: its files cannot be used; the message names what does not fit.
    """
    return load_folder(resolve(str(path), offline=offline), device, dtype)


def load(
    path: str | Path,
    device: str = "auto",
    dtype: str = "auto",
    *,
    offline: bool = False,
    adapter: str | Path | None = None,
    cuda_graphs: bool = False,
    tensor_parallel: int = 1,
) -> Engine:
    """Loads an engine: the model with its tokenizer, chat template and defaults. See `load_model`.

    Args:
        adapter: folder of a LoRA adapter in PEFT's format, which is merged into the weights.
        cuda_graphs: capture the denoising pass of each canvas once and replay it. CUDA; bfloat16 or packed experts.
        tensor_parallel: ranks that compute the model together, each on a GPU of its own or all on the CPU; the others
            are processes that end with this one.

    Raises:
        OptionError: `cuda_graphs` where passes cannot be captured; a model that cannot be cut into so many parts, or
            `tensor_parallel` beside `cuda_graphs`.

    Without a `tokenizer.json` the engine takes token ids only, and its texts are ids in angle brackets.
    """
    folder = resolve(str(path), offline=offline)
    tokenizer = Tokenizer.from_folder(folder) if (folder / "tokenizer.json").exists() else TokenIds()
    template = ChatTemplate.from_folder(folder)
    # On a CPU the tower of a large model is memory, and seconds of loading, that most prompts have no use for.
    deferred = pick_device(device).type == "cpu"
    vision = load_vision(folder, device, dtype, deferred=deferred) if has_vision(folder) else None
    if tensor_parallel > 1:
        if cuda_graphs:
            raise OptionError("cuda_graphs and tensor_parallel do not go together", option="cuda_graphs")
        merged = None if adapter is None else Path(adapter)
        runner = DistributedRunner.start(folder, dtype, device, tensor_parallel, vision, merged)
        defaults = read_generation_defaults(folder, runner.config)
        return Engine(runner, tokenizer, template, defaults, name=str(path))
    model = load_folder(folder, device, dtype)
    if adapter is not None:
        load_adapter(model, Path(adapter))
        merge(model)
    defaults = read_generation_defaults(folder, model.config)
    return Engine(model, tokenizer, template, defaults, name=str(path), cuda_graphs=cuda_graphs, vision=vision)
