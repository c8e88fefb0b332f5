"""Options that other trainers call otherwise."""

import pytest

from cli.conftest import Gesso
from gesso.cli.app import app
from gesso.cli.other_names import INSTEAD, OTHER_NAMES, other_name_hint


@pytest.mark.parametrize(
    ("command", "given", "hint"),
    [
        ("finetune", "--lr", "--lr is --learning-rate here"),
        ("finetune", "--lora_r", "--lora_r is --rank here"),
        ("finetune", "--max-seq-length", "--max-seq-length is --max-length here"),
        ("finetune", "--resume", "the same command goes on with the run in --out"),
        ("finetune", "--load-in-4bit", "--method qlora trains over weights of 4 bits"),
        ("finetune", "--dataset", "files of data stand without an option"),
        ("reinforce", "--num-generations", "--num-generations is --group-size here"),
        ("reinforce", "--gradient-accumulation-steps", "--batch-size is the whole of a step here"),
        ("train", "--output-dir", "--output-dir is --out here"),
    ],
)
def test_what_others_call_an_option_is_told(gesso: Gesso, command: str, given: str, hint: str) -> None:
    outcome = gesso(command, given, 1)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.splitlines()[1].startswith(f"  {hint}")


@pytest.mark.parametrize(("command", "given"), [("finetune", "--nothing"), ("generate", "--lr"), ("train", "--lora-r")])
def test_no_other_name_is_told_where_the_command_has_no_such_option(gesso: Gesso, command: str, given: str) -> None:
    outcome = gesso(command, given, 1)
    assert outcome.code == 2
    assert len(outcome.err.splitlines()) == 1


def test_every_option_that_is_told_is_one_and_no_name_is_an_option() -> None:
    import typer

    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    known = {name for each in ("finetune", "reinforce") for option in commands[each].params for name in option.opts}
    assert known >= OTHER_NAMES.keys() | INSTEAD.keys()
    names = [name for said in (*OTHER_NAMES.values(), *INSTEAD.values()) for name in said]
    assert len(names) == len(set(names))
    assert known.isdisjoint(f"--{name}" for name in names)
    assert all(other_name_hint(f"--{name}", known) for name in names)
