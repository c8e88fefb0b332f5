"""A rank's part of a checkpoint: to the bit a slice of what one process has, and no byte read beyond it."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from torch import Tensor

import gesso
from gesso.config import ModelConfig
from gesso.errors import OptionError
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.models.loading import load_folder, read_model_config
from gesso.models.quantization.convert import quantize_folder
from gesso.models.quantization.plan import Quantization
from gesso.nn.quant.base import dequantize
from gesso.nn.quant.integer import Int4, Int8
from gesso.nn.quant.layers import QuantizedExperts, QuantizedLinear
from gesso.nn.quant.nf4 import NF4
from gesso.ranks.group import RankGroup
from gesso.tensor_parallel import loading, packed
from gesso.tensor_parallel.loading import load_shard
from gesso.tensor_parallel.model import ShardedModel
from gesso.tensor_parallel.packed import check_groups, cut_packed
from gesso.tensor_parallel.shards import cut, is_added_once

MINI = Path(gesso.__file__).parent / "bundled" / "mini"
KINDS = {
    "whole": None,
    "int8": Quantization(dense=Int8(), experts=Int8()),
    "int4": Quantization(dense=Int4(32), experts=Int4(64), embedding=Int8()),
}


@pytest.fixture(scope="module", params=KINDS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    chosen = KINDS[request.param]
    if chosen is None:
        return MINI
    out = tmp_path_factory.mktemp("packed") / request.param
    quantize_folder(MINI, out, chosen)
    return out


def group(rank: int, size: int) -> RankGroup:
    return RankGroup(rank, size, torch.device("cpu"))


class Counting:
    """A file that counts what is asked of it, by tensor."""

    def __init__(self, file: Any, read: dict[str, int]) -> None:
        self._file, self._read = file, read

    def get_tensor(self, name: str) -> Tensor:
        tensor: Tensor = self._file.get_tensor(name)
        self._read[name] = self._read.get(name, 0) + tensor.nbytes
        return tensor

    def get_slice(self, name: str) -> Any:
        file, read = self._file.get_slice(name), self._read

        class Slice:
            def __getitem__(self, place: Any) -> Tensor:
                tensor: Tensor = file[place]
                read[name] = read.get(name, 0) + tensor.nbytes
                return tensor

        return Slice()


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """The bytes that were asked of each tensor."""
    counted: dict[str, int] = {}
    plain = loading.open_checked

    @contextlib.contextmanager
    def counting(*given: Any) -> Iterator[Counting]:
        with plain(*given) as file:
            yield Counting(file, counted)

    monkeypatch.setattr(loading, "open_checked", counting)
    return counted


def matrices(model: DiffusionGemma) -> dict[str, Tensor]:
    """All weights in full, under the names of a model that is not packed."""
    found = dict(model.state_dict())
    for name, module in model.named_modules():
        if isinstance(module, QuantizedLinear):
            parts = tuple(found.pop(f"{name}.{part}") for part in module.form.parts)
            found[f"{name}.weight"] = dequantize(parts, module.form, torch.float32)
        if isinstance(module, QuantizedExperts):
            for matrix in ("gate_up", "down"):
                stacks = [found.pop(f"{name}.{matrix}_{part}") for part in module.form.parts]
                each = [dequantize(parts, module.form, torch.float32) for parts in zip(*stacks, strict=True)]
                found[f"{name}.{matrix}_proj"] = torch.stack(each)
    if "vocabulary.codes" in found:
        table = (found.pop("vocabulary.codes"), found.pop("vocabulary.scales"))
        found["vocabulary.weight"] = dequantize(table, Int8(), torch.float32)
    return found


@pytest.mark.parametrize("size", [2, 4])
def test_ranks_hold_slices_of_one_process_and_read_no_more(folder: Path, read: dict[str, int], size: int) -> None:
    config, whole = read_model_config(folder), matrices(load_folder(folder, "cpu"))
    stored = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    for rank in (0, size - 1):
        read.clear()
        own = group(rank, size)
        part = matrices(load_shard(folder, "auto", own))
        assert set(part) == set(whole)
        for name, tensor in part.items():
            place = cut(name, config, own)
            expected = whole[name] if place is None else whole[name].narrow(place[0], place[1].start, len(place[1]))
            if is_added_once(name) and rank:
                expected = torch.zeros_like(expected)
            assert torch.equal(tensor, expected), name
        share = check_reads(folder, config, own, read)
        assert share < stored * (1 / size + 0.13)  # norms, routers and self-conditioning are every rank's


CUT = ("q_proj", "o_proj", "mlp.gate", "mlp.up", "mlp.down", "experts.gate", "experts.down")
ROW_SCALES = ("o_proj.scales", "mlp.down_proj.scales")
"""Of whole rows, which columns are cut out of."""


def check_reads(folder: Path, config: ModelConfig, own: RankGroup, read: dict[str, int]) -> int:
    """No tensor was read twice, and of one that is cut no more than the rank's part; returns the bytes of all."""
    seen = set()
    for path in folder.glob("*.safetensors"):
        with safe_open(path, framework="pt") as file:
            for name in read.keys() & set(file.keys()):
                full: int = file.get_tensor(name).nbytes
                assert read[name] <= full, name
                rows = name.endswith(ROW_SCALES) and full == 4 * config.hidden_size
                found = [each for each in CUT if each in name and ".layers." in name]
                if found and not rows:
                    seen.update(found)
                    assert read[name] == full // own.size, name
                if "embed_tokens" in name:
                    seen.add("table")
                    assert read[name] <= full / own.size * 1.1, name
    assert seen == {*CUT, "table"}
    return sum(read.values())


