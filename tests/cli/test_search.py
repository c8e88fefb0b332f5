"""`gesso generate` and `gesso eval` with `--best-of` and `--particles`."""

import json
from pathlib import Path

import pytest

from cli.conftest import Gesso
from gesso.api import load
from gesso.engine.engine import Engine

PROMPT = "What is 2 + 3?"
SHORT = ("--max-new-tokens", 8, "--max-denoising-steps", 4, "--seed", 4)


@pytest.fixture(scope="module")
def engine(bundled: Path) -> Engine:
    return load(bundled / "mini", "cpu")


def test_the_likeliest_of_some_is_printed(gesso: Gesso) -> None:
    told = json.loads(gesso("generate", "--best-of", 3, "--json", *SHORT, PROMPT).out)
    search = told["search"]
    assert [candidate["seed"] for candidate in search["candidates"]] == [4, 5, 6]
    best = max(search["candidates"], key=lambda candidate: candidate["mean_logprob"])
    assert (told["seed"], search["passed"], search["scoring_passes"]) == (best["seed"], None, 3)
    plain = gesso("generate", "--best-of", 3, *SHORT, PROMPT)
    assert (plain.code, plain.out) == (0, told["text"] + "\n")
    assert plain.err == f"3 of 3 candidates; 3 scoring passes; {search['denoising_passes']} denoising passes\n"


def test_a_check_that_finds_none_right_is_exit_1(gesso: Gesso) -> None:
    outcome = gesso("generate", "--best-of", 2, "--check", "arithmetic", *SHORT, PROMPT)
    assert outcome.code == 1
    assert outcome.err.startswith("none right, says the check; 2 of 2 candidates; 0 scoring passes; ")


def test_a_function_ends_the_search(gesso: Gesso, engine: Engine, tmp_path: Path) -> None:
    wanted = engine.generate(PROMPT, seed=5, max_new_tokens=8, max_denoising_steps=4).text
    check = tmp_path / "check.py"
    check.write_text(f"def same(prompt, text):\n    return prompt == {PROMPT!r} and text == {wanted!r}\n", "utf-8")
    outcome = gesso("generate", "--best-of", 9, "--check", f"{check}:same", *SHORT, PROMPT)
    assert (outcome.code, outcome.out) == (0, wanted + "\n")
    assert outcome.err.startswith("right, says the check; 2 of 9 candidates; ")


def test_particles(gesso: Gesso) -> None:
    told = json.loads(gesso("generate", "--particles", 3, "--json", *SHORT, PROMPT).out)
    assert len(told["search"]["particles"]) == 3
    assert told["search"]["denoising_passes"] <= 12
    outcome = gesso("generate", "--particles", 2, "--check", "arithmetic", "--resample-every", 1, *SHORT, PROMPT)
    assert outcome.code == 1
    assert outcome.err.startswith("none right, says the check; 2 of 2 particles finished; ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--best-of", 2, "--particles", 2), "--best-of and --particles contradict each other"),
        (("--check", "sudoku"), "--check needs --best-of or --particles"),
        (("--select", "consistency"), "--select needs --best-of"),
        (("--best-of", 2, "--at-once", 2), "--at-once needs --check"),
        (("--check", "sudoku", "--particles", 2, "--augment"), "--augment needs --best-of"),
        (("--best-of", 2, "--augment"), "--augment needs --check"),
        (
            ("--best-of", 2, "--check", "arithmetic", "--augment"),
            "--augment needs other forms of a prompt, and the check arithmetic has none",
        ),
        (("--reference", "5", "--best-of", 2), "--reference needs --check"),
        (("--resample-every", 2), "--resample-every needs --particles"),
        (("--reward-scale", 2), "--reward-scale needs --particles"),
        (("--best-of", 0), "--best-of must be an integer of at least 1, got 0"),
        (("--best-of", 2, "--select", "luck"), "--select must be one of likelihood, consistency, got 'luck'"),
        (("--best-of", 2, "--check", "no"), "no task 'no' to check by"),
        (("--best-of", 2, "--trace", "x.jsonl"), "--trace writes one answer's events"),
        (("--particles", 2, "--max-new-tokens", 9), "--particles have one canvas, of 8 tokens"),
        (("--best-of", 2, "--check", "sudoku"), "a Sudoku grid is nine lines of nine digits"),
    ],
)
def test_mistakes_are_one_line(gesso: Gesso, arguments: tuple[object, ...], message: str) -> None:
    outcome = gesso("generate", *arguments, PROMPT)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(f"gesso: {message}")


def test_an_evaluation_counts_every_pass(gesso: Gesso) -> None:
    options = ("--task", "arithmetic", "-n", 2, "--max-new-tokens", 32, "--max-denoising-steps", 2, "--json")
    once = json.loads(gesso("eval", "mini", *options).out)["tasks"][0]
    for check in ("task", "reference"):
        more = json.loads(gesso("eval", "mini", *options, "--best-of", 3, "--check", check).out)["tasks"][0]
        assert more["right"] == once["right"] == 0
        assert more["mean_passes"] > 2 * once["mean_passes"]
        assert more["mean_steps"] == pytest.approx(once["mean_steps"], rel=0.5), "per canvas, of all candidates"
    assert more["mean_steps"] <= more["p95_steps"] <= 2
    scored = json.loads(gesso("eval", "mini", *options, "--best-of", 1).out)["tasks"][0]
    assert scored["mean_steps"] == once["mean_steps"], "what reads the likelihood denoises nothing"
    assert scored["mean_passes"] == once["mean_passes"] + 1, "the pass that reads the likelihood"


def test_an_evaluation_by_particles_counts_their_canvases(gesso: Gesso) -> None:
    options = ("--task", "arithmetic", "-n", 2, "--max-denoising-steps", 2, "--stopping", "last_step", "--json")
    told = json.loads(gesso("eval", "mini", *options, "--particles", 4).out)["tasks"][0]
    assert (told["mean_steps"], told["p95_steps"], told["mean_passes"]) == (2, 2, 8)


def test_an_evaluation_refuses_what_the_command_does_not_have(gesso: Gesso) -> None:
    outcome = gesso("eval", "mini", "--task", "arithmetic", "-n", 1, "--check", "task")
    assert (outcome.code, outcome.err) == (2, "gesso: --check needs --best-of or --particles\n")
    outcome = gesso("eval", "mini", "--task", "code", "-n", 1, "--best-of", 2, "--check", "task")
    assert outcome.code == 2
    assert "code cannot tell a right answer without its reference" in outcome.err
