"""How a model is cut into stages and a batch into micro-batches; what a stage reads of a checkpoint."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open

import gesso
from gesso.errors import OptionError
from gesso.models import loading
from gesso.models.loading import load_folder, read_model_config
from gesso.models.quantization.convert import quantize_folder
from gesso.models.quantization.plan import Quantization
from gesso.models.state_dict_adapter import to_hf
from gesso.nn.quant.integer import Int4, Int8
from gesso.pipeline_parallel.loading import load_stage
from gesso.pipeline_parallel.stages import micro_batches, stage_layers
from gesso.ranks.group import RankGroup

MINI = Path(gesso.__file__).parent / "bundled" / "mini"


@given(st.lists(st.integers(1, 300), min_size=1, max_size=20), st.integers(1, 8))
def test_micro_batches_are_neighbours_of_about_one_size(sizes: list[int], most: int) -> None:
    parts = micro_batches(sizes, most)
    assert len(parts) == min(most, len(sizes))
    assert [place for part in parts for place in range(len(sizes))[part]] == list(range(len(sizes)))
    rows = [sum(sizes[part]) for part in parts]
    assert min(rows) > 0
    if len(set(sizes)) == 1:
        assert max(rows) - min(rows) <= 2 * sizes[0]


@pytest.mark.parametrize("stages", [1, 2, 3, 6])
def test_stages_hold_all_layers_once(stages: int) -> None:
    parts = stage_layers(read_model_config(MINI), stages)
    assert [number for part in parts for number in part] == list(range(6))
    assert min(len(part) for part in parts) >= 1
    assert max(len(part) for part in parts) - min(len(part) for part in parts) <= 1
    with pytest.raises(OptionError, match="6 layers cannot be cut into 7 stages"):
        stage_layers(read_model_config(MINI), 7)


@pytest.mark.parametrize("kind", ["whole", "packed"])
def test_a_stage_reads_its_own_layers_and_nothing_else(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, stages = MINI, 3
    if kind == "packed":
        folder = tmp_path / "packed"
        quantize_folder(MINI, folder, Quantization(dense=Int4(32), experts=Int4(64), embedding=Int8()))
    read: dict[str, int] = {}
    plain = loading.open_checked

    class Counting:
        def __init__(self, file: Any) -> None:
            self._file = file

        def get_tensor(self, name: str) -> torch.Tensor:
            tensor: torch.Tensor = self._file.get_tensor(name)
            read[name] = read.get(name, 0) + tensor.nbytes
            return tensor

    @contextlib.contextmanager
    def counting(*given: Any) -> Iterator[Counting]:
        with plain(*given) as file:
            yield Counting(file)

    whole = load_folder(folder, "cpu").state_dict()
    monkeypatch.setattr(loading, "open_checked", counting)
    sizes = {}
    for path in folder.glob("*.safetensors"):
        with safe_open(path, framework="pt") as file:
            sizes |= {name: file.get_tensor(name).nbytes for name in file.keys()}  # noqa: SIM118
    seen: dict[str, int] = {}
    for rank in range(stages):
        read.clear()
        model = load_stage(folder, "auto", None, RankGroup(rank, stages, torch.device("cpu")))
        held = {name: tensor for name, tensor in model.state_dict().items() if not tensor.is_meta}
        assert all(torch.equal(tensor, whole[name]) for name, tensor in held.items())
        assert read == {to_hf(name): sizes[to_hf(name)] for name in held}
        assert {name for name in held if name.startswith("layers.")} == {
            name for name in whole if name.startswith(tuple(f"layers.{number}." for number in model.own))
        }
        for name in held:
            seen[name] = seen.get(name, 0) + 1
    assert set(seen) == set(whole)
    assert {name for name, times in seen.items() if times > 1} == {"norm.weight"}
