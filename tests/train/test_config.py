"""What a run is told is checked by the rows of its options, and each is refused by its name."""

import subprocess
import sys
from typing import Any

import pytest

from gesso.config import LoraConfig
from gesso.errors import OptionError
from gesso.options import options_of
from gesso.train.config import TrainConfig
from gesso.train.data_config import FileDataConfig
from gesso.train.plan import Plan
from gesso.train.reinforce.config import PolicyConfig

REQUIRED: dict[type, dict[str, Any]] = {TrainConfig: {"steps": 1}, FileDataConfig: {"max_length": 8}}
CONFIGS = (TrainConfig, FileDataConfig, Plan, LoraConfig, PolicyConfig)


@pytest.mark.parametrize(
    ("config", "name"), [(config, name) for config in CONFIGS for name in options_of(config)], ids=str
)
def test_every_option_is_refused_by_its_name(config: type, name: str) -> None:
    with pytest.raises(OptionError, match=f"^{name} must be .*, got ") as refusal:
        config(**{**REQUIRED.get(config, {}), name: object()})
    assert refusal.value.option == name


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"batch_size": 0}, "batch_size must be an integer of at least 1, got 0"),
        ({"batch_size": 2.5}, "batch_size must be an integer of at least 1, got 2.5"),
        ({"seed": 2**31}, r"seed must be below 2\*\*31, got 2147483648"),
        ({"time_exponent": 2}, "time_exponent must be at most 1, got 2"),
        ({"precision": "float16"}, "precision must be one of auto, float32, bfloat16, got 'float16'"),
        ({"patience": 1}, "patience counts evaluations on what is held out, and evaluate_every is 0"),
        ({"sample_every": 1}, "sample_every needs sample_prompts"),
        ({"on_policy": True, "context_parallel": 2}, "on_policy takes whole canvases: context_parallel must be 1"),
    ],
)
def test_impossible_settings_and_contradictions_name_an_option(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=f"^{message}") as refusal:
        TrainConfig(steps=1, **settings)
    assert refusal.value.option in settings


def test_numbers_and_lists_are_held_in_one_form() -> None:
    config = TrainConfig(steps=1, time_exponent=1, sample_prompts=["a"])  # type: ignore[arg-type]
    assert (type(config.time_exponent), config.sample_prompts) == (float, ("a",))
    assert FileDataConfig(max_length=8, held_out=0) == FileDataConfig(max_length=8)


def test_a_command_line_reads_them_without_pytorch() -> None:
    modules = sorted({config.__module__ for config in CONFIGS})
    code = f"import sys, {', '.join(modules)}; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
