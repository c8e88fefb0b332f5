"""`--device-memory`: what commands say of a GPU that is too small, and what they refuse."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from engine.tiny import randomise, tiny_recipe
from nn.slow_store import SlowStore

from cli.conftest import Gesso
from gesso.models.cache import cache_bytes
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.models.offload import Offload
from gesso.models.saving import save_folder


@pytest.fixture
def deep(tmp_path: Path) -> tuple[Path, int]:
    """A model of six layers, and the memory that just does not hold it in float32."""
    recipe = tiny_recipe()
    model = DiffusionGemma(replace(recipe.model, layers=recipe.model.layers * 3))
    randomise(model, seed=1)
    save_folder(model, tmp_path / "deep", generation=recipe.generation)
    recipe.text.write(tmp_path / "deep")
    config = model.config
    cache = cache_bytes(config, torch.float32, min(8192, config.max_position_embeddings), 512)
    return tmp_path / "deep", sum(tensor.nbytes for tensor in model.state_dict().values()) + cache - 1


def test_models_show_tells_before_anything_is_loaded(
    gesso: Gesso, monkeypatch: pytest.MonkeyPatch, deep: tuple[Path, int]
) -> None:
    for name in ("runner.offload.WORKING", "runner.offload.KEPT_BYTES", "engine.constraint.TABLE_BYTES"):
        monkeypatch.setattr(f"gesso.{name}", 0)
    folder, memory = deep
    show = ("models", "show", folder, "--json")
    assert json.loads(gesso(*show, "--device-memory", "8GB").out)["device_memory"] == "all weights fit"
    told = json.loads(gesso(*show, "--device-memory", (memory + 1) // 2 - 1).out)["device_memory"]
    assert "the experts of 3 of 6 layers" in told  # in bfloat16, which a GPU takes
    assert told.endswith("stream in every pass; the link was not measured: no CUDA here")
    assert "device_memory" not in json.loads(gesso(*show).out)
    refused = gesso(*show[:3], "--device-memory", "1kB")
    assert refused.code == 2
    told = re.match(r"gesso: 1\.00 KB of device memory are too few: .* take ([0-9.]+ [KM]B)\n", refused.err)
    assert told is not None, refused
    assert gesso(*show, "--device-memory", told[1]).code == 0  # as much as was named is enough


@pytest.mark.parametrize("command", [("generate",), ("chat",), ("eval",), ("lab", "--set", "")], ids=lambda it: it[0])
def test_it_is_of_cuda(gesso: Gesso, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: tuple[str, ...]) -> None:
    monkeypatch.chdir(tmp_path)
    told = gesso(*command, "--device-memory", "8GB", stdin="one plus one")
    assert told.code == 2
    assert "--device-memory needs CUDA: on cpu weights lie in the machine's own memory" in told.err
    told = gesso(*command, "--device-memory", "lots", stdin="x")
    assert (told.code, "--device-memory takes a size such as 4GiB" in told.err) == (2, True)


def test_bench_streams_checkpoints_only(gesso: Gesso, tmp_path: Path) -> None:
    (tmp_path / "shape.json").write_text("{}", "utf-8")
    told = gesso("bench", "--random-weights", tmp_path / "shape.json", "--device-memory", "8GB")
    assert told.code == 2
    assert "--device-memory needs a checkpoint" in told.err


def test_a_model_that_streams_answers_as_one_that_stays(
    gesso: Gesso, monkeypatch: pytest.MonkeyPatch, deep: tuple[Path, int]
) -> None:
    store = SlowStore()

    def request(
        device: torch.device, limit: int | None, reserved: int, needs_all: Sequence[str], tell: Callable[[str], None]
    ) -> Offload | None:
        return None if limit is None else Offload(limit, 0, store, needs_all, tell)

    monkeypatch.setattr("gesso.api.offload_request", request)
    folder, memory = deep
    answer = ("generate", "-m", folder, "--seed", 3, "--max-new-tokens", 8, "--plain", "one plus one")
    plain, streamed = gesso(*answer), gesso(*answer, "--device-memory", memory)
    assert (streamed.code, streamed.out) == (0, plain.out)
    assert streamed.err.startswith("of 0.0 GB on the device, ")
    assert "the experts of 3 of 6 layers" in streamed.err
    assert len(store.contents) > 3
    refused = gesso(*answer, "--device-memory", memory, "--cuda-graphs")
    assert refused.code == 2
    assert "--cuda-graphs needs all weights on the device" in refused.err
