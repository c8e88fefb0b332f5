"""`gesso bench` as it is typed."""

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from engine.tiny import CANVAS

from cli.conftest import Gesso, Outcome
from gesso.bench import measure, peer
from gesso.bench.floor import Rates
from gesso.cli.bench_tables import show_report
from gesso.extras import pip_install

SMALL = ("--prompt", 20, "--output", CANVAS, "--repeats", 1, "--warmup", 0)


@pytest.fixture
def bench(gesso: Gesso, monkeypatch: pytest.MonkeyPatch) -> Gesso:
    """A run of small cells at rates that are given, not measured: those take a second."""
    monkeypatch.setattr("gesso.bench.run.measure_rates", lambda *_: Rates(bytes=1e10, operations=1e11))
    monkeypatch.setenv("COLUMNS", "80")

    def call(*arguments: object, stdin: str | None = None) -> Outcome:
        return gesso("bench", *arguments, stdin=stdin)

    return call


def report_of(shown: Outcome) -> dict[str, Any]:
    (line,) = shown.out.splitlines()
    report: dict[str, Any] = json.loads(line)
    return report


def test_a_table_of_80_columns(bench: Gesso) -> None:
    shown = bench(*SMALL, "--batch", 2, "--steps", 1)
    assert (shown.code, shown.err) == (0, "")
    lines = [line.rstrip() for line in shown.out.splitlines()]
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith("mini: ")
    assert "canvases of 8, 1 step each" in shown.out
    for heading in ("A step beside its floor", "Tokens"):
        at = lines.index(heading)
        assert [line.split()[:3] for line in lines[at + 2 : at + 4]] == [
            ["20+8", "x2", "canvas"],
            ["20+8", "x2", "ar"],
        ]


@pytest.mark.parametrize("joules", [54321.0, None])
def test_large_figures_fit(bench: Gesso, capsys: pytest.CaptureFixture[str], joules: float | None) -> None:
    report = report_of(bench(*SMALL, "--steps", 1, "--json"))
    large = {"median": 23456.7, "low": 12345.6, "high": 34567.8}
    for cell in report["cells"]:
        cell |= {"prompt": 131072, "output": 4096, "batch": 16, "joules": joules, "peak_mb": 123456.0}
        cell |= {"step_ms": large, "tokens_per_s": large, "floor_ms": 12345.6, "times_floor": 123.4}
        cell |= {"steps_per_canvas": 48.0, "tokens_per_forward": 256.0, "times_ar": 12.34}
    report["peer"] = {"name": "transformers", "cells": [cell | {"first_block_s": large} for cell in report["cells"]]}
    show_report(report)
    shown = capsys.readouterr().out
    assert max(len(line.rstrip()) for line in shown.splitlines()) <= 80
    for figure in ("131072+4096 x16", "12,346..34,568", "123,456", "23456.700", "12.34", "123.4"):
        assert shown.count(figure) >= 2, figure
    assert shown.count("54,321") == (0 if joules is None else 2)


