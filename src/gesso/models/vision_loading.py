"""Loads the vision tower of a checkpoint folder as a `VisionModel`, and returns its tensors by their published
names."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from gesso.config import ModelConfig
from gesso.errors import CheckpointError, ConfigError, OptionError
from gesso.models.device import avoid_cudnn_attention, pick_device
from gesso.models.dtype import pick_dtype
from gesso.models.loading import read_model_config, weight_files
from gesso.models.tensors import cast_finite, open_checked
from gesso.models.vision_config import VisionConfig, read_vision_config, write_vision_config
from gesso.models.vision_names import DEAD, TOWER, VISION_PREFIXES, to_hf
from gesso.models.vision_tower import Patches, VisionModel


def has_vision(folder: Path) -> bool:
    """Says whether a checkpoint folder holds the weights of a vision tower, and not merely its description."""
    return any(name.startswith(TOWER) for name in weight_files(folder))


class _DeferredVisionModel(VisionModel):
    """Reads its weights when it is first shown an image: whoever shows none does not wait or pay for them."""

    def __init__(self, config: VisionConfig, width: int, read: Callable[[], Mapping[str, Tensor]]) -> None:
        with torch.device("meta"):
            super().__init__(config, width)
        self._read: Callable[[], Mapping[str, Tensor]] | None = read

    def embed(self, images: Sequence[Patches], together: int = 1) -> list[Tensor]:
        if self._read is not None:
            self.load_state_dict(self._read(), strict=True, assign=True)
            self.requires_grad_(False)
            self._read = None
        return super().embed(images, together)


def load_vision(folder: Path, device: str = "auto", dtype: str = "auto", *, deferred: bool = False) -> VisionModel:
    """Loads the vision tower and the projector of a checkpoint folder.

    Args:
        dtype: of weights and activations; what sums up runs in fp32 always. A quantized checkpoint's tower is whole.
        deferred: look at names and shapes now, and read the weights when the first image comes.

    Raises:
        CheckpointError: the checkpoint has no tower, or its tensors are missing, unknown or misshapen.
        ConfigError: an unknown key or impossible value in its `vision_config`.
        OptionError: a device or dtype that does not exist here.
    """
    target = pick_device(device)
    avoid_cudnn_attention(target)
    config = read_model_config(folder)
    files = {name: path for name, path in weight_files(folder).items() if name.startswith(VISION_PREFIXES)}
    if config.vision_config is None or not any(name.startswith(TOWER) for name in files):
        raise CheckpointError(f"{folder} has no vision tower: this model reads text only")
    if len(config.image_token_ids) != 3:
        raise ConfigError("config.json: a vision tower needs boi_token_id, image_token_id and eoi_token_id")
    with torch.device("meta"):
        model = VisionModel(read_vision_config(config.vision_config), config.hidden_size)
    kind = pick_dtype(dtype, target, sum(p.numel() for p in model.parameters()))
    wanted = model.state_dict()
    places = _places(folder, files, wanted)

    def read() -> dict[str, Tensor]:
        return dict(_tensors(places, wanted, str(target), kind))

    if deferred:
        for name, (hf_name, path) in places.items():
            with open_checked(hf_name, path, wanted[name], packed=False, device=str(target)):
                pass
        return _DeferredVisionModel(model.config, config.hidden_size, read).eval().requires_grad_(False)
    model.load_state_dict(read(), strict=True, assign=True)
    return model.eval().requires_grad_(False)


def _places(folder: Path, files: Mapping[str, Path], wanted: Mapping[str, Tensor]) -> dict[str, tuple[str, Path]]:
    """Returns the published name and the file of each tensor that is `wanted`.

    Raises:
        CheckpointError: one is missing, or there are others that are not known.
    """
    names = {name: to_hf(name) for name in wanted}
    foreign = sorted(name for name in files.keys() - names.values() if not name.startswith(DEAD))
    if foreign:
        raise CheckpointError(f"unknown tensors of the vision tower in {folder}: {', '.join(foreign[:4])}")
    missing = sorted(names.values() - files.keys())
    if missing:
        raise CheckpointError(f"tensors of the vision tower missing in {folder}: {', '.join(missing[:4])}")
    return {name: (hf_name, files[hf_name]) for name, hf_name in names.items()}


def _tensors(
    places: Mapping[str, tuple[str, Path]], wanted: Mapping[str, Tensor], device: str, dtype: torch.dtype
) -> Iterator[tuple[str, Tensor]]:
    """Yields every tensor in `dtype`, file by file; those that scale what leaves the tower are fp32.

    Raises:
        CheckpointError: one is misshapen, or holds numbers that are not finite.
    """
    for name, (hf_name, path) in sorted(places.items(), key=lambda item: item[1][1]):
        with open_checked(hf_name, path, wanted[name], packed=False, device=device) as file:
            tensor = file.get_tensor(hf_name)
        kind = torch.float32 if ".std_" in name else dtype
        if not name.endswith(("_min", "_max")):  # of a clipped projection, where infinity bounds nothing
            yield name, cast_finite(hf_name, tensor, kind)
        elif bool(tensor.isnan().any()):
            raise CheckpointError(f"{hf_name} is no number")
        else:
            yield name, tensor.to(kind)


def with_vision_config(config: ModelConfig, vision: VisionModel | None) -> ModelConfig:
    """Returns the config of a text model that is saved with a tower; what describes the tower already stays as it was
    read.

    Raises:
        OptionError: the projector makes embeddings of another width.
    """
    if vision is None:
        return config
    width = vision.projector.projection.out_features
    if width != config.hidden_size:
        raise OptionError(
            f"the vision tower makes embeddings of {width} numbers, the text model has {config.hidden_size}"
        )
    try:
        if config.vision_config is not None and read_vision_config(config.vision_config) == vision.config:
            return config
    except ConfigError:
        pass  # a description of no tower, as text-only checkpoints have
    return replace(config, vision_config=write_vision_config(vision.config))


def vision_tensors(model: VisionModel) -> dict[str, Tensor]:
    """Returns the tensors of a tower and its projector by their published names."""
    return {to_hf(name): tensor.detach() for name, tensor in model.state_dict().items()}
