"""`gesso finetune` of data with images: an adapter over a frozen tower, a tower that learns, and the estimate."""

import json
from pathlib import Path

import pytest
import torch
from engine.seeing import make_seeing_folder, png

from cli.conftest import Gesso
from gesso.models.vision_loading import load_vision

SHORT = ("--held-out", 0, "--batch-size", 2, "--max-length", 120, "--image-budget", 70)


@pytest.fixture(scope="module")
def seeing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_seeing_folder(tmp_path_factory.mktemp("seeing"))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "pictures").mkdir()
    lines = []
    for seed, answer in enumerate(("pear", "fig")):
        (tmp_path / f"pictures/{seed}.png").write_bytes(png(seed))
        content = [{"type": "image", "path": f"pictures/{seed}.png"}, {"type": "text", "text": "what is it?"}]
        messages = [{"role": "user", "content": content}, {"role": "assistant", "content": answer}]
        lines.append(json.dumps({"messages": messages}) + "\n")
    path = tmp_path / "data.jsonl"
    path.write_text("".join(lines), "utf-8")
    return path


def test_an_adapter_that_was_trained_on_pictures_tells_them_apart(
    gesso: Gesso, seeing: Path, data: Path, tmp_path: Path
) -> None:
    outcome = gesso(
        "finetune", data, "--out", tmp_path / "run", "--model", seeing, "--steps", 24, *SHORT,
        "--learning-rate", 2e-2, "--rank", 16, "--target", "*",
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    assert "2 images of 128 soft tokens" in " ".join(outcome.err.split())
    lines = (tmp_path / "run/metrics.jsonl").read_text("utf-8").splitlines()
    assert json.loads(lines[-1])["denoiser_loss"] < 0.9 * json.loads(lines[0])["denoiser_loss"]
    adapter = tmp_path / "run/adapter"
    asked = ("what is it?", "-m", seeing, "--adapter", adapter, "--image-budget", 70, "--max-new-tokens", 8)
    told: list[list[str]] = []
    for picture in (0, 1):
        outcomes = [
            gesso("generate", *asked, "--seed", n, "--image", f"{tmp_path}/pictures/{picture}.png") for n in range(4)
        ]
        assert [outcome.code for outcome in outcomes] == [0] * 4
        told.append([outcome.out for outcome in outcomes])
    assert told[0] != told[1]


def test_a_tower_is_trained_where_that_is_asked_for(gesso: Gesso, seeing: Path, data: Path, tmp_path: Path) -> None:
    options = (data, "--out", tmp_path / "run", "--model", seeing, "--steps", 2, *SHORT, "--learning-rate", 1e-2)
    outcome = gesso("finetune", *options, "--method", "full", "--train-vision")
    assert outcome.code == 0, outcome.err
    before, after = (load_vision(folder, "cpu", "float32") for folder in (seeing, tmp_path / "run/model"))
    assert not torch.equal(before.tower.input_proj.weight, after.tower.input_proj.weight)


def test_mistakes_get_one_line(gesso: Gesso, seeing: Path, bundled: Path, data: Path, tmp_path: Path) -> None:
    out, blind = tmp_path / "run", bundled / "mini"
    text = tmp_path / "text.jsonl"
    text.write_text('{"prompt": "a", "completion": "b"}\n', "utf-8")
    for arguments, message in (
        (
            (data, "--model", blind),
            f"{data}, line 1: message 1: the message holds an image, and this model reads text only",
        ),
        ((data, "--model", blind, "--estimate"), "the data holds images, and this model reads text only"),
        ((data, "--model", seeing, "--train-vision"), "--train-vision needs the method full"),
        ((text, "--model", seeing, "--train-vision", "--method", "full"), "no line holds one"),
        (("--model", seeing, "--train-vision", "--estimate"), "--train-vision is for data with images"),
        ((data, "--model", seeing, "--image-budget", 100), "--image-budget must be one of 70"),
    ):
        outcome = gesso("finetune", *arguments, "--out", out, "--held-out", 0)
        assert (outcome.code, outcome.out) == (2, "")
        assert message in outcome.err
    (tmp_path / "pictures/1.png").unlink()
    outcome = gesso("finetune", data, "--model", seeing, "--out", out, "--held-out", 0)
    assert outcome.code == 2
    assert f"{data}, line 2: message 1: image '{tmp_path}/pictures/1.png' cannot be read: No such file" in outcome.err


def test_the_estimate_counts_images(gesso: Gesso, seeing: Path, data: Path) -> None:
    told = gesso("finetune", data, "--estimate", "--model", seeing, "--image-budget", 140)
    assert told.code == 0, told.err
    assert "up to 1 x 140 of images each" in told.out.replace("\n", " ")
    assert "vision tower and images" in told.out
    assert "vision tower" not in gesso("finetune", "--estimate", "--model", seeing).out
