"""`gesso doctor`: true figures of this machine, and commands that install what is missing."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from cli.conftest import Gesso
from gesso import __version__
from gesso.cli import doctor, doctor_parts


@pytest.fixture(autouse=True)
def briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "MATMUL", {"cpu": 64})
    monkeypatch.setattr(doctor, "SECONDS", 0.01)


def test_it_tells_what_is_here(gesso: Gesso, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("HF_ENDPOINT", "http://hub.example")
    told = json.loads(gesso("doctor", "--json").out)
    assert (told["versions"]["gesso"], told["versions"]["torch"]) == (__version__, torch.__version__)
    (cpu,) = told["devices"]
    assert cpu["device"] == "cpu"
    assert 0 < cpu["free"] <= cpu["memory"]
    assert set(cpu["matmul_operations"]) == {"float32", "bfloat16", "float16"}
    assert all(rate > 1e6 for rate in cpu["matmul_operations"].values())
    assert told["environment"]["OMP_NUM_THREADS"] == "3"
    assert told["environment"]["HF_ENDPOINT"] == "http://hub.example"
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


@pytest.mark.parametrize(("load", "told"), [(0.1, False), (500.0, True)])
def test_a_busy_machine_is_said_to_be(gesso: Gesso, monkeypatch: pytest.MonkeyPatch, load: float, told: bool) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    assert ("busy" in gesso("doctor").out) == told
    assert json.loads(gesso("doctor", "--json").out)["cpu"]["load"] == load


def test_a_dtype_without_a_product_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: Any) -> None:
        raise RuntimeError("not implemented")

    monkeypatch.setattr(torch, "mm", none)
    assert doctor._operations(torch.device("cpu"), torch.float16) is None


def test_what_is_missing_comes_with_the_command_that_installs_it(gesso: Gesso, monkeypatch: pytest.MonkeyPatch) -> None:
    def spec(name: str) -> object | None:
        return None if name in ("uvicorn", "prometheus_client", "transformers") else object()

    monkeypatch.setattr(doctor_parts, "find_spec", spec)
    monkeypatch.setattr(doctor_parts, "pip_install", lambda extra: f'pip install "gesso[{extra}]"')
    missing = json.loads(gesso("doctor", "--json").out)["missing"]
    assert [(part["part"], part["packages"], part["install"]) for part in missing] == [
        ("server", ["uvicorn", "prometheus-client"], 'pip install "gesso[server]"'),
        ("transformers", ["transformers"], "pip install transformers"),
    ]
    shown = gesso("doctor").out
    assert 'pip install "gesso[server]"' in shown
    assert "missing: uvicorn" in shown
    assert "left out: transformers" in shown
    monkeypatch.setattr(doctor_parts, "find_spec", lambda name: None if name in ("ray", "lm_eval") else object())
    shown = gesso("doctor").out
    assert "every optional part of gesso[all] is installed" in shown
    assert "left out: ray[serve]" in shown
    assert "left out: lm-eval" in shown
    assert "missing" not in shown
    monkeypatch.setattr(doctor_parts, "find_spec", lambda name: None if name in ("PIL", "av") else object())
    missing = json.loads(gesso("doctor", "--json").out)["missing"]
    assert [(part["part"], part["packages"], part["in_all"]) for part in missing] == [
        ("vision", ["pillow"], True),
        ("video", ["av"], True),
    ]
    monkeypatch.setattr(doctor_parts, "find_spec", lambda _: object())
    assert "every optional part is installed" in gesso("doctor").out


def test_a_folder_is_as_large_as_its_files_each_counted_once(tmp_path: Path) -> None:
    (tmp_path / "blobs").mkdir()
    (tmp_path / "blobs" / "a").write_bytes(b"x" * 1000)
    os.link(tmp_path / "blobs" / "a", tmp_path / "b")
    link = tmp_path / "c"
    link.symlink_to(tmp_path / "blobs" / "a")
    assert doctor.folder_size(tmp_path) == 1000 + link.lstat().st_size
    assert doctor.folder_size(tmp_path / "none") == 0
