"""Knows the families of models: how a checkpoint of each is read, and what all of them have in common.

A family is an entry of `FAMILIES`, by the `model_type` of its `config.json`. Engine, runner, samplers and server know
none of them; what works with DiffusionGemma alone (training, adapters, quantization, several ranks) says so by
`only_diffusion_gemma`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from gesso.config import ModelShape
from gesso.errors import OptionError
from gesso.generation import GenerationConfig
from gesso.json_files import read_json
from gesso.models import hf_config
from gesso.models.cache import KVCache
from gesso.models.device import avoid_cudnn_attention, pick_device
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.models.dtype import pick_dtype
from gesso.models.loading import read_generation_defaults, read_model_config, weight_files
from gesso.models.offload_plan import OffloadPlan
from gesso.models.sdar import config as sdar_config
from gesso.models.sdar import loading as sdar_loading
from gesso.nn.host_memory import keep_freed_memory
from gesso.nn.vocabulary import Vocabulary


class BlockDiffusionModel(Protocol):
    """Is all that a runner knows of a model."""

    @property
    def config(self) -> ModelShape: ...

    @property
    def vocabulary(self) -> Vocabulary: ...

    @property
    def device(self) -> torch.device: ...

    @property
    def dtype(self) -> torch.dtype: ...

    @property
    def offload(self) -> OffloadPlan | None:
        """Returns what of it streams from host memory; None where all of it is on its device."""

    def state_dict(self) -> Mapping[str, Tensor]:
        """Returns its weights, by name."""

    def new_cache(self, batch_size: int = 1, max_seq_len: int = 0, max_write_len: int = 0) -> KVCache:
        """Makes an empty cache."""

    def fix_positions(self, positions: int) -> None:
        """Makes the tables of positions below `positions` at once, for ever."""

    def encode_flat(
        self, tokens_N: Tensor, counts: Sequence[int], cache: KVCache, images: Sequence[Sequence[Any]] = ()
    ) -> Tensor:
        """Appends the next `counts[b]` of the flat tokens to row b; returns normed hidden states [N, D]."""

    def denoise_flat(
        self, canvas_N: Tensor, widths: Sequence[int], cache: KVCache, self_conditioning_ND: Tensor | None = None
    ) -> Tensor:
        """Runs one denoising pass of canvases laid flat, and leaves the cache as it is; returns hidden states
        [N, D]."""


@dataclass(frozen=True, slots=True)
class Family:
    """Reads the checkpoints of a family that is not DiffusionGemma, and knows its defaults."""

    read_config: Callable[[Mapping[str, Any]], Any]
    """Makes its `ModelShape` from the content of `config.json`."""
    load: Callable[[Any, dict[str, Path], torch.device, torch.dtype], BlockDiffusionModel]
    """Makes the model: shape, file of each tensor, device, dtype."""
    defaults: Callable[[Any], GenerationConfig]
    """Settings where the checkpoint's files say nothing."""
    facts: Callable[[Any], dict[str, Any]]
    """What `gesso models show` says of the shape."""


FAMILIES = {
    sdar_config.MODEL_TYPE: Family(
        sdar_config.read_config, sdar_loading.load, sdar_loading.defaults, sdar_loading.facts
    )
}
"""All but DiffusionGemma, by `model_type`."""


def family_of(folder: Path) -> Family | None:
    """Returns the family of a checkpoint; None of DiffusionGemma's, whose readers refuse what they do not know.

    Raises:
        CheckpointError: no `config.json`, or one that cannot be read.
    """
    return FAMILIES.get(str(read_json(folder / "config.json").get("model_type")))


def read_shape(folder: Path) -> ModelShape:
    """Reads the shape of a checkpoint of any family.

    Raises:
        CheckpointError: no `config.json`, or one of an unknown model.
        ConfigError: an unknown key or an impossible value.
    """
    family = family_of(folder)
    if family is None:
        return read_model_config(folder)
    shape: ModelShape = family.read_config(read_json(folder / "config.json"))
    return shape


def read_defaults(folder: Path, shape: ModelShape) -> GenerationConfig:
    """Reads the settings of a checkpoint of any family where a request says nothing.

    Raises:
        CheckpointError, ConfigError, OptionError: as `read_generation_defaults`.
    """
    family = family_of(folder)
    return read_generation_defaults(folder, shape, None if family is None else family.defaults(shape))


def load_family(folder: Path, family: Family, device: str, dtype: str) -> BlockDiffusionModel:
    """Loads a model of a family from a checkpoint folder.

    Raises:
        CheckpointError: missing, unknown, misshapen, truncated or non-finite weights.
        ConfigError: an unknown key or impossible value in `config.json`.
        OptionError: a device or dtype that does not exist here.
    """
    shape, target = read_shape(folder), pick_device(device)
    avoid_cudnn_attention(target)
    if target.type == "cpu":
        keep_freed_memory()
    return family.load(shape, weight_files(folder), target, pick_dtype(dtype, target, shape.weights()))


def only_diffusion_gemma(model: object, option: str, what: str) -> DiffusionGemma:
    """Returns a model as the DiffusionGemma that it is.

    Args:
        option: what was asked for.
        what: the same in words.

    Raises:
        OptionError: it is of another family.
    """
    if isinstance(model, DiffusionGemma):
        return model
    raise OptionError(f"{what}: not for this family of models, only for {hf_config.MODEL_TYPE}", option=option)
