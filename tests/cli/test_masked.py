"""A checkpoint of masked blocks on the command line."""

import json
from pathlib import Path

import pytest
from sdar_oracle import make_sdar_folder

from cli.conftest import Gesso
from gesso.api import load


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_sdar_folder(tmp_path_factory.mktemp("sdar"), block=8)


def test_it_generates_and_is_shown(gesso: Gesso, folder: Path) -> None:
    engine = load(folder, "cpu")
    expected = engine.generate("hello", seed=1, max_new_tokens=16)
    outcome = gesso("generate", "-m", folder, "--seed", 1, "--max-new-tokens", 16, "hello")
    assert (outcome.code, outcome.out) == (0, expected.text + "\n")
    facts = json.loads(gesso("models", "show", folder, "--json").out)
    assert (facts["family"], facts["canvas_length"], facts["sampler"]) == ("sdar", 8, "low_confidence")
    assert facts["parameters"] == sum(tensor.numel() for tensor in engine.model.state_dict().values())


def test_candidates_are_chosen_among(gesso: Gesso, folder: Path) -> None:
    chosen = ("--best-of", 2, "--select", "consistency", "--max-new-tokens", 8, "--seed", 1)
    assert gesso("generate", "-m", folder, *chosen, "hello").code == 0


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("generate", "--sampler", "discrete_ddim", "hello"), "made for uniform noise"),
        (("generate", "--mode", "ar", "hello"), "causal pass"),
        (("generate", "--regex", "a+", "hello"), "regex"),
        (("bench",), "diffusion_gemma alone"),
    ],
)
def test_what_does_not_fit_is_one_line(gesso: Gesso, folder: Path, command: tuple[str, ...], said: str) -> None:
    name, *rest = command
    outcome = gesso(name, *(("-m", folder) if name == "generate" else (folder,)), *rest)
    assert outcome.code == 2
    assert said in outcome.err
    assert "Traceback" not in outcome.err
