"""`gesso doctor`: true figures of this machine, and commands that install what is missing."""

import json
import os
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest
import torch

from cli.conftest import Gesso
from gesso import __version__
from gesso.cli import doctor

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))["project"]


def packages(requirements: list[str]) -> set[str]:
    return {requirement.partition(">")[0].strip() for requirement in requirements}


@pytest.fixture(autouse=True)
def briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "MATMUL", {"cpu": 64})
    monkeypatch.setattr(doctor, "SECONDS", 0.01)


def test_it_tells_what_is_here(gesso: Gesso, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    told = json.loads(gesso("doctor", "--json").out)
    assert (told["versions"]["gesso"], told["versions"]["torch"]) == (__version__, torch.__version__)
    (cpu,) = told["devices"]
    assert cpu["device"] == "cpu"
    assert 0 < cpu["free"] <= cpu["memory"]
    assert set(cpu["matmul_operations"]) == {"float32", "bfloat16", "float16"}
    assert all(rate > 1e6 for rate in cpu["matmul_operations"].values())
    assert told["environment"]["OMP_NUM_THREADS"] == "3"
    assert told["cpu"]["cores"] >= 1


@pytest.mark.parametrize("columns", ["60", "80"])
def test_it_fits_a_terminal(gesso: Gesso, monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    outcome = gesso("doctor")
    assert (outcome.code, outcome.err) == (0, "")
    for part in ("versions", "machine", "device cpu", "float32", "GFLOP/s", "Hugging Face"):
        assert part in outcome.out
    lines = [line.rstrip() for line in outcome.out.splitlines() if "pip install" not in line]
    assert all(len(line) <= int(columns) for line in lines)


def test_a_dtype_without_a_product_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: Any) -> None:
        raise RuntimeError("not implemented")

    monkeypatch.setattr(torch, "mm", none)
    assert doctor._operations(torch.device("cpu"), torch.float16) is None


def test_what_is_missing_comes_with_the_command_that_installs_it(gesso: Gesso, monkeypatch: pytest.MonkeyPatch) -> None:
    def spec(name: str) -> object | None:
        return None if name in ("uvicorn", "prometheus_client", "transformers") else object()

    monkeypatch.setattr(doctor, "find_spec", spec)
    monkeypatch.setattr(doctor, "_requirement", lambda extra: f'"gesso[{extra}]"')
    missing = json.loads(gesso("doctor", "--json").out)["missing"]
    assert [(part["part"], part["packages"], part["install"]) for part in missing] == [
        ("server", ["uvicorn", "prometheus-client"], 'pip install "gesso[server]"'),
        ("transformers", ["transformers"], "pip install transformers"),
    ]
    shown = gesso("doctor").out
    assert 'pip install "gesso[server]"' in shown
    monkeypatch.setattr(doctor, "find_spec", lambda _: object())
    assert "every optional part is installed" in gesso("doctor").out


@pytest.mark.parametrize(
    ("source", "requirement"),
    [
        (None, '"gesso[train]"'),
        ({"url": "https://example.org/gesso.whl"}, '"gesso[train]"'),
        ({"url": "file:///a%20b/gesso", "dir_info": {"editable": True}}, '-e "/a b/gesso[train]"'),
        ({"url": "file:///a/gesso", "dir_info": {}}, '"/a/gesso[train]"'),
    ],
)
def test_the_command_installs_where_gesso_came_from(
    monkeypatch: pytest.MonkeyPatch, source: dict[str, Any] | None, requirement: str
) -> None:
    class Installed:
        def read_text(self, name: str) -> str | None:
            assert name == "direct_url.json"
            return None if source is None else json.dumps(source)

    monkeypatch.setattr("importlib.metadata.distribution", lambda _: Installed())
    assert doctor._requirement("train") == requirement

    def absent(_: str) -> None:
        raise PackageNotFoundError

    monkeypatch.setattr("importlib.metadata.distribution", absent)
    assert doctor._requirement("train") == '"gesso[train]"'


def test_the_parts_are_those_of_the_project() -> None:
    assert set(doctor.NEEDED) == packages(PROJECT["dependencies"])
    for extra in doctor.EXTRAS:
        assert set(doctor.PARTS[extra][1].values()) == packages(PROJECT["optional-dependencies"][extra])


def test_a_folder_is_as_large_as_its_files_each_counted_once(tmp_path: Path) -> None:
    (tmp_path / "blobs").mkdir()
    (tmp_path / "blobs" / "a").write_bytes(b"x" * 1000)
    os.link(tmp_path / "blobs" / "a", tmp_path / "b")
    link = tmp_path / "c"
    link.symlink_to(tmp_path / "blobs" / "a")
    assert doctor.folder_size(tmp_path) == 1000 + link.lstat().st_size
    assert doctor.folder_size(tmp_path / "none") == 0
