"""What commands that train refuse before they read anything: options, and folders that are not theirs."""

import os
from pathlib import Path

import pytest

from cli.conftest import Gesso
from gesso.cli.run_options import EXPORTS, exported, note_export

COMMANDS = (
    ("finetune", "none.jsonl"),
    ("reinforce", "mini", "--prompts", "none.jsonl"),
    ("train", "mini"),
)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--stop-at", 0), "--stop-at must be an integer of at least 1, got 0"),
        (("--max-minutes", "nan"), "--max-minutes must be a finite number, got nan"),
        (("--threads", 0), "--threads must be an integer of at least 1, got 0"),
        (("--device", "abacus"), "'abacus' does not exist"),
        (("--out", "{file}"), "{file} is a file, and it names a folder"),
        (("--out", "{file}/run"), "{file}/run is no folder: {file} is a file"),
        (("--out", ""), "it is empty, and names a file or a folder"),
    ],
)
def test_options_are_refused_before_anything_is_read(
    gesso: Gesso, tmp_path: Path, command: tuple[str, ...], options: tuple[object, ...], message: str
) -> None:
    file = tmp_path / "file"
    file.touch()
    given = [str(option).format(file=file) for option in options]
    out = () if "--out" in given else ("--out", tmp_path / "run")
    outcome = gesso(*command, *out, *given)
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert message.format(file=file) in outcome.err
    assert not (tmp_path / "run").exists()


def test_a_run_does_not_lie_in_a_checkpoint_of_another(gesso: Gesso, tmp_path: Path) -> None:
    checkpoint = tmp_path / "run" / "step-000040"
    checkpoint.mkdir(parents=True)
    (checkpoint / "trainer.json").write_text("{}")
    for out in (checkpoint, checkpoint / "more"):
        for command in COMMANDS[:2]:
            outcome = gesso(*command, "--out", out)
            assert (outcome.code, outcome.err.count("\n")) == (2, 1)
            assert f"{checkpoint} is a checkpoint of a run: name another folder" in outcome.err


@pytest.mark.parametrize(("options", "name"), [((), "adapter"), (("--method", "full"), "model")])
def test_a_result_of_no_run_is_not_written_over(
    gesso: Gesso, tmp_path: Path, options: tuple[str, ...], name: str
) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "config.json").touch()
    for command in COMMANDS[:2]:
        outcome = gesso(*command, "--out", tmp_path, *options)
        assert (outcome.code, outcome.err.count("\n")) == (2, 1)
        assert f"--out {tmp_path} holds {name} already, and no run that goes on: name another" in outcome.err


def test_only_the_runs_own_export_is_replaced(gesso: Gesso, tmp_path: Path) -> None:
    def part(out: str, step: int, export: Path) -> tuple[int, str]:
        outcome = gesso("train", "mini", "--out", tmp_path / out, "--stop-at", step, "--export", export)
        return outcome.code, outcome.err

    file, export = tmp_path / "file", tmp_path / "export"
    file.touch()
    assert f"--export {file} is a file, and it names a folder" in part("run", 1, file)[1]
    for place in (tmp_path / "run", tmp_path, tmp_path / "run" / "step-000001"):
        assert f"--export {place} is where the run lies: name another folder" in part("run", 1, place)[1]
    assert not (tmp_path / "run").exists()
    export.mkdir()
    assert part("run", 1, export)[0] == 0
    first = (export / "model.safetensors").read_bytes()
    code, err = part("other", 1, export)
    assert (code, err.count("\n")) == (2, 1)
    assert f"--export {export} is there already and no empty folder, and this run did not write it" in err
    assert not (tmp_path / "other").exists()
    assert part("run", 2, export)[0] == 0
    assert (export / "model.safetensors").read_bytes() != first


def test_exports_are_known_by_any_name_and_where_they_were_moved_with_their_run(tmp_path: Path) -> None:
    run = tmp_path / "here" / "run"
    run.mkdir(parents=True)
    names = ("plain", "two\nlines", os.fsdecode(b"no\xffutf"))
    for name in names:
        note_export(run, run.parent / name)
        note_export(run, run.parent / name)
    assert exported(run) == [run.parent / name for name in names]
    moved = run.parent.rename(tmp_path / "there")
    assert exported(moved / "run") == [moved / name for name in names]
    (moved / "run" / EXPORTS).write_text("of another program\n3\n")
    assert exported(moved / "run") == []


def test_an_option_of_one_value_is_given_once(gesso: Gesso) -> None:
    """Else the last would count, and nobody would see that the first did not."""
    outcome = gesso("generate", "x", "--seed", 1, "--seed=2")
    assert (outcome.code, outcome.err) == (
        2,
        "gesso: Invalid value for '--seed': it is given more than once, and takes one value\n",
    )
    assert gesso("serve", "-m", "mini", "--model", "skills").code == 2
    assert "--stop" not in gesso("generate", "x", "--stop", "a", "--stop", "b", "--seed", "-1").err


def test_an_empty_path_is_no_file_either(gesso: Gesso, tmp_path: Path) -> None:
    for arguments in (("finetune", "", "--out", tmp_path), ("merge", "", "--out", tmp_path), ("lab", "--report", "")):
        outcome = gesso(*arguments)
        assert (outcome.code, outcome.err.count("\n")) == (2, 1)
        assert "it is empty, and names a file or a folder" in outcome.err
