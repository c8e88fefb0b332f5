"""Several processes make the run that one makes."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from safetensors.torch import load_file

from gesso.train.checkpoint import OPTIMIZER, checkpoints
from gesso.train.distributed import ProcessGroup, average_gradients
from train.forks import ENVIRONMENT, Job, run_forks
from train.runs import STEADY, adapter_recipe, go_on, lose_data, losses_of, recipe, same_files, train, wide_recipe

MEMBER = """
import json, sys
from train import runs

runs.go_on(sys.argv[1], "recipe", json.loads(sys.argv[2]))
"""


def pair(out: Path, stop_at: int | None, make: str = "recipe", **changes: Any) -> Job:
    """A run of two processes up to a step, or to its end; `make` names the function of `runs` that gives its recipe."""
    return 2, go_on.__name__, [str(out), make, changes, stop_at]


def run_pairs(meeting: Path, *jobs: Job) -> None:
    run_forks(meeting, "runs", *jobs)


def test_torchrun_starts_a_run(tmp_path: Path) -> None:
    """What `torchrun` tells its processes is what a run reads: each takes its part, one writes."""
    script = tmp_path / "member.py"
    script.write_text(MEMBER, encoding="utf-8")
    settings = {"batch_size": 2, "learning_rate": 1e-3, "steps": 2}
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone", "--local-addr=127.0.0.1",
         str(script), str(tmp_path / "two"), json.dumps(settings)],
        env=ENVIRONMENT, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    train(recipe(**settings), tmp_path / "one", device="cpu")
    assert_same_run(tmp_path / "one", tmp_path / "two")


def assert_same_run(one: Path, two: Path) -> None:
    """Losses and gradient norms of every step, and every look at the held-out loss."""
    assert losses_of(one).keys() == losses_of(two).keys()
    for step, expected in losses_of(one).items():
        assert losses_of(two)[step] == pytest.approx(expected, rel=5e-3), step
    looks = []
    for out in (one, two):
        records = map(json.loads, (out / "metrics.jsonl").read_text("utf-8").splitlines())
        looks.append([record for record in records if "held_out_denoiser_loss" in record])
    assert len(looks[0]) == len(looks[1])
    for a, b in zip(*looks, strict=True):
        for name in ("held_out_denoiser_loss", "held_out_encoder_loss"):
            assert b[name] == pytest.approx(a[name], rel=5e-3)


def test_two_processes_make_the_same_run_as_one(tmp_path: Path) -> None:
    """The same losses on the same global batch, also when a run of two goes on as one and back."""
    settings = {"batch_size": 5, "evaluate_every": 4, "learning_rate": 1e-3}
    train(recipe(**settings), tmp_path / "one", device="cpu")
    run_pairs(tmp_path / "first", pair(tmp_path / "two", 4, **settings))
    train(recipe(**settings), tmp_path / "two", device="cpu", stop_at=8)
    run_pairs(tmp_path / "second", pair(tmp_path / "two", None, **settings))
    assert_same_run(tmp_path / "one", tmp_path / "two")
    left, right = (load_file(tmp_path / name / "step-000012" / "model.safetensors") for name in ("one", "two"))
    for name, tensor in left.items():
        torch.testing.assert_close(right[name], tensor, atol=2e-3, rtol=0.02, msg=name)


def test_two_processes_share_the_work_of_muon(tmp_path: Path) -> None:
    """Each has all parameters and makes half of the matrices orthogonal; a run goes on as one and back, the first time
    before canvases have joined in."""
    settings = {"batch_size": 5, "optimizer": "muon", "causal_steps": 6, "learning_rate": 1e-3}
    train(recipe(**settings), tmp_path / "one", device="cpu")
    run_pairs(tmp_path / "first", pair(tmp_path / "two", 4, **settings))
    train(recipe(**settings), tmp_path / "two", device="cpu", stop_at=8)
    run_pairs(tmp_path / "second", pair(tmp_path / "two", None, **settings))
    assert_same_run(tmp_path / "one", tmp_path / "two")
    denoiser = [loss[0] for loss in losses_of(tmp_path / "one").values()]
    assert not any(denoiser[:6])
    assert all(denoiser[6:])
    left, right = (load_file(tmp_path / name / "step-000012" / "model.safetensors") for name in ("one", "two"))
    for name, tensor in left.items():
        torch.testing.assert_close(right[name], tensor, atol=2e-3, rtol=0.02, msg=name)


def test_a_gradient_that_another_process_has_counts_as_zero_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def reduce(tensor: torch.Tensor, op: Any = None) -> None:
        """As beside a process that has a gradient of ones for the second parameter alone."""
        if op is dist.ReduceOp.MAX:
            tensor[1] = 1
        else:
            tensor[-2:] += 1

    monkeypatch.setattr(dist, "all_reduce", reduce)
    parameters = [torch.nn.Parameter(torch.zeros(size)) for size in (3, 2, 4)]
    parameters[0].grad = torch.full((3,), 2.0)
    average_gradients(parameters, ProcessGroup(torch.device("cpu"), size=2))
    first, second, third = (parameter.grad for parameter in parameters)
    assert first is not None
    assert second is not None
    assert first.tolist() == [1.0] * 3
    assert second.tolist() == [0.5] * 2
    assert third is None


def test_two_processes_train_an_adapter(tmp_path: Path) -> None:
    """Unevenly divided experts, several canvases and micro-batches, and looks after which every state is there."""
    settings = {"batch_size": 5, "micro_batch_size": 2, "canvases_per_example": 2, "evaluate_every": 3, "steps": 6}
    settings |= {"learning_rate": 1e-3, "checkpoint_every": 3}
    train(adapter_recipe(tmp_path / "start", **settings), tmp_path / "one", device="cpu")
    run_pairs(
        tmp_path / "meeting",
        pair(tmp_path / "two", 3, "adapter_recipe", **settings),
        pair(tmp_path / "two", None, "adapter_recipe", **settings),
    )
    assert_same_run(tmp_path / "one", tmp_path / "two")
    left, right = (load_file(tmp_path / name / "step-000006" / OPTIMIZER) for name in ("one", "two"))
    assert left.keys() == right.keys()


def test_the_steps_before_data_that_one_process_cannot_read_are_kept(tmp_path: Path) -> None:
    """All processes end together, each with its reason, and what they had is gone on from."""
    run_pairs(tmp_path / "meeting", (2, lose_data.__name__, [str(tmp_path / "two")]))
    said = [(tmp_path / f"two.{rank}").read_text("utf-8") for rank in range(2)]
    assert said == ["step 8: another process could not make its batch", "it has changed"]
    assert [path.name for path in checkpoints(tmp_path / "two")] == ["step-000005", "step-000007"]
    train(recipe(**STEADY), tmp_path / "two", device="cpu")
    train(recipe(**STEADY), tmp_path / "one", device="cpu")
    assert_same_run(tmp_path / "one", tmp_path / "two")


def test_a_process_without_examples_keeps_up(tmp_path: Path) -> None:
    settings = {"batch_size": 1, "encoder_loss_weight": 0.0, "gradient_checkpointing": True, "steps": 3}
    train(recipe(**settings), tmp_path / "one", device="cpu")
    run_pairs(tmp_path / "meeting", pair(tmp_path / "two", None, **settings))
    assert_same_run(tmp_path / "one", tmp_path / "two")


def test_two_processes_train_deltas_over_four_bits(tmp_path: Path) -> None:
    """Every process holds the packed weights, and its part of the deltas."""
    settings = {"quantize": "nf4", "batch_size": 5, "evaluate_every": 3, "steps": 6, "checkpoint_every": 3}
    settings |= {"learning_rate": 1e-3}
    train(adapter_recipe(tmp_path / "start", **settings), tmp_path / "one", device="cpu")
    run_pairs(
        tmp_path / "meeting",
        pair(tmp_path / "two", 3, "adapter_recipe", **settings),
        pair(tmp_path / "two", None, "adapter_recipe", **settings),
    )
    assert_same_run(tmp_path / "one", tmp_path / "two")


@pytest.mark.filterwarnings("ignore")
def test_two_processes_hold_moments_in_eight_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run of two goes on exactly as two, and alike as one; the file has 8 bits where every part had them."""
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)  # it takes longer here than the steps
    settings = {"optimizer": "adamw8bit", "steps": 6, "checkpoint_every": 2, "batch_size": 4, "learning_rate": 1e-3}
    train(wide_recipe(**settings), tmp_path / "one", device="cpu")
    train(wide_recipe(**settings), tmp_path / "mixed", device="cpu", stop_at=2)
    run_pairs(
        tmp_path / "meeting",
        pair(tmp_path / "whole", None, "wide_recipe", **settings),
        pair(tmp_path / "parts", 4, "wide_recipe", **settings),
        pair(tmp_path / "parts", None, "wide_recipe", **settings),
        pair(tmp_path / "mixed", 4, "wide_recipe", **settings),
    )
    assert same_files(tmp_path / "whole" / "step-000006", tmp_path / "parts" / "step-000006")
    assert losses_of(tmp_path / "whole") == losses_of(tmp_path / "parts")
    tensors = load_file(tmp_path / "whole" / "step-000006" / OPTIMIZER)
    assert tensors["exp_avg:codes.vocabulary.weight"].dtype == torch.uint8
    assert tensors.keys() == load_file(tmp_path / "one" / "step-000006" / OPTIMIZER).keys()
    train(wide_recipe(**settings), tmp_path / "mixed", device="cpu")
    for name in ("whole", "mixed"):
        assert_same_run(tmp_path / "one", tmp_path / name)