def test_a_narrow_terminal_cuts_no_figure(
    bench: Gesso, bundled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    (tmp_path / "then.json").write_text(bench(*SMALL, "--steps", 1, "--json").out)
    shown = bench(*SMALL, "--steps", 1, "--compare", tmp_path / "then.json").out
    meta = bench("--random-weights", bundled / "mini" / "config.json", "--device", "meta", "--prompt", 20).out
    assert "\N{HORIZONTAL ELLIPSIS}" not in shown + meta
    assert "1 repeat after 0 to warm up" in " ".join(shown.split())
    words = meta.split()
    at = words.index("20+64")
    assert words[at + 1 : at + 3] == ["x1", "canvas"]
    figures = [float(word) for word in words[at + 3 : at + 9]]
    assert figures[-1] == pytest.approx(sum(figures[:-1]), abs=0.05)


def test_one_line_with_everything(bench: Gesso) -> None:
    report = report_of(bench("mini", *SMALL, "--steps", 2, "--json"))
    assert report["complete"] is True
    assert (report["steps"], report["repeats"], report["warmup"]) == (2, 1, 0)
    assert report["model"]["name"] == "mini"
    canvas, ar = report["cells"]
    assert (canvas["mode"], canvas["steps_per_canvas"], canvas["tokens_per_forward"]) == ("canvas", 2, CANVAS / 2)
    assert canvas["times_ar"] == canvas["tokens_per_s"]["median"] / ar["tokens_per_s"]["median"]
    assert canvas["times_floor"] == canvas["step_ms"]["median"] / canvas["floor_ms"]
    assert report["machine"]["gb_per_s"] == 10


def test_changes_since_an_earlier_run(bench: Gesso, tmp_path: Path) -> None:
    first = bench(*SMALL, "--mode", "canvas", "--steps", 2, "--json")
    (tmp_path / "first.json").write_text(first.out)
    shown = bench(*SMALL, "--steps", 1, "--compare", tmp_path / "first.json")
    assert shown.code == 0
    told = shown.out[shown.out.index("Since 2") :]
    assert told.count("%") == 4
    assert "not as it was then: steps" in told
    assert SMALL[0] == "--prompt"
    again = report_of(bench("--prompt", 9, *SMALL[2:], "--compare", tmp_path / "first.json", "--json"))
    assert again["changes"]["cells"] == []


def test_random_weights(bench: Gesso, bundled: Path) -> None:
    shown = bench("--random-weights", bundled / "mini" / "config.json", *SMALL, "--mode", "canvas")
    assert shown.code == 0
    assert "16 steps each: random weights never settle" in " ".join(shown.out.split())


def test_random_weights_in_fewer_bits(bench: Gesso, bundled: Path) -> None:
    shape, small = bundled / "mini" / "config.json", (*SMALL, "--mode", "ar", "--json")
    whole, packed = (
        report_of(bench("--random-weights", shape, "--dtype", "bfloat16", *more, *small))
        for more in ((), ("--quantize", "fp8"))
    )
    assert packed["model"]["name"] == f"{shape} in fp8"
    assert packed["model"]["weights_mb"] < whole["model"]["weights_mb"]
    assert packed["model"]["parameters"] == whole["model"]["parameters"]


def test_bytes_are_counted_without_a_device(bench: Gesso, bundled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gesso.bench.random_weights.initialise", lambda *_: pytest.fail("allocated"))
    asked = ("--random-weights", bundled / "mini" / "config.json", "--device", "meta", "--prompt", 20, "--output", 8)
    shown = bench(*asked)
    assert (shown.code, shown.err) == (0, "")
    lines = [line.rstrip() for line in shown.out.splitlines()]
    assert max(map(len, lines[1:])) <= 80
    assert lines[lines.index("MB on the device") + 2].split()[:3] == ["20+8", "x1", "canvas"]
    report, packed, table = (
        report_of(bench(*asked, *more, "--json"))
        for more in ((), ("--quantize", "int8"), ("--quantize", "int8", "--quantize-embedding", "int8"))
    )
    assert [cell["mode"] for cell in report["cells"]] == ["canvas", "ar"]
    for cell in report["cells"]:
        assert cell["total"] == sum(cell[part] for part in ("experts", "dense", "table", "cache", "workspace"))
    assert report["model"]["dtype"] == "bfloat16"
    assert packed["cells"][0]["experts"] < 0.7 * report["cells"][0]["experts"]
    assert packed["cells"][0]["table"] == report["cells"][0]["table"]
    assert table["cells"][0]["table"] < 0.7 * report["cells"][0]["table"]
    assert table["cells"][0]["experts"] == packed["cells"][0]["experts"]
    assert table["model"]["name"] == f"{asked[1]} in int8, table in int8"


def test_a_picture(bench: Gesso, tmp_path: Path) -> None:
    assert bench(*SMALL, "--mode", "ar", "--plot", tmp_path / "out.png").code == 0
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")


def test_ctrl_c_shows_what_was_measured(bench: Gesso, monkeypatch: pytest.MonkeyPatch) -> None:
    count, step = iter(range(1000)), measure.TimedLoop.step

    def interrupted(loop: measure.TimedLoop) -> object:
        if next(count) == 2:
            signal.raise_signal(signal.SIGINT)
        return step(loop)

    monkeypatch.setattr(measure.TimedLoop, "step", interrupted)
    report = bench(*SMALL, "--steps", 2, "--mode", "canvas", "--batch", "1,2", "--json")
    assert report.code == 130
    assert [cell["batch"] for cell in report_of(report)["cells"]] == [1]
    assert report_of(report)["complete"] is False
    count = iter(range(1000))
    shown = bench(*SMALL, "--steps", 2, "--mode", "canvas", "--batch", "1,2")
    assert shown.out.rstrip().endswith("interrupted: this is what was measured so far")


def test_threads(bench: Gesso, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", told.append)
    assert bench(*SMALL, "--threads", 1, "--mode", "ar").code == 0
    assert told == [1]


# The peer


def test_the_peer_is_given_the_same_prompts_and_told_beside(
    bench: Gesso, bundled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs: list[dict[str, Any]] = []
    one = {"median": 1.0, "low": 1.0, "high": 1.0}

    def run(_command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        jobs.append(json.loads(options["input"]))
        cell = {"prompt": 20, "output": CANVAS, "batch": 2, "mode": "canvas", "steps_per_canvas": 2.0}
        told = json.dumps([cell | dict.fromkeys(("first_block_s", "step_ms", "tokens_per_s"), one)])
        return subprocess.CompletedProcess([], 0, stdout=f"a warning\n{told}\n", stderr="")

    monkeypatch.setattr(peer.subprocess, "run", run)
    shown = bench(*SMALL, "--batch", 2, "--steps", 2, "--peer", "transformers")
    assert shown.code == 0
    assert "The same weights in transformers" in shown.out
    (job,) = jobs
    assert (job["folder"], job["dtype"], job["steps"]) == (str(bundled.resolve() / "mini"), "float32", 2)
    assert [len(ids) for ids in job["cells"][0]["prompts"]] == [20, 20]
    assert len(job["cells"]) == 1


def test_a_peer_that_fails_takes_nothing_with_it(bench: Gesso, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = subprocess.CompletedProcess([], 1, stdout="", stderr="Traceback\nKeyError: 'x'\n")
    monkeypatch.setattr(peer.subprocess, "run", lambda *_, **__: failed)
    shown = bench(*SMALL, "--mode", "canvas", "--peer", "transformers")
    assert shown.code == 1
    assert "A step beside its floor" in shown.out
    assert "transformers failed: KeyError: 'x'" in shown.out


def test_ctrl_c_in_the_peer_leaves_what_gesso_measured(bench: Gesso, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(peer.subprocess, "run", interrupted)
    shown = bench(*SMALL, "--mode", "canvas", "--steps", 1, "--peer", "transformers")
    assert shown.code == 130
    assert "A step beside its floor" in shown.out
    assert shown.out.rstrip().endswith("interrupted: this is what was measured so far")


def test_the_peer_itself(bench: Gesso) -> None:
    report = report_of(bench(*SMALL, "--mode", "canvas", "--steps", 2, "--peer", "transformers", "--json"))
    (cell,) = report["peer"]["cells"]
    assert cell["steps_per_canvas"] == 2
    assert 0 < cell["step_ms"]["median"] / 1e3 < cell["first_block_s"]["median"]
    assert cell["tokens_per_s"]["median"] > 0


# Mistakes


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--prompt", ""), "--prompt is empty"),
        (("--prompt", "a"), "--prompt takes whole numbers separated by commas, got 'a'"),
        (("--output", "8,0"), "--output must be at least 1, got 0"),
        (("--batch", ","), "--batch is empty"),
        (("--mode", "fast"), "--mode 'fast' is not measured"),
        (("--mode", "auto"), "--mode 'auto' is not measured; known: canvas, ar"),
        (("--mode", ""), "--mode is empty"),
        (("--prompt", "4090"), "--prompt 4090 and --output 64 (in canvases of 8) are past the model's 4096"),
        (("--steps", "few"), "--steps takes real or a whole number, got 'few'"),
        (("--steps=--5",), "--steps takes real or a whole number, got '--5'"),
        (("--image-budget", "70"), "--image-budget needs --image"),
        (("--random-weights", "x.json", "--image-budget", "70"), "--image-budget needs --image"),
        *(
            (("--random-weights", "x.json", "--device", device, *option), f"{option[0]} needs a checkpoint")
            for device in ("cpu", "meta")
            for option in (("--tensor-parallel", "4"), ("--pipeline-parallel", "3"), ("--cuda-graphs",))
        ),
        (("--steps", "0"), "--steps must be `real` or at least 1, got 0"),
        (("--steps", "3", "--mode", "ar"), "--steps counts the steps of a canvas"),
        (("--repeats", "0"), "--repeats must be an integer of at least 1, got 0"),
        (("--warmup", "-1"), "--warmup must be an integer of at least 0, got -1"),
        (("--threads", "0"), "--threads must be an integer of at least 1"),
        (("mini", "--random-weights", "x.json"), "--random-weights and mini contradict"),
        (("--random-weights", "x.json"), "--random-weights x.json: there is no such file"),
        (("--random-weights", "x.json", "--steps", "real"), "--steps real needs real weights"),
        (("--random-weights", "x.json", "--peer", "transformers"), "--peer needs a checkpoint"),
        (("--quantize", "int4"), "--quantize needs --random-weights"),
        (("--quantize-embedding", "int4"), "--quantize-embedding needs --random-weights"),
        (("--device", "meta"), "--device meta counts the bytes of a shape: it needs --random-weights"),
        (("--random-weights", "x.json", "--quantize", "nf4", "--device", "meta"), "--random-weights x.json: there is"),
        *(
            (("--random-weights", "x.json", "--device", "meta", option, value), f"{option} is for measuring")
            for option, value in [
                ("--steps", "3"),
                ("--repeats", "2"),
                ("--warmup", "0"),
                ("--threads", "1"),
                ("--plot", "p.png"),
            ]
        ),
        (("--peer", "vllm"), "--peer 'vllm' does not exist; known: transformers"),
        (("--peer", "transformers", "--mode", "ar"), "--peer transformers writes canvases only"),
        (("--compare", "none.json"), "--compare none.json: No such file"),
        (("--plot", "no/where.png"), "--plot no/where.png: No such file or directory"),
        (("--plot", "where.txt"), "--plot where.txt: its name must end in .png, .svg, .pdf"),
        (("nowhere",), "no model 'nowhere'"),
        (("--device", "abacus"), "device 'abacus' does not exist"),
    ],
)
def test_a_mistake_is_one_line(bench: Gesso, arguments: tuple[str, ...], message: str) -> None:
    shown = bench(*arguments)
    assert (shown.code, shown.out) == (2, "")
    assert message in shown.err
    assert shown.err.count("\n") == 1


def test_what_is_not_installed_is_named(bench: Gesso, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    shown = bench("--plot", "out.png")
    assert (shown.code, shown.err) == (2, f"gesso: --plot needs matplotlib: {pip_install('train')}\n")
    monkeypatch.setattr(peer, "find_spec", lambda _: None)
    assert "--peer transformers is not installed" in bench("--peer", "transformers").err
    monkeypatch.setattr(peer, "SCRIPT", Path("nowhere.py"))
    assert "--peer transformers works from a source checkout only" in bench("--peer", "transformers").err


def test_images_are_in_the_prompt_and_in_the_report(bench: Gesso, tmp_path: Path) -> None:
    from engine.seeing import make_seeing_folder, png

    folder, file = make_seeing_folder(tmp_path / "seeing"), tmp_path / "a.png"
    file.write_bytes(png())
    options = (folder, "--prompt", 80, "--output", CANVAS, "--repeats", 1, "--warmup", 0, "--mode", "canvas")
    shown = bench(*options, "--steps", 1, "--image", file, "--image-budget", 70)
    assert (shown.code, shown.err) == (0, "")
    assert "A prompt's 1 image of 64 soft tokens: prepared in" in shown.out
    assert max(len(line.rstrip()) for line in shown.out.splitlines()) <= 80
    report = report_of(bench(*options, "--steps", 1, "--image", file, "--image-budget", 70, "--json"))
    assert report["images"]["soft_tokens"] == [64]
    assert report_of(bench(*options, "--steps", 1, "--json")).get("images") is None
    for more, message in (
        ((folder, "--prompt", 20, "--image", file, "--image-budget", 70), "--prompt 20 counts the images' tokens"),
        ((folder, "--image", file, "--peer", "transformers"), "is shown no images"),
        (("mini", "--image", file), "--image: this model reads text only"),
        (("--random-weights", folder, "--image", file), "--image needs a checkpoint with a vision tower"),
        ((folder, "--image", tmp_path / "none.png"), "none.png' is no file"),
    ):
        refused = bench(*more)
        assert (refused.code, refused.out) == (2, "")
        assert message in refused.err
