"""Reads a rank's part of a checkpoint: slices of the files, never a whole tensor that is cut."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.models.dtype import pick_dtype
from gesso.models.loading import packed_names, read_model_config, weight_files
from gesso.models.quantization.plan import replace_layers
from gesso.models.state_dict_adapter import to_hf
from gesso.models.tensors import cast_finite, check_copies, check_finite, open_checked, sources
from gesso.nn.quant.base import Format, dequantize
from gesso.ranks.group import RankGroup
from gesso.tensor_parallel.model import ShardedModel
from gesso.tensor_parallel.packed import check_groups, cut_packed, put_packed_layers, quantization_over_ranks
from gesso.tensor_parallel.shards import check_ranks, cut, is_added_once


def load_shard(folder: Path, dtype: str, group: RankGroup) -> ShardedModel:
    """Loads a rank's part of the text model of a checkpoint folder, onto the group's device.

    Raises:
        CheckpointError: see `gesso.models.loading.load_folder`.
        ConfigError: an unknown key or impossible value in `config.json`.
        OptionError: a model that cannot be cut into so many parts, or is packed in a form that is not cut.
    """
    config, stored = read_model_config(folder), quantization_over_ranks(folder)
    check_ranks(config, group.size)
    check_groups(config, stored, group.size)
    with torch.device("meta"):
        whole, model = DiffusionGemma(config), ShardedModel(config, group)
        forms: dict[str, Format] = {}
        if stored is not None:
            forms = replace_layers(whole, stored)
            put_packed_layers(model, config, stored, group)
    packed = packed_names(whole, forms)
    kind = pick_dtype(dtype, group.device, sum(parameter.numel() for parameter in whole.parameters()))
    files, shapes = weight_files(folder), whole.state_dict()
    loaded: dict[str, Tensor] = {}
    for name, (hf_name, path) in sources(folder, files, shapes).items():
        with open_checked(hf_name, path, shapes[name], name in packed, str(group.device)) as file:
            if name in packed:
                loaded[name] = _part(file, hf_name, cut_packed(name, forms[name.rpartition(".")[0]], config, group))
                check_finite(hf_name, loaded[name])
                continue
            tensor = _part(file, hf_name, cut(name, config, group))
        tensor = cast_finite(hf_name, tensor, kind)
        loaded[name] = tensor if group.leads or not is_added_once(name) else torch.zeros_like(tensor)
    if group.leads:
        check_copies(files, {to_hf(name) for name in shapes}, kind)
    if (form := forms.get("vocabulary")) is not None:
        parts = tuple(loaded.pop(f"vocabulary.{part}") for part in form.parts)
        loaded["vocabulary.weight"] = dequantize(parts, form, kind)
    model.load_state_dict(loaded, strict=True, assign=True)
    return model.eval().requires_grad_(False)


def _part(file: Any, hf_name: str, place: tuple[int, range] | None) -> Tensor:
    """Reads a rank's part of a tensor: the slice, or all of what is not cut."""
    if place is None:
        found: Tensor = file.get_tensor(hf_name)
    else:
        found = file.get_slice(hf_name)[(*[slice(None)] * place[0], slice(place[1].start, place[1].stop))]
    return found
