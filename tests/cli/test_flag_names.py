"""Settings that are refused are named as they are written on the command line."""

import inspect
from typing import Annotated

import pytest
import typer

from gesso.cli import options as opt
from gesso.cli.given import Given
from gesso.errors import CheckpointError, ConfigError, OptionError, UserError
from gesso.train.config import TrainConfig


@opt.takes(rows={TrainConfig: ("keep_checkpoints",)})
def command(
    settings: Given[TrainConfig],
    error: Annotated[UserError, typer.Option()],
    learning_rate: Annotated[float, typer.Option()] = 1.0,
    patience: Annotated[int, typer.Option("-p", "--patience")] = 0,
    model: Annotated[str, typer.Option("--model")] = "mini",
) -> int:
    """Does nothing."""
    raise error


@pytest.mark.parametrize(
    ("said", "read", "option"),
    [
        ("learning_rate must be above 0", "--learning-rate must be above 0", "learning_rate"),
        ("keep_checkpoints must be at least 1", "--keep must be at least 1", "keep"),
        ("patience and keep_checkpoints contradict", "--patience and --keep contradict", "patience"),
        ("patience and error contradict patience", "--patience and --error contradict patience", "patience"),
        ("patience needs error or keep_checkpoints: no", "--patience needs --error or --keep: no", "patience"),
        ("patience has to have patience", "--patience has to have patience", "patience"),
        ("too small a learning_rate, and no patience", "too small a --learning-rate, and no patience", "learning_rate"),
    ],
)
def test_settings_become_flags(said: str, read: str, option: str) -> None:
    with pytest.raises(OptionError) as info:
        command(error=OptionError(said, hint="do"), keep_checkpoints=None)
    assert (str(info.value), info.value.option, info.value.hint) == (read, option, "do")


@pytest.mark.parametrize(
    "error",
    [
        OptionError("learning_rates are not my_learning_rate"),
        ConfigError("learning_rate is a key of a file"),
        OptionError("--keep is named already", option="keep"),
        CheckpointError("learning_rate is a word of a file"),
        OptionError("data/learning_rate.jsonl is given twice"),
        OptionError("another process trains into runs/learning_rate"),
        OptionError("patience/x has no tokenizer.json"),
        OptionError("'learning_rate' is no method"),
        OptionError("model has no canvases"),
    ],
)
def test_what_names_no_setting_stays_as_it_is(error: UserError) -> None:
    with pytest.raises(type(error)) as info:
        command(error=error, keep_checkpoints=None)
    assert info.value is error


def test_the_command_keeps_its_parameters() -> None:
    own = ["error", "learning_rate", "patience", "model"]
    assert [*inspect.signature(command).parameters] == [*own, "keep_checkpoints"]
    assert command.__doc__ == "Does nothing."
