"""`gesso models`, `train`, `eval`, and the page about them all."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Gesso
from gesso import __version__
from gesso.cli.models import UNKNOWN
from gesso.cli.reference import api_reference, reference
from gesso.engine.engine import Engine, Request
from gesso.engine.result import GenerationResult
from gesso.models import hub
from gesso.models.hub import CachedModel
from gesso.tasks.registry import MINI_SKILLS
from gesso.train import evaluate

DOCS = Path(__file__).parents[2] / "docs"


def test_models_lists_what_is_here(gesso: Gesso, bundled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "cached", lambda: [CachedModel("org/other@v2", bundled / "mini", 3_000_000)])
    outcome = gesso("models")
    assert (outcome.code, outcome.err) == (0, "")
    rows = [line.split() for line in outcome.out.splitlines()]
    size = (bundled / "mini" / "model.safetensors").stat().st_size
    (line,) = [line for line in outcome.out.splitlines() if line.startswith("skills: ")]
    assert line.endswith("no images")  # a file has no width
    told = json.loads(gesso("models", "--json").out)
    parameters = told[0]["parameters"]
    assert rows[0] == ["model", "where", "size", "parameters", "context", "canvas"]
    assert rows[1] == ["mini", "bundled", f"{size / 1e6:.1f}", "MB", f"{parameters:,}", "4,096", "8"]
    assert rows[2] == ["skills", *rows[1][1:]]
    assert rows[3] == ["org/other@v2", "hub", "cache", "3.0", "MB", f"{parameters:,}", "4,096", "8"]
    assert "\nmini: tool calls, thinking; no images\n" in outcome.out
    assert [(model["name"], model["where"], model["bytes"]) for model in told] == [
        ("mini", "bundled", size), ("skills", "bundled", size), ("org/other@v2", "hub cache", 3_000_000),
    ]  # fmt: skip
    assert (told[0]["tool_calls"], told[0]["images"], told[0]["skills"]) == (UNKNOWN, "no", [])


def test_models_lists_what_cannot_be_used(gesso: Gesso, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config.json").write_text("{")
    monkeypatch.setattr(hub, "cached", lambda: [CachedModel("org/broken", tmp_path, 3)])
    outcome = gesso("models")
    assert outcome.code == 0
    assert "org/broken: cannot be used: " in outcome.out
    assert "error" in json.loads(gesso("models", "--json").out)[-1]


def test_models_show_tells_what_a_model_is_made_of(gesso: Gesso, bundled: Path) -> None:
    outcome = gesso("models", "show", "mini")
    assert gesso("models", "mini").out == outcome.out
    assert (outcome.code, outcome.err) == (0, "")
    plain = gesso("models", "show", "mini", "--json")
    assert plain.out.count("\n") == 1
    facts = json.loads(plain.out)
    assert facts["folder"] == str(bundled / "mini")
    assert (facts["layers"], facts["vocab_size"], facts["canvas_length"]) == ("2 (1 sliding, 1 full)", 1811, 8)
    assert (facts["max_denoising_steps"], facts["context"], facts["hidden_size"]) == (12, 4096, 24)
    assert 0 < facts["active_parameters"] < facts["parameters"]
    for name in facts:
        assert name.replace("_", " ") in outcome.out or name in ("skills", "measured_on", "limits")
    assert f"{facts['parameters']:,}" in outcome.out
    assert json.loads(gesso("models", "show", bundled / "mini", "--json").out) == facts


@pytest.mark.parametrize("columns", ["60", "80"])
def test_models_tell_what_their_card_says(
    gesso: Gesso, bundled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    folder = shutil.copytree(bundled / "mini", tmp_path / "mini")
    skill = {"name": "juggling", "example": "Juggle [bold]3[/bold] balls.", "right": 0.925, "low": 0.9, "high": 0.95}
    skill |= {"goal": 0.9, "steps": 2.5, "examples": 200, "command": "gesso eval"}
    (folder / "card.json").write_text(json.dumps({"skills": [skill], "limits": "It cannot swim."}))
    monkeypatch.setattr(hub, "_bundled_folder", lambda: tmp_path)
    listed = gesso("models").out
    assert "\nmini: juggling 92.5%; no tool calls, no thinking, no images\n" in listed
    shown = gesso("models", "show", "mini").out
    for part in ("92.5%", "90.0% to 95.0%", "juggling: Juggle [bold]3[/bold] balls.", "It cannot swim.", "format only"):
        assert part in shown
    assert json.loads(gesso("models", "show", "mini", "--json").out)["skills"] == [skill | {"whole": True}]
    assert all(len(line.rstrip()) <= int(columns) for line in (listed + shown).splitlines() if "/" not in line)


def test_train_lists_its_recipes(gesso: Gesso) -> None:
    outcome = gesso("train")
    assert (outcome.code, outcome.err) == (0, "")
    recipes = [line.strip() for line in outcome.out.splitlines() if line.startswith("  ")]
    assert all(len(line.split("  ", 1)) == 2 and line.endswith(".") for line in recipes)
    refused = gesso("train", "--estimate")
    assert (refused.code, refused.out) == (2, "")
    assert "name a recipe to train" in refused.err


def test_eval_measures_a_model(gesso: Gesso) -> None:
    """A random one: nothing is right. One step a canvas is enough to see that."""
    options = ("mini", "-n", 2, "--seed", 1, "--max-new-tokens", 32, "--max-denoising-steps", 1)
    told = json.loads(gesso("eval", *options, "--task", "arithmetic", "--json").out)
    assert (told["model"], told["seed"], len(told["tasks"])) == ("mini", 1, 1)
    (score,) = told["tasks"]
    assert (score["task"], score["examples"], score["right"], score["mean_steps"]) == ("arithmetic", 2, 0, 1.0)
    assert len(score["wrong"]) == 2
    shown = gesso("eval", *options, "--task", "arithmetic", "--task", "ordering", "--failures", 1)
    assert shown.code == 0
    assert [line.split()[:2] for line in shown.out.splitlines()[2:4]] == [["arithmetic", "0.0%"], ["ordering", "0.0%"]]
    assert shown.out.count("expected: ") == 2
    assert f"[arithmetic] {score['wrong'][0][0]}" in shown.out


@pytest.mark.parametrize(("rounds", "seen"), [("0", 0), ("2", 2), ("auto", "auto"), (None, None)])
def test_eval_verifies_as_often_as_it_is_told(
    gesso: Gesso, monkeypatch: pytest.MonkeyPatch, rounds: str | None, seen: object
) -> None:
    given: list[object] = []
    generate = Engine.generate_batch

    def spy(engine: Engine, requests: list[Request]) -> list[GenerationResult]:
        given.extend(request.options.get("verify") for request in requests)
        return generate(engine, requests)

    monkeypatch.setattr(Engine, "generate_batch", spy)
    options = () if rounds is None else ("--verify", rounds)
    short = ("--max-new-tokens", 32, "--max-denoising-steps", 1)
    outcome = gesso("eval", "mini", "--task", "arithmetic", "-n", 1, *short, *options)
    assert (outcome.code, given) == (0, [seen]), outcome.err


def test_an_evaluation_that_is_broken_off_shows_what_it_measured(gesso: Gesso, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = evaluate.evaluate_examples

    def broken_off(engine: Any, task: Any, *rest: Any, **more: Any) -> Any:
        if task.name == "ordering":
            raise KeyboardInterrupt
        return measured(engine, task, *rest, **more)

    monkeypatch.setattr(evaluate, "evaluate_examples", broken_off)
    short = ("-n", 1, "--max-new-tokens", 32, "--max-denoising-steps", 1)
    options = ("eval", "mini", *short, "--task", "arithmetic", "--task", "ordering")
    outcome = gesso(*options, "--json")
    told = json.loads(outcome.out)
    assert (outcome.code, [task["task"] for task in told["tasks"]], told["left"]) == (130, ["arithmetic"], ["ordering"])
    outcome = gesso(*options)
    assert (outcome.code, "arithmetic" in outcome.out, outcome.err) == (130, True, "not measured: ordering\n")


def test_eval_tells_a_tasks_groups_apart(gesso: Gesso) -> None:
    options = ("eval", "mini", "--task", "sudoku", "-n", 4, "--max-new-tokens", 32, "--max-denoising-steps", 1)
    (score,) = json.loads(gesso(*options, "--json").out)["tasks"]
    assert {name: group["examples"] for name, group in score["groups"].items()} == {"easy": 2, "medium": 1, "hard": 1}
    assert set(score["shares"]) == set(score["groups"]["hard"]["shares"]) == {"blanks right", "clues kept"}
    shown = gesso(*options).out
    assert "sudoku         all (4)" in shown
    assert all(f"{band} (" in shown for band in ("easy", "medium", "hard"))
    assert shown.count("\nblanks right ") == shown.count("\nclues kept ") == 1


def test_eval_takes_a_models_own_tasks(gesso: Gesso, bundled: Path, tmp_path: Path) -> None:
    shutil.copytree(bundled / "mini", tmp_path / "sudoku")
    told = json.loads(
        gesso("eval", tmp_path / "sudoku", "-n", 1, "--max-new-tokens", 32, "--max-denoising-steps", 1, "--json").out
    )
    assert [score["task"] for score in told["tasks"]] == ["sudoku"]


def test_eval_knows_every_skill(gesso: Gesso) -> None:
    outcome = gesso("eval", "--task", "nothing")
    assert all(skill in outcome.err for skill in (*MINI_SKILLS, "sudoku", "sql"))


def test_version(gesso: Gesso) -> None:
    outcome = gesso("--version")
    assert (outcome.code, outcome.out, outcome.err) == (0, f"gesso {__version__}\n", "")


@pytest.mark.parametrize("columns", ["40", "200"])
def test_the_reference_page_is_true_whatever_the_terminal(monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    """`make docs` writes it."""
    monkeypatch.setenv("COLUMNS", columns)
    assert (DOCS / "cli.md").read_text("utf-8") == reference()
    assert (DOCS / "api.md").read_text("utf-8") == api_reference()


def test_the_reference_page_names_every_command_and_option() -> None:
    page = reference()
    for command in ("generate", "chat", "replay", "models", "models show", "train", "eval"):
        assert f"## gesso {command}\n" in page
    for option in ("--entropy-bound", "--stability-threshold", "--start-canvas", "--trace", "-h, --help", "--json"):
        assert option in page


def test_help_is_the_reference_pages(gesso: Gesso, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    outcome = gesso("generate", "--help")
    assert outcome.code == 0
    assert "\n".join(line.rstrip() for line in outcome.out.strip().splitlines()) in reference()
    for name in ("json_schema", "max_denoising_steps", "negative_prompt"):
        assert name not in outcome.out, "a command line has flags"
    bare = gesso()
    assert bare.code == 2
    assert "Usage: gesso" in bare.out


def test_a_model_with_a_tower_is_said_to_take_images(
    gesso: Gesso, seeing_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One whose weights are not there yet takes none, and is listed all the same."""
    bare = tmp_path / "bare"
    shutil.copytree(seeing_folder, bare)
    for path in bare.glob("*.safetensors*"):
        path.unlink()
    found = [CachedModel("org/seeing", seeing_folder, 3), CachedModel("org/bare", bare, 3)]
    monkeypatch.setattr(hub, "cached", lambda: found)
    told = {model["name"]: model["images"] for model in json.loads(gesso("models", "--json").out)}
    assert told == {"mini": "no", "skills": "no", "org/seeing": "yes", "org/bare": "no"}
    assert "\norg/seeing: tool calls, thinking, images\n" in gesso("models").out
