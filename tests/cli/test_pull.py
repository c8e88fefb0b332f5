"""`gesso pull`: what it prints, and what it refuses before it asks anybody."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from models.breaking_hub import REPO, Hub, point_at, serving
from oracle import Shape, random_model

from cli.conftest import Gesso
from gesso.models.saving import save_folder


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    save_folder(random_model(Shape("sf", hidden=64, mlp=64, head_dim=16, expert_size=64)), tmp_path / "source")
    with serving(Hub(tmp_path / "source")) as served:
        point_at(served, tmp_path / "cache", monkeypatch)
        yield served


def test_a_model_is_pulled_and_found_by_its_id(gesso: Gesso, hub: Hub) -> None:
    told = gesso("pull", REPO)
    assert (told.code, told.err) == (0, "")
    size = (hub.folder / "model.safetensors").stat().st_size
    line, folder = told.out.splitlines()
    assert line == f"{size / 1e6:.2f} MB of weights, every checksum right"
    assert (Path(folder) / "model.safetensors").exists()
    assert gesso("models", "show", REPO, "--offline").code == 0


def test_it_is_quantized_on_the_way(gesso: Gesso, hub: Hub, tmp_path: Path) -> None:
    told = gesso("pull", REPO, "--quantize", "int4", "--embedding", "int8", "--out", tmp_path / "small")
    assert (told.code, told.err) == (0, "")
    before = (hub.folder / "model.safetensors").stat().st_size
    after = sum(path.stat().st_size for path in (tmp_path / "small").glob("*.safetensors"))
    lines = told.out.splitlines()
    assert lines[0] == f"{before / 1e6:.2f} MB before, {after / 1e6:.2f} MB after ({after / before:.0%})"
    assert lines[2] == str(tmp_path / "small")
    whole = gesso("pull", REPO, "--fit", "1GB", "--out", tmp_path / "whole")
    told = re.match(r"as it is: ([0-9.]+) MB with 8,192 tokens of context\n", whole.out)
    assert told is not None, whole
    assert (tmp_path / "whole" / "model.safetensors").read_bytes() == (hub.folder / "model.safetensors").read_bytes()
    smaller = f"{float(told[1]) - 0.01:.2f}MB"
    fitted = gesso("pull", REPO, "--fit", smaller, "--out", tmp_path / "fitted")
    assert fitted.out.startswith("dense int8, experts int8: ")
    same = gesso("quantize", hub.folder, "--fit", smaller, "--out", tmp_path / "same")
    assert same.out.splitlines()[:3] == fitted.out.splitlines()[:3]
    again = gesso("pull", REPO, "--quantize", "int4", "--out", tmp_path / "small")
    assert again.code == 2
    assert "is there already and no empty folder" in again.err


def test_ctrl_c_says_that_it_goes_on(gesso: Gesso, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("gesso.models.pull.fetch_file", stopped)
        told = gesso("pull", REPO)
    assert told.code == 130
    assert told.err == "gesso: stopped; the same command again goes on where it was\n"
    assert gesso("pull", REPO).code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((REPO, "--quantize", "int4"), "name one with --out"),
        ((REPO, "--fit", "1GB"), "name one with --out"),
        ((REPO, "--quantize", "int4", "--fit", "1GB", "--out", "x"), "not both"),
        ((REPO, "--quantize", "int3", "--out", "x"), "--quantize 'int3' does not exist; known: int8, int4"),
        ((REPO, "--quantize", "none", "--out", "x"), "--quantize 'none' does not exist"),
        ((REPO, "--fit", "1GB", "--dense", "int8", "--out", "x"), "--fit picks all formats"),
        ((REPO, "--fit", "small", "--out", "x"), "--fit takes a size such as 4GiB"),
        ((REPO, "--dense", "int8"), "they need --quantize"),
        (("mini",), "mini comes with gesso"),
        ((".",), "is here already; gesso quantize makes a smaller copy"),
        (("nothing",), "no model 'nothing'"),
        (("",), "no model ''"),
        (("~nobody-here/model",), "no model '~nobody-here/model'"),
    ],
)
def test_mistakes_get_one_line(
    gesso: Gesso, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    told = gesso("pull", *arguments)
    assert (told.code, told.out) == (2, "")
    assert message in told.err
    assert told.err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_gguf_file_is_not_pulled(gesso: Gesso) -> None:
    told = gesso("pull", "acme/poet/poet-Q8_0.gguf@main", "--out", "small")
    assert (told.code, told.out) == (2, "")
    first, hint = told.err.splitlines()
    assert first == "gesso: acme/poet/poet-Q8_0.gguf@main is a GGUF file, and gesso pull fetches safetensors weights"
    assert hint.endswith("gesso quantize acme/poet/poet-Q8_0.gguf@main --to int8 --out FOLDER")
