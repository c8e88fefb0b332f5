"""`gesso reinforce`: from prompts with rewards to an adapter in use."""

import json
from pathlib import Path

import pytest

from cli.conftest import Gesso


def test_an_adapter_is_trained_and_used(gesso: Gesso, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("def short(prompt, answer):\n    return 1 / (1 + len(answer))\n", "utf-8")
    (tmp_path / "moved.py").write_bytes((tmp_path / "own.py").read_bytes())
    run = tmp_path / "run"
    options = ("--task", "arithmetic", "--reward", f"{tmp_path / 'own.py'}:short", "--max-new-tokens", 8)
    sizes = ("--steps", 2, "--batch-size", 1, "--group-size", 3, "--max-denoising-steps", 2)
    outcome = gesso("reinforce", "mini", "--out", run, *options, *sizes, "--stop-at", 1, "--learning-rate", 1e-5)
    assert outcome.code == 0, outcome.err
    assert outcome.out == f"{run / 'adapter'}\n"
    assert "steps 1 to 1" in outcome.err
    spelled = ("--task", "arithmetic", "--reward", f"{tmp_path}/./moved.py:short", "--max-new-tokens", 8)
    again = gesso("reinforce", "mini", "--out", run, *spelled, *sizes)
    assert again.code == 0, again.err
    assert "steps 2 to 2" in again.err
    assert "learning rate" not in outcome.err
    assert "learning rate 1e-05, that of the run so far: --learning-rate\n" in again.err
    steps = [json.loads(line)["step"] for line in (run / "metrics.jsonl").read_text("utf-8").splitlines()]
    assert steps == [1, 2]
    states = [json.loads((run / f"step-00000{step}" / "trainer.json").read_text("utf-8")) for step in steps]
    assert [state["learning_rate"] for state in states] == [1e-5, 1e-5]
    used = gesso("generate", "What is 2 + 2?", "--adapter", run / "adapter", "--max-denoising-steps", 2)
    assert used.code == 0, used.err


def test_a_run_goes_on_from_an_adapter(gesso: Gesso, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("def short(prompt, answer):\n    return 1 / (1 + len(answer))\n", "utf-8")
    options = ("--task", "arithmetic", "--reward", f"{tmp_path / 'own.py'}:short", "--max-new-tokens", 8)
    sizes = ("--steps", 1, "--batch-size", 1, "--group-size", 2, "--max-denoising-steps", 2)
    first = gesso("reinforce", "mini", "--out", tmp_path / "one", *options, *sizes, "--rank", 3)
    assert first.code == 0, first.err
    adapter = tmp_path / "one" / "adapter"
    outcome = gesso("reinforce", "mini", "--out", tmp_path / "two", *options, *sizes, "--adapter", adapter)
    assert outcome.code == 0, outcome.err
    config = json.loads((tmp_path / "two" / "adapter" / "adapter_config.json").read_text("utf-8"))
    assert config["r"] == 3
    other = gesso("reinforce", "mini", "--out", tmp_path / "two", *options, *sizes)
    assert (other.code, "adapter" in other.err) == (2, True)
    itself = gesso("reinforce", "mini", "--out", tmp_path / "one", *options, *sizes, "--adapter", adapter)
    assert "whose adapter is read from: name another folder" in " ".join(itself.err.split())


def test_a_run_of_a_time_with_one_rate_for_all_models_keeps_it(gesso: Gesso, tmp_path: Path) -> None:
    options = ("--task", "arithmetic", "--max-new-tokens", 8, "--batch-size", 1, "--group-size", 2)
    run = ("reinforce", "mini", "--out", tmp_path / "run", *options, "--steps", 2, "--max-denoising-steps", 1)
    assert gesso(*run, "--stop-at", 1).code == 0
    state = tmp_path / "run" / "step-000001" / "trainer.json"
    state.write_text(json.dumps({**json.loads(state.read_text("utf-8")), "learning_rate": None}), "utf-8")
    again = gesso(*run)
    assert "learning rate 2e-05, the default when this run began, which does not say its own:" in again.err


def test_rewards_that_teach_nothing_are_said_once(gesso: Gesso, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("def same(prompt, answer):\n    return 1\n", "utf-8")
    options = ("--task", "arithmetic", "--reward", f"{tmp_path / 'own.py'}:same", "--max-new-tokens", 8)
    sizes = ("--steps", 2, "--batch-size", 1, "--group-size", 2, "--max-denoising-steps", 1)
    outcome = gesso("reinforce", "mini", "--out", tmp_path / "run", *options, *sizes)
    assert outcome.code == 0, outcome.err
    assert "learning rate 0.0003, the default for a model of this size:" in outcome.err
    told = " ".join(outcome.err.split())
    assert told.count("warning: step 1: the answers of each group had one reward, so nothing is learned") == 1
    assert told.count("nothing is learned") == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "from --task or from --prompts"),
        (("--task", "arithmetic", "--prompts", "p.jsonl"), "from --task or from --prompts"),
        (("--task", "nothing"), "no task 'nothing'; known: json"),
        (("--task", "arithmetic", "--reward", "good"), "no reward 'good'; known: right, score"),
        (("--task", "arithmetic", "--reward", "none.py:f"), "there is no file none.py"),
        (("--prompts", "none.jsonl"), "none.jsonl cannot be read"),
        (("--task", "arithmetic", "--group-size", 1), "--group-size must be an integer of at least 2"),
        (("--task", "arithmetic", "--kl", -1), "--kl must be a number of at least 0"),
        (("--task", "arithmetic", "--steps", 0), "--steps must be an integer of at least 1"),
        (("--task", "arithmetic", "--method", "qlora"), "--method must be one of lora, full, got 'qlora'"),
        (("--task", "arithmetic", "--method", "full", "--rank", 4), "--rank shapes an adapter"),
        (("--task", "arithmetic", "--adapter", "x", "--rank", 4), "--adapter has its own shape"),
        (("--task", "arithmetic", "--adapter", "x", "--method", "full"), "leave out --method full"),
        (("--task", "arithmetic", "--adapter", "nowhere"), "an adapter is a folder with"),
        (("--task", "arithmetic", "--held-out", 0.5), "tasks hold out theirs"),
        (("--prompts", "examples/data.jsonl", "--held-out", 0.5), "--held-out means nothing with --evaluate-every 0"),
        (
            ("--task", "arithmetic", "--evaluation-examples", 2),
            "--evaluation-examples means nothing with --evaluate-every 0",
        ),
        (("--task", "arithmetic", "--learning-rate", 0), "--learning-rate must be above 0"),
        (("--task", "arithmetic", "--patience", 2), "--patience counts evaluations"),
        (("--task", "sight-charts"), "shows images, and prompts of reinforcement are text alone"),
    ],
)
def test_a_wrong_option_is_one_line(gesso: Gesso, tmp_path: Path, options: tuple[object, ...], message: str) -> None:
    outcome = gesso("reinforce", "--out", tmp_path / "run", *options)
    assert outcome.code == 2, outcome.err
    assert message in outcome.err
    assert outcome.err.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_a_run_needs_a_folder(gesso: Gesso) -> None:
    outcome = gesso("reinforce", "--task", "arithmetic")
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert "--out" in outcome.err
