"""The mean of two checkpoints' weights."""

import shutil
from pathlib import Path

import pytest
import torch

from gesso.errors import CheckpointError, OptionError
from gesso.models.hub import resolve
from gesso.train.mean_weights import main, mean_weights
from gesso.train.whole_weights import WEIGHTS, read_weights, run_tool, write_copy


def test_the_mean_is_between_in_the_ends_types() -> None:
    start = {"a": torch.tensor([0.0, 4.0]), "b": torch.tensor([1.0])}
    end = {"a": torch.tensor([1.0, 0.0], dtype=torch.bfloat16), "b": torch.tensor([3.0])}
    found = mean_weights(start, end, 0.75)
    assert found["a"].dtype == torch.bfloat16
    assert found["a"].tolist() == [0.75, 1.0]
    assert found["b"].tolist() == [2.5]
    assert mean_weights(start, end, 1.0)["a"].equal(end["a"])
    assert mean_weights(start, end, 0.0)["b"].equal(start["b"])


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_an_impossible_share_is_refused(share: float) -> None:
    with pytest.raises(OptionError, match="between 0 and 1"):
        mean_weights({}, {}, share)


def test_checkpoints_that_are_not_alike_are_refused() -> None:
    with pytest.raises(CheckpointError, match="only one of the checkpoints has b"):
        mean_weights({"a": torch.zeros(1)}, {"a": torch.zeros(1), "b": torch.zeros(1)}, 0.5)
    with pytest.raises(CheckpointError, match="shapes differ: a"):
        mean_weights({"a": torch.zeros(1)}, {"a": torch.zeros(2)}, 0.5)


def test_a_folder_is_copied_with_the_mean(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    start, end, out = resolve("sudoku"), tmp_path / "end", tmp_path / "out"
    tensors, metadata = read_weights(start)
    write_copy(start, end, {name: tensor * 2 for name, tensor in tensors.items()}, metadata)
    main([str(start), str(end), "--share", "0.5", "--out", str(out)])
    assert str(out) in capsys.readouterr().out
    found, kept = read_weights(out)
    assert kept == metadata
    name = next(iter(tensors))
    assert found[name].float().equal((tensors[name].float() * 1.5).to(tensors[name].dtype).float())
    assert {path.name for path in out.iterdir()} == {path.name for path in start.iterdir()}


def test_a_folder_may_be_written_in_its_place(tmp_path: Path) -> None:
    folder = tmp_path / "own"
    shutil.copytree(resolve("sudoku"), folder)
    tensors, metadata = read_weights(folder)
    write_copy(folder, folder, {name: tensor + 1 for name, tensor in tensors.items()}, metadata)
    name = next(iter(tensors))
    assert read_weights(folder)[0][name].equal(tensors[name] + 1)


def test_a_folder_without_weights_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=WEIGHTS):
        read_weights(tmp_path)


def test_a_mistake_is_one_line_and_exit_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run_tool(lambda: main([str(tmp_path), str(tmp_path), "--share", "0.5", "--out", str(tmp_path / "out")]))
    assert ended.value.code == 2
    assert capsys.readouterr().err == f"{tmp_path} has no {WEIGHTS}\n"
