"""`gesso lab`."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from runner.spread import make_adapter

from cli.conftest import Gesso

BASE = ("--task", "arithmetic", "-n", 2, "--set", "max_new_tokens=8 max_denoising_steps=2")


def test_one_json_line_and_a_file_that_is_added_to(gesso: Gesso, tmp_path: Path) -> None:
    out = ("--out", tmp_path / "lab.sqlite", "--report", tmp_path / "report.html")
    more = ("--set", "max_new_tokens=8 max-denoising-steps=2 sampler=remdm")
    outcome = gesso("lab", *BASE, *more, *out, "--json")
    assert (outcome.code, outcome.err, outcome.out.count("\n")) == (0, "", 1)
    told = json.loads(outcome.out)
    assert (told["made"], told["missing"], told["store"]) == (4, 0, str(tmp_path / "lab.sqlite"))
    assert [row["options"] for row in told["rows"]] == [
        {"max_new_tokens": 8, "max_denoising_steps": 2},
        {"max_new_tokens": 8, "max_denoising_steps": 2, "sampler": "remdm"},
    ]
    assert (tmp_path / "report.html").read_text("utf-8").startswith("<!doctype html>")
    shown = gesso("lab", *BASE, *more, *out)
    assert "0 answers made" in shown.out
    assert "sampler=remdm" in "".join(line.split("  ")[0] for line in shown.out.splitlines())


def test_answers_with_an_adapter_are_others(gesso: Gesso, bundled: Path, tmp_path: Path) -> None:
    adapter = make_adapter(bundled / "mini", tmp_path / "red")
    asked = ("lab", *BASE, "--out", tmp_path / "lab.sqlite", "--json")
    told = []
    for more in ((), ("--adapter", adapter), ("--adapter", adapter), ()):
        outcome = gesso(*asked, *more)
        assert outcome.code == 0, outcome.err
        result = json.loads(outcome.out)
        told.append((result["made"], [row["model"] for row in result["rows"]]))
    assert told == [(2, ["mini"]), (2, [f"mini + {adapter}"]), (0, [f"mini + {adapter}"]), (0, ["mini"])]
    with closing(sqlite3.connect(tmp_path / "lab.sqlite")) as kept:
        answers = kept.execute("SELECT model, group_concat(answer, '') FROM answers GROUP BY model").fetchall()
    assert len({answer for _, answer in answers}) == 2
    none = gesso(*asked, "--adapter", tmp_path / "none")
    assert (none.code, none.err.startswith("gesso: no adapter_config.json in ")) == (2, True)


def test_a_narrow_terminal_cuts_no_setting(gesso: Gesso, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    shown = gesso("lab", *BASE, "--out", tmp_path / "lab.sqlite")
    assert "max_denoising_steps=2" in shown.out


def test_a_grid_in_a_file(gesso: Gesso, tmp_path: Path) -> None:
    grid = tmp_path / "grid.json"
    fields = {"tasks": ["ordering"], "product": {"max_new_tokens": [8], "max_denoising_steps": [1, 2]}}
    grid.write_text(json.dumps(fields), encoding="utf-8")
    out = ("--out", tmp_path / "lab.sqlite", "-n", 1, "--json")
    told = json.loads(gesso("lab", grid, *out).out)
    assert [(row["task"], row["passes"]) for row in told["rows"]] == [("ordering", 1.0), ("ordering", 2.0)]
    assert json.loads(gesso("lab", grid, *out, "--task", "arithmetic").out)["rows"][0]["task"] == "arithmetic"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-n", 0), "--examples must be an integer of at least 1"),
        (("--max-minutes", 0), "--max-minutes must be above 0"),
        (("--max-minutes", "nan"), "--max-minutes must be above 0 and finite, got nan"),
        ((), "there is nothing to compare: give a GRID, or --set"),
        (("--model", "mini", "--threads", 0), "--threads must be an integer of at least 1, got 0"),
        (("--model", "mini", "--threads", 100_000), "--threads must be at most 1024, got 100000"),
        (("deep.json",), "deep.json is no JSON: "),
        (("--set", "sampler"), "--set takes NAME=VALUE, got 'sampler'"),
        (("--set", "samplr=remdm"), "a setting has no 'samplr'; known: "),
        (("--set", "seed=3"), "all settings share one seed: give --seed"),
        (("--set", "sampler=no"), "sampler must be one of"),
        (("--task", "chess"), "no task 'chess'; known: "),
        (("nowhere.json",), "no grid nowhere.json: No such file or directory; a grid is a JSON file"),
        (("--set", "a='b"), "--set"),
        (("--set", "top-k=2 top_k=4"), "--set 'top-k=2 top_k=4': top_k is given twice"),
        (("--report", "no/where.html"), "--report no/where.html: No such file or directory"),
        (("--report", "lab.sqlite"), "--report is lab.sqlite, which is read from: name another file"),
        (("deep.json", "--report", "./deep.json"), "--report is deep.json, which is read from: name another file"),
    ],
)
def test_mistakes_are_one_line(
    gesso: Gesso, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[object, ...], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "deep.json").write_text("[" * 200_000, encoding="utf-8")
    outcome = gesso("lab", "--out", tmp_path / "lab.sqlite", *arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(f"gesso: {message}")
