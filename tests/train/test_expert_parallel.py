"""Experts over several processes make the run that one process makes."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from gesso.config import LoraConfig
from gesso.errors import OptionError
from gesso.models.quantization.plan import QLORA
from gesso.train.checkpoint import OPTIMIZER, export
from gesso.train.estimate import Workload, estimate
from gesso.train.expert_parallel import check_expert_parallel, own_experts
from train.expert_runs import SHAPE, hold, make, train
from train.forks import Job, run_forks
from train.runs import losses_of
from train.runs import train as run

FULL: dict[str, Any] = {"batch_size": 5, "learning_rate": 1e-3, "steps": 3, "checkpoint_every": 1}
FULL |= {"keep_checkpoints": 3, "evaluate_every": 3}
DELTAS: dict[str, dict[str, Any]] = {
    "lora": {"batch_size": 5, "micro_batch_size": 2, "gradient_checkpointing": True, "steps": 2},
    # Fewer examples than processes, and packed experts.
    "qlora": {"batch_size": 1, "encoder_loss_weight": 0.0, "quantize": "nf4", "steps": 1},
}
LORA = LoraConfig(rank=4, alpha=8.0, targets=("*",))


def assert_same_losses(one: Path, other: Path) -> None:
    """Losses and gradient norms of every step, as far as they are written."""
    expected, found = losses_of(one), losses_of(other)
    assert expected.keys() == found.keys()
    for step, values in expected.items():
        assert found[step] == pytest.approx(values, rel=1e-5, abs=2e-5), step  # five places are written, four of a norm


def assert_same_gradients(one: Path, other: Path) -> None:
    """AdamW's first moments, which are means of the clipped gradients, to 1e-5 of the largest; the same names."""
    left, right = load_file(one / OPTIMIZER), load_file(other / OPTIMIZER)
    assert left.keys() == right.keys()
    moments = [name for name in left if name.startswith("exp_avg.")]
    most = max(left[name].abs().max().item() for name in moments)
    assert most > 0
    for name in moments:
        torch.testing.assert_close(right[name], left[name], rtol=0, atol=1e-5 * most, msg=name)


def test_two_and_four_processes_make_the_run_of_one(tmp_path: Path) -> None:
    """A run goes on over four processes where two stopped, and over one where four did; what it exports is the same."""
    one, more = tmp_path / "one", tmp_path / "more"
    train(str(one), None, FULL)
    run_forks(
        tmp_path / "meeting",
        "expert_runs",
        (2, train.__name__, [str(more), None, FULL, 1]),
        (4, train.__name__, [str(more), None, FULL, 2]),
    )
    for step in ("step-000001", "step-000002"):
        assert_same_gradients(one / step, more / step)
    train(str(more), None, FULL)
    assert_same_losses(one, more)
    for name in ("one", "more"):
        export(tmp_path / name / "step-000003", tmp_path / f"{name}-model", "float32")
    left, right = (load_file(tmp_path / f"{name}-model" / "model.safetensors") for name in ("one", "more"))
    assert left.keys() == right.keys()
    for name, tensor in left.items():
        torch.testing.assert_close(right[name], tensor, rtol=1e-5, atol=1e-4, msg=name)


@pytest.mark.filterwarnings("ignore")
def test_deltas_packed_experts_and_moments_in_eight_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What processes hold is what an estimate says, and each reads its own experts alone."""
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)  # it takes longer here than the steps
    start = str(tmp_path / "start")
    jobs = list[Job]()
    for name, settings in DELTAS.items():
        train(str(tmp_path / name), start, settings)
        jobs.append((2, train.__name__, [str(tmp_path / f"{name}-2"), start, settings]))
    eight = {"optimizer": "adamw8bit", "batch_size": 2, "learning_rate": 1e-3, "steps": 2}
    train(str(tmp_path / "eight"), None, eight)
    jobs.append((2, train.__name__, [str(tmp_path / "eight-2"), None, eight]))
    for name, settings, place in (("full", FULL, None), ("qlora", DELTAS["qlora"], start)):
        (tmp_path / f"{name}-held").mkdir()
        jobs.append((2, hold.__name__, [str(tmp_path / f"{name}-held"), place, settings]))
    run_forks(tmp_path / "meeting", "expert_runs", *jobs)
    for name in (*DELTAS, "eight"):
        assert_same_losses(tmp_path / name, tmp_path / f"{name}-2")
    for name, settings in DELTAS.items():
        one, two = (tmp_path / run / f"step-00000{settings['steps']}" for run in (name, f"{name}-2"))
        assert_same_gradients(one, two)
        left, right = (load_file(folder / "adapter_model.safetensors") for folder in (one, two))
        assert {key: t.shape for key, t in left.items()} == {key: t.shape for key, t in right.items()}
    work = Workload(2, 16, 8, 8, expert_parallel=2)
    for name in ("full", "qlora"):
        adapter, quantize = None if name == "full" else LORA, QLORA if name == "qlora" else None
        said = estimate(SHAPE.config(), work, dtype=torch.float32, adapter=adapter, quantize=quantize)
        ranks = [torch.load(tmp_path / f"{name}-held" / f"{rank}.pt") for rank in range(2)]
        held = {key: max(rank[key] for rank in ranks) for key in ranks[0]}
        buffers = 8 * len(SHAPE.layers) if name == "full" else 0  # scalars, which are not trained
        assert (said.weights, said.adapter) == (
            (held["trained"], 0) if name == "full" else (held["frozen"], held["trained"])
        )
        assert (said.optimizer, said.gradients) == (held["moments"], held["gradients"])
        assert held["frozen"] == (buffers if name == "full" else said.weights)
        if name == "qlora":  # 4 and 3 of 7 experts
            assert ranks[0]["read"] * 3 == ranks[1]["read"] * 4 > 0


def test_a_number_of_processes_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="expert_parallel 2 is for 2 processes, and the run has 1"):
        run(make(None, expert_parallel=2), tmp_path, device="cpu")
    with pytest.raises(OptionError, match="5 experts leave one of 4 processes without any"):
        check_expert_parallel(4, 5)
    check_expert_parallel(3, 5, 3)
    assert [list(own_experts(5, rank, 3)) for rank in range(3)] == [[0, 1], [2, 3], [4]]
