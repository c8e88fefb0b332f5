"""Reads a rank's part of a checkpoint: slices of the files, never a whole tensor that is cut."""

from pathlib import Path

import torch
from torch import Tensor

from gesso.errors import OptionError
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.models.loading import pick_dtype, read_model_config, stored_quantization, weight_files
from gesso.models.state_dict_adapter import to_hf
from gesso.models.tensors import check_copies, check_finite, open_checked, sources
from gesso.tensor_parallel.group import RankGroup
from gesso.tensor_parallel.model import ShardedModel
from gesso.tensor_parallel.shards import check_ranks, cut, is_added_once


def load_shard(folder: Path, dtype: str, group: RankGroup) -> ShardedModel:
    """Loads a rank's part of the text model of a checkpoint folder, onto the group's device.

    Raises:
        CheckpointError: see `gesso.models.loading.load_folder`.
        ConfigError: an unknown key or impossible value in `config.json`.
        OptionError: a model that cannot be cut into so many parts, or that is quantized.
    """
    config = read_model_config(folder)
    refuse_quantized(folder)
    check_ranks(config, group.size)
    with torch.device("meta"):
        whole = DiffusionGemma(config)
        model = ShardedModel(config, group)
    kind = pick_dtype(dtype, group.device, sum(parameter.numel() for parameter in whole.parameters()))
    files, shapes = weight_files(folder), whole.state_dict()
    loaded: dict[str, Tensor] = {}
    for name, (hf_name, path) in sources(folder, files, shapes).items():
        with open_checked(hf_name, path, shapes[name], packed=False, device=str(group.device)) as file:
            place = cut(name, config, group)
            if place is None:
                tensor = file.get_tensor(hf_name)
            else:
                dimension, part = place
                tensor = file.get_slice(hf_name)[(*[slice(None)] * dimension, slice(part.start, part.stop))]
        check_finite(hf_name, tensor)
        tensor = tensor.to(kind)
        loaded[name] = tensor if group.leads or not is_added_once(name) else torch.zeros_like(tensor)
    if group.leads:
        check_copies(files, {to_hf(name) for name in shapes}, kind)
    model.load_state_dict(loaded, strict=True, assign=True)
    return model.eval().requires_grad_(False)


def refuse_quantized(folder: Path) -> None:
    """Refuses packed weights, which are not cut yet.

    Raises:
        OptionError: the checkpoint is quantized.
    """
    if stored_quantization(folder) is not None:
        raise OptionError(f"{folder} is quantized: tensor_parallel takes whole weights", option="tensor_parallel")