def test_a_model_packed_or_not_has_all_parts_cut(folder: Path) -> None:
    """What a rank holds of each layer has the rank's size, in packed tensors as well."""
    model = load_shard(folder, "auto", group(1, 2))
    assert isinstance(model, ShardedModel)
    for name, module in model.named_modules():
        if name.endswith("mlp.down_proj") and name.startswith("layers."):
            columns = module.in_features if isinstance(module, QuantizedLinear) else module.weight.shape[1]
            assert columns == model.whole.intermediate_size // 2
        if name.endswith(".experts"):
            assert module.num_experts == model.whole.num_experts // 2


def test_a_cut_through_a_group_is_refused_by_name() -> None:
    config = read_model_config(MINI)
    check_groups(config, Quantization(dense=Int4(64)), 2)
    check_groups(config, Quantization(dense=Int8(), experts=Int4(64)), 4)
    check_groups(config, None, 4)
    with pytest.raises(OptionError, match=r"4 ranks would cut layers.0.attention.o_proj every 32 columns") as refused:
        check_groups(config, Quantization(dense=Int4(64)), 4)
    assert refused.value.option == "tensor_parallel"


def test_columns_are_cut_at_groups_in_every_part() -> None:
    config, own = read_model_config(MINI), group(1, 2)
    name = "layers.0.mlp.down_proj"
    assert cut_packed(f"{name}.codes", Int4(32), config, own) == (1, range(64, 128))
    assert cut_packed(f"{name}.offsets", Int4(32), config, own) == (1, range(4, 8))
    assert cut_packed(f"{name}.codes", Int8(), config, own) == (1, range(128, 256))
    assert cut_packed(f"{name}.scales", Int8(), config, own) is None
    assert cut_packed("layers.0.mlp.up_proj.scales", Int8(), config, own) == (0, range(128, 256))
    assert cut_packed("layers.0.experts.gate_up_codes", Int4(64), config, own) == (0, range(4, 8))
    assert cut_packed("self_conditioning.mlp.down_proj.codes", Int8(), config, own) is None


def test_another_programs_form_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "stored_quantization", lambda folder: Quantization(experts=NF4()))
    with pytest.raises(OptionError, match="holds experts as nf4, which ranks do not cut") as refused:
        load_shard(MINI, "auto", group(0, 2))
    assert refused.value.option == "tensor_parallel"
