"""Declares the options of loading a model: of `gesso.load`, and of every command that loads one."""

import re
from dataclasses import dataclass

from gesso.options import checked, option

DEFAULT_MODEL = "mini"
MODEL = "Model"
ADAPTER_NAME = re.compile(r"[A-Za-z0-9._-]+")
"""What an adapter may be served as."""


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """Says which model is loaded, and how.

    Raises:
        OptionError: a value of the wrong type. What does not exist on this machine is refused by the loading itself.
    """

    model: str = option(
        DEFAULT_MODEL,
        "Bundled name, checkpoint folder, GGUF file or Hugging Face id.",
        field=None,
        flag="--* -m",
        group=MODEL,
    )
    adapter: str | None = option(
        None, "Folder of a LoRA adapter, in PEFT's format, to merge in.", field=None, group=MODEL
    )
    device: str = option("auto", "auto, cpu, cuda or mps.", field=None, group=MODEL)
    dtype: str = option("auto", "auto, float32, bfloat16 or float16.", field=None, group=MODEL)
    cuda_graphs: bool | None = option(
        None,
        "Capture passes, denoising steps or tokens, once and replay them. Without either where they can be: CUDA.",
        unset="where passes can be captured",
        field=None,
        flag="--*/--no-*",
        group=MODEL,
    )
    device_memory: str | None = option(
        None,
        "What may be used of the GPU, such as 8GB: experts beyond it stream from host memory in every pass. What is "
        "free without it; CUDA.",
        field=None,
        group=MODEL,
    )
    tensor_parallel: int = option(
        1,
        "Ranks that compute the model together, each on a GPU of its own or on this CPU.",
        minimum=1,
        field=None,
        group=MODEL,
    )
    pipeline_parallel: int = option(
        1,
        "Stages that the model is split into by its layers, each on a GPU of its own or on this CPU.",
        minimum=1,
        field=None,
        group=MODEL,
    )
    threads: int | None = option(
        None,
        "CPU threads. Without it one for each performance core, or what OMP_NUM_THREADS says.",
        minimum=1,
        maximum=1024,
        field=None,
        group=MODEL,
    )
    offline: bool = option(False, "Never download.", field=None, group=MODEL)

    def __post_init__(self) -> None:
        checked(self)
