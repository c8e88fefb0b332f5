"""Reads a stage of a checkpoint: the tensors of its layers, and no other."""

from pathlib import Path

from gesso.config import ModelConfig
from gesso.models.adapter_files import load_adapter
from gesso.models.adapters import merge_if_possible
from gesso.models.loading import outline, read_tensors, stored_quantization
from gesso.pipeline_parallel.model import StagedModel
from gesso.ranks.group import RankGroup


def load_stage(folder: Path, dtype: str, adapter: str | None, group: RankGroup) -> StagedModel:
    """Loads a stage onto the group's device, with an adapter where one is given: merged, or beside the weights where
    they are packed, or encoder and decoder have a delta each.

    Raises:
        CheckpointError, ConfigError: see `gesso.models.loading.load_folder`.
        OptionError: there are more stages than layers.
    """

    def make(config: ModelConfig) -> StagedModel:
        return StagedModel(config, group)

    found = outline(folder, group.device, dtype, stored_quantization(folder), make)
    model = found.model
    assert isinstance(model, StagedModel)
    loaded = read_tensors(folder, found, model.state_dict(), lambda name: group.device, model.holds)
    model.load_state_dict(loaded, strict=False, assign=True)
    model.eval().requires_grad_(False)
    if adapter is not None:
        load_adapter(model, Path(adapter))
        merge_if_possible(model)
    return model
