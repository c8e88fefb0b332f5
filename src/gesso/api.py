"""Loads models and engines by name: a bundled model, a folder, or a Hugging Face id."""

import warnings
from collections.abc import Callable
from pathlib import Path

import torch

from gesso.engine.constraint import TABLE_BYTES
from gesso.engine.engine import Engine
from gesso.errors import OptionError
from gesso.models.adapter_files import load_adapter
from gesso.models.adapters import merge_if_possible
from gesso.models.device import pick_device
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.models.dtype import dtype_name
from gesso.models.family import family_of, load_family, only_diffusion_gemma, read_defaults
from gesso.models.hub import resolve
from gesso.models.loading import load_folder
from gesso.models.other_base import OtherBaseWarning, other_base
from gesso.models.vision_loading import has_vision, load_vision
from gesso.models.vision_tower import VisionModel
from gesso.nn.cpu_threads import decide
from gesso.options import Function, Integer, Switch
from gesso.options.paths import checked_path
from gesso.options.sizes import size_in_bytes
from gesso.runner.distributed_runner import DistributedRunner
from gesso.runner.model_runner import ModelRunner
from gesso.runner.offload import offload_request
from gesso.runner.pipeline_runner import PipelineRunner
from gesso.text.chat_template import ChatTemplate
from gesso.text.tokenizer import TokenIds, Tokenizer


def load_model(
    path: str | Path, device: str | torch.device = "auto", dtype: str | torch.dtype = "auto", *, offline: bool = False
) -> DiffusionGemma:
    """Loads the text model of a checkpoint.

    Args:
        path: a bundled name such as `mini`, a folder, or a Hugging Face id (downloaded unless `offline`).
        device: `auto`, `cpu`, `cuda`, `mps`, or any device PyTorch knows.
        dtype: `auto`, `float32`, `bfloat16` or `float16`, by name or as PyTorch's.

    Raises:
        HubError: the model is not here and cannot be fetched.
        CheckpointError: its files cannot be used; the message names what does not fit.
    """
    return load_folder(_folder_of(path, offline=offline), str(device), dtype_name(dtype))


def load(
    path: str | Path,
    device: str | torch.device = "auto",
    dtype: str | torch.dtype = "auto",
    *,
    offline: bool = False,
    adapter: str | Path | None = None,
    cuda_graphs: bool | None = None,
    tensor_parallel: int = 1,
    pipeline_parallel: int = 1,
    device_memory: int | str | None = None,
    threads: int | None = None,
    tell: Callable[[str], None] | None = None,
) -> Engine:
    """Loads an engine: the model with its tokenizer, chat template and defaults. See `load_model`.

    Args:
        adapter: folder of a LoRA adapter in PEFT's format, which is merged into the weights; one with a delta for the
            encoder and another for the decoder stays beside them. One that was trained on other weights is warned of.
        cuda_graphs: capture passes, denoising steps or tokens, once and replay them: with CUDA and Triton, or CUDA of
            capability 9 or 10 and experts in bfloat16. Without it where that can be.
        tensor_parallel: ranks that compute the model together, each on a GPU of its own or all on the CPU; the others
            are processes that end with this one.
        pipeline_parallel: stages that the model is split into by its layers, for devices with a slow link between them;
            processes as with `tensor_parallel`.
        device_memory: bytes of a GPU that may be used, or a size such as `8GB`; what is free without it. Where the
            weights do not fit, experts of some layers stream from host memory in every pass. CUDA.
        threads: CPU threads of this process, for all its models; without it one for each performance core, or what
            `OMP_NUM_THREADS` says.
        tell: is told in one line what will stream, and what a pass will cost by the measured link, before weights are
            read; nothing where all of them fit.

    Raises:
        OptionError: `cuda_graphs` where passes cannot be captured; `device_memory` without CUDA, more of it than is
            free, or too little for what cannot stream; `adapter` or `cuda_graphs` where experts would stream; a model
            that cannot be cut into so many parts; or `tensor_parallel` or `pipeline_parallel` beside each other,
            `cuda_graphs` or `device_memory`.

    Without a `tokenizer.json` the engine takes token ids only, and its texts are ids in angle brackets.
    """
    for name, ranks in (("tensor_parallel", tensor_parallel), ("pipeline_parallel", pipeline_parallel)):
        Integer(minimum=1).check(name, ranks)
    decide(threads)
    given = {
        "adapter": adapter is not None,
        "cuda_graphs": bool(cuda_graphs),
        "tensor_parallel": tensor_parallel > 1,
        "pipeline_parallel": pipeline_parallel > 1,
        "device_memory": device_memory is not None,
    }
    if tell is not None:
        Function().check("tell", tell)
    device, dtype = str(device), dtype_name(dtype)
    folder = _folder_of(path, offline=offline)
    family = family_of(folder)
    tokenizer = Tokenizer.from_folder(folder) if (folder / "tokenizer.json").exists() else TokenIds()
    template = ChatTemplate.from_folder(folder)
    merged = None if adapter is None else checked_path("adapter", adapter)
    runner: ModelRunner
    if family is not None:
        for name in (name for name, wanted in given.items() if wanted):
            only_diffusion_gemma(None, name, name)
        runner = ModelRunner(load_family(folder, family, device, dtype))
    elif given["tensor_parallel"] or given["pipeline_parallel"]:
        kind = DistributedRunner if given["tensor_parallel"] else PipelineRunner
        for name in ("cuda_graphs", "device_memory", "pipeline_parallel"):
            if given[name] and name != kind.option:
                raise OptionError(f"{name} and {kind.option} do not go together", option=name)
        ranks = max(tensor_parallel, pipeline_parallel)
        runner = kind.start(folder, dtype, device, ranks, _load_tower(folder, device, dtype), merged)
    else:
        needs_all = [name for name in ("adapter", "cuda_graphs") if given[name]]
        offload = offload_request(pick_device(device), _bytes_of(device_memory), TABLE_BYTES, needs_all, tell)
        model = load_folder(folder, device, dtype, offload=offload)
        if merged is not None:
            load_adapter(model, merged)
            merge_if_possible(model)
        runner = ModelRunner.of(model, cuda_graphs=cuda_graphs, vision=_load_tower(folder, device, dtype))
    if merged is not None and (told := other_base(merged, str(path))):
        warnings.warn(told, OtherBaseWarning, stacklevel=2)
    return Engine(runner, tokenizer, template, read_defaults(folder, runner.config), name=str(path))


def _folder_of(path: object, *, offline: bool) -> Path:
    """Finds a model by its name or folder.

    Raises:
        OptionError: it is neither a text nor a path.
        HubError: there is no such model here.
    """
    if not isinstance(path, str | Path):
        raise OptionError(f"path must be a name or a folder of a model, got {path!r:.60}", option="path")
    Switch().check("offline", offline)
    return resolve(str(path), offline=offline)


def _bytes_of(device_memory: int | str | None) -> int | None:
    limit = size_in_bytes(device_memory, "device_memory") if isinstance(device_memory, str) else device_memory
    if limit is not None and limit < 1:
        raise OptionError(f"device_memory must be at least 1 byte, got {limit}", option="device_memory")
    return limit


def _load_tower(folder: Path, device: str, dtype: str) -> VisionModel | None:
    """Loads what makes embeddings of images, where the checkpoint has it."""
    # On a CPU the tower of a large model is memory, and seconds of loading, that most prompts have no use for.
    deferred = pick_device(device).type == "cpu"
    return load_vision(folder, device, dtype, deferred=deferred) if has_vision(folder) else None
