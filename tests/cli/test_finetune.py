"""`gesso finetune`, `merge`, `generate --adapter` and `--estimate`: from a file of examples to an adapter in use."""

import dataclasses
import json
import shutil
from pathlib import Path

import pytest

from cli.conftest import Gesso
from gesso.api import load
from gesso.cli import training
from gesso.errors import OptionError
from gesso.models.hub import resolve
from gesso.models.loading import read_model_config
from gesso.train.config import TrainConfig
from gesso.train.finetune import LEARNING_RATES, SMALL_RATES, default_learning_rate
from gesso.train.recipe import Recipe

ADAPTER = {"adapter_config.json", "adapter_model.safetensors"}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data.jsonl"
    lines = [{"prompt": f"What is {a} + {b}?", "completion": str(a + b)} for a in range(8) for b in range(8)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return path


def test_an_adapter_is_trained_used_and_merged(gesso: Gesso, data: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    options = ("--steps", 3, "--batch-size", 4, "--evaluate-every", 2, "--plot", "--sample-prompt", "What is 2 + 2?")
    outcome = gesso("finetune", data, "--out", run, "--sample-every", 2, *options)
    assert outcome.code == 0, outcome.err
    assert outcome.out.split() == [str(run / "loss.png"), str(run / "adapter")]
    assert "64 lines" in outcome.err
    assert "What is 2 + 2?" in outcome.err
    assert {path.name for path in (run / "adapter").iterdir()} == ADAPTER
    assert json.loads((run / "adapter" / "adapter_config.json").read_text("utf-8"))["base_model_name_or_path"] == "mini"
    request = ("What is 2 + 2?", "--seed", 1, "--json", "--max-denoising-steps", 3)
    with_adapter = gesso("generate", *request, "--adapter", run / "adapter")
    assert with_adapter.code == 0, with_adapter.err
    merged = gesso("merge", run / "adapter", "--out", tmp_path / "merged", "--dtype", "float32")
    assert (merged.code, merged.out) == (0, f"{tmp_path / 'merged'}\n")
    again = gesso("generate", *request, "--model", tmp_path / "merged")
    ids = [json.loads(outcome.out)["token_ids"] for outcome in (with_adapter, again)]
    assert ids[0] == ids[1]
    before = {path.name: path.read_bytes() for path in (run / "adapter").iterdir()}
    refused = gesso("finetune", data, "--adapter", run / "adapter", "--out", run, "--steps", 1)
    assert refused.code == 2
    assert f"--out is {run}, whose adapter is read from: name another folder" in " ".join(refused.err.split())
    assert {path.name: path.read_bytes() for path in (run / "adapter").iterdir()} == before


@pytest.mark.parametrize(("options", "hinted"), [((), True), (("--vary-copies", 0.9), False)])
def test_copies_may_be_varied_and_who_could_want_it_is_told(
    gesso: Gesso, tmp_path: Path, options: tuple[object, ...], hinted: bool
) -> None:
    path = tmp_path / "data.jsonl"
    lines = [
        {"prompt": f"Chain: fig{letter} pear", "completion": f"fig{letter} -> pear"} for letter in "abcdefghijklmn"
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    run = ("--out", tmp_path / "run", "--steps", 1, "--batch-size", 2, "--held-out", 0)
    outcome = gesso("finetune", path, *run, *options)
    assert outcome.code == 0, outcome.err
    assert ("--vary-copies" in outcome.err) == hinted


def test_how_many_of_the_held_out_examples_are_evaluated_is_said(gesso: Gesso, data: Path, tmp_path: Path) -> None:
    more = tmp_path / "more.jsonl"
    more.write_text(data.read_text("utf-8") * 5, "utf-8")
    run = ("--out", tmp_path / "run", "--batch-size", 2, "--held-out-file", more)
    outcome = gesso("finetune", data, *run, "--steps", 1, "--stop-at", 1)
    assert outcome.code == 0, outcome.err
    assert "the held-out loss is that of the first 256 of 320 held out: --evaluation-examples\n" in outcome.err
    outcome = gesso("finetune", data, *run, "--steps", 2, "--evaluation-examples", 320)
    assert (outcome.code, "(evaluation_examples 256, now 320)" in outcome.err) == (2, True), "losses of others"
    assert "\n\n" not in outcome.err, "a bar that was never shown leaves no line"
    fewer = tmp_path / "fewer.jsonl"
    fewer.write_text(data.read_text("utf-8"), "utf-8")
    silent = ("--out", tmp_path / "other", "--batch-size", 2, "--held-out-file", fewer, "--steps", 1)
    outcome = gesso("finetune", data, *silent, "--evaluation-examples", 64)
    assert outcome.code == 0, outcome.err
    assert "the held-out loss is that" not in outcome.err
    refused = gesso("finetune", data, *run, "--evaluation-examples", 0)
    assert "--evaluation-examples must be an integer of at least 1, got 0\n" in refused.err


@pytest.mark.parametrize("name", ["e[bold].jsonl", "[/].jsonl"])
def test_the_summary_names_a_file_as_it_is_called(gesso: Gesso, data: Path, tmp_path: Path, name: str) -> None:
    lines = tmp_path / name
    lines.parent.mkdir(exist_ok=True)
    long = json.dumps({"prompt": "fig " * 200, "completion": "fig"})
    lines.write_text(f"{long}\n{data.read_text('utf-8')}", "utf-8")
    run = ("--out", tmp_path / "run", "--steps", 1, "--batch-size", 2, "--held-out", 0, "--max-length", 64)
    outcome = gesso("finetune", lines, *run)
    assert outcome.code == 0, outcome.err
    assert f"{name}, line 1)" in "".join(outcome.err.split("\n"))


def test_there_must_be_copies_to_vary(gesso: Gesso, data: Path, tmp_path: Path) -> None:
    outcome = gesso("finetune", data, "--out", tmp_path / "run", "--vary-copies", 0.5)
    assert outcome.code == 2
    assert "none here does" in outcome.err


def test_all_weights_are_trained_by_choice(gesso: Gesso, data: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    outcome = gesso("finetune", data, "--out", run, "--method", "full", "--steps", 1, "--batch-size", 2)
    assert (outcome.code, outcome.out) == (0, f"{run / 'model'}\n"), outcome.err
    assert gesso("models", "show", run / "model").code == 0


@pytest.mark.parametrize(
    ("source", "options", "share"),
    [
        ({}, (), 0.0),
        ({"source": "4"}, (), 0.5),
        ({"source": "4"}, ("--source-share", 0.25), 0.25),
    ],
)
def test_canvases_start_from_sources_where_there_are_some(
    gesso: Gesso,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    source: dict[str, str],
    options: tuple[object, ...],
    share: float,
) -> None:
    lines = tmp_path / "changes.jsonl"
    pairs = ({"prompt": f"Change 4 to {i}.", "completion": str(i), **source} for i in range(40))
    lines.write_text("".join(json.dumps(pair) + "\n" for pair in pairs), "utf-8")
    seen: list[float] = []

    def stop(recipe: Recipe, *_: object, **__: object) -> None:
        seen.append(recipe.train.source_probability)
        raise OptionError("that is enough")

    monkeypatch.setattr("gesso.cli.training.run_training", stop)
    assert "that is enough" in gesso("finetune", lines, "--out", tmp_path / "run", *options).err
    assert seen == [share]


@pytest.mark.parametrize(
    ("options", "conditioned", "own", "rounds", "exponent"),
    [
        ((), 0.5, 0.0, 3, 1.0),
        (("--own-drafts", 0.5, "--time-exponent", 0.5), 0.75, 0.5 / 0.75, 3, 0.5),
        (("--own-drafts", 1, "--draft-rounds", 2), 1.0, 1.0, 2, 1.0),
    ],
)
def test_drafts_are_the_share_that_is_asked_for(
    gesso: Gesso,
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[object, ...],
    conditioned: float,
    own: float,
    rounds: int,
    exponent: float,
) -> None:
    seen: list[TrainConfig] = []

    def stop(recipe: Recipe, *_: object, **__: object) -> None:
        seen.append(recipe.train)
        raise OptionError("that is enough")

    monkeypatch.setattr(training, "run_training", stop)
    assert "that is enough" in gesso("finetune", data, "--out", tmp_path / "run", *options).err
    (train,) = seen
    assert (train.self_conditioning_probability, train.own_draft_probability) == pytest.approx((conditioned, own))
    assert (train.own_draft_rounds, train.time_exponent) == (rounds, exponent)


@pytest.mark.parametrize(
    ("mode", "options", "weight"),
    [
        ("ar", (), 0.0),
        ("ar", ("--no-causal-only",), 1.0),
        ("ar", ("--own-drafts", 0.5), 1.0),
        ("ar", ("--time-exponent", 0.5), 1.0),
        ("ar", ("--on-policy",), 1.0),
        ("ar", ("--canvases-per-example", 2), 1.0),
        ("canvas", (), 1.0),
        ("canvas", ("--causal-only",), 0.0),
    ],
)
def test_the_causal_pass_learns_alone_where_it_writes_alone(
    gesso: Gesso,
    bundled: Path,
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mode: str,
    options: tuple[object, ...],
    weight: float,
) -> None:
    seen: list[TrainConfig] = []

    def stop(recipe: Recipe, *_: object, **__: object) -> None:
        seen.append(recipe.train)
        raise OptionError("that is enough")

    monkeypatch.setattr(training, "run_training", stop)
    model = shutil.copytree(bundled / "mini", tmp_path / "model")
    (model / "gesso.json").write_text(json.dumps({"mode": mode}), "utf-8")
    assert "that is enough" in gesso("finetune", data, "--model", model, "--out", tmp_path / "run", *options).err
    assert [train.denoiser_loss_weight for train in seen] == [weight]


@pytest.mark.parametrize("alone", [False, True])
def test_the_source_of_a_change_is_for_canvases(gesso: Gesso, tmp_path: Path, alone: bool) -> None:
    path = tmp_path / "changes.jsonl"
    path.write_text('{"prompt": "Change.", "completion": "fig", "source": "pear"}\n' * 4, "utf-8")
    run = ("--out", tmp_path / "run", "--steps", 1, "--batch-size", 2, "--held-out", 0)
    outcome = gesso("finetune", path, *run, *(("--causal-only",) if alone else ()))
    assert outcome.code == 0, outcome.err
    told = " ".join(outcome.err.split())
    assert ("keys of the data that are not used: source (canvases start from it," in told) == alone


@pytest.mark.parametrize("raw", [False, True])
def test_samples_of_raw_pairs_are_raw(
    gesso: Gesso, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raw: bool
) -> None:
    seen: list[bool] = []

    def stop(recipe: Recipe, *_: object, **__: object) -> None:
        seen.append(recipe.raw_samples)
        raise OptionError("that is enough")

    monkeypatch.setattr(training, "run_training", stop)
    outcome = gesso("finetune", data, "--out", tmp_path / "run", *(("--raw",) if raw else ()))
    assert "that is enough" in outcome.err
    assert seen == [raw]


def test_what_is_best_of_the_causal_pass_alone_is_its_own_loss(gesso: Gesso, data: Path, tmp_path: Path) -> None:
    run = ("--out", tmp_path / "run", "--steps", 2, "--batch-size", 4, "--evaluate-every", 1, "--causal-only")
    outcome = gesso("finetune", data, *run)
    assert outcome.code == 0, outcome.err
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text("utf-8").splitlines()]
    held_out = [line for line in lines if "best" in line]
    assert all(line["denoiser_loss"] == 0 for line in lines if "learning_rate" in line)
    best = min(line["held_out_encoder_loss"] for line in held_out)
    assert [line for line in held_out if line["best"]][-1]["held_out_encoder_loss"] == best
    assert all(line["held_out_denoiser_loss"] > 0 for line in held_out)
    first = held_out[0]
    told = f"step 1: held-out loss {first['held_out_encoder_loss']:.4f} (of the canvases, which do not learn: "
    assert told in outcome.err
    assert set(first) == {"step", "held_out_denoiser_loss", "held_out_encoder_loss", "best"}


@pytest.mark.parametrize(
    ("options", "rate"),
    [((), 3e-3), (("--method", "full"), 3e-4), (("--learning-rate", 7e-4), 7e-4)],
)
def test_a_learning_rate_that_nobody_gave_suits_the_model_and_is_told(
    gesso: Gesso, data: Path, tmp_path: Path, options: tuple[object, ...], rate: float
) -> None:
    outcome = gesso("finetune", data, "--out", tmp_path / "run", "--steps", 1, "--batch-size", 1, *options)
    assert outcome.code == 0, outcome.err
    line = json.loads((tmp_path / "run" / "metrics.jsonl").read_text("utf-8").splitlines()[0])
    assert line["learning_rate"] == rate
    assert (f"learning rate {rate:g}, the default" in outcome.err) == ("--learning-rate" not in options)


def test_a_run_goes_on_at_its_own_learning_rate(gesso: Gesso, data: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    options = ("--out", run, "--steps", 4, "--batch-size", 2, "--held-out", 0)

    def until(step: int, *more: object) -> tuple[float, str]:
        outcome = gesso("finetune", data, *options, "--stop-at", step, *more)
        assert outcome.code == 0, outcome.err
        state = json.loads((run / f"step-{step:06d}" / "trainer.json").read_text("utf-8"))
        return state["learning_rate"], outcome.err

    assert until(1, "--learning-rate", 1e-4)[0] == 1e-4
    rate, told = until(2)
    assert (rate, "learning rate 0.0001, that of the run so far: --learning-rate" in told) == (1e-4, True)
    assert until(3, "--learning-rate", 5e-4)[0] == 5e-4
    state = run / "step-000003" / "trainer.json"
    fields = json.loads(state.read_text("utf-8"))
    state.write_text(json.dumps({name: value for name, value in fields.items() if name != "learning_rate"}), "utf-8")
    rate, told = until(4)
    assert rate == LEARNING_RATES["lora"] != SMALL_RATES["lora"]
    assert "learning rate 0.0002, the default when this run began, which does not say its own" in told
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text("utf-8").splitlines()]
    assert [line["learning_rate"] for line in lines[1:]] == pytest.approx([1e-4, 0.75 * 5e-4, 0.25 * 2e-4])


def test_a_damaged_checkpoint_tells_no_learning_rate(gesso: Gesso, data: Path, tmp_path: Path) -> None:
    run = ("--out", tmp_path / "run", "--steps", 3, "--batch-size", 2, "--held-out", 0)
    for step in (1, 2):
        assert gesso("finetune", data, *run, "--stop-at", step, "--learning-rate", 1e-4).code == 0
    (tmp_path / "run" / "step-000002" / "trainer.json").write_text("{", "utf-8")
    outcome = gesso("finetune", data, *run)
    assert outcome.code == 0, outcome.err
    assert "learning rate 0.0001, that of the run so far" in outcome.err
    assert "going on from step-000001" in outcome.err


def test_large_models_have_the_usual_learning_rates() -> None:
    small = read_model_config(resolve("mini"))
    large = dataclasses.replace(small, vocab_size=600_000)
    for method in ("lora", "qlora", "full"):
        assert default_learning_rate(method, large) == LEARNING_RATES[method]
        assert default_learning_rate(method, small) == SMALL_RATES[method]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("{data}", "--out", "{out}", "--causal-only", "--own-drafts", 1), "--causal-only leaves the canvases out"),
        (("{data}", "--out", "{out}", "--causal-only", "--on-policy"), "--causal-only leaves the canvases out"),
        (
            ("{data}", "--out", "{out}", "--causal-only", "--canvases-per-example", 2),
            "--causal-only leaves the canvases out: leave out --canvases-per-example, too",
        ),
        (("{data}", "--out", "{out}", "--on-policy", "--own-drafts", 1), "with --on-policy all begin as noise"),
        (
            ("{data}", "--out", "{out}", "--on-policy", "--time-exponent", 0.5),
            "--time-exponent means nothing with --on-policy",
        ),
        (("{data}", "--out", "{out}", "--on-policy", "--distill", 0.5), "--on-policy along canvases: one of them"),
        (("--steps", 1), "needs DATA and --out"),
        (("{data}", "--out", "{out}", "--method", "lorra"), "--method must be one of lora, qlora, full, got 'lorra'"),
        (("{data}", "--out", "{out}", "--rank", 0), "--rank must be an integer of at least 1, got 0"),
        (("{data}", "--out", "{out}", "--target", "nothing.*"), "the target 'nothing.*' matches no layer"),
        (("{data}", "--out", "{out}", "--experts", "--target", "x"), "--experts adds the experts"),
        (("{data}", "--out", "{out}", "--epochs", 0), "epochs must be above 0"),
        (("--estimate", "--max-length", 64, "--steps", 0), "--steps must be an integer of at least 1"),
        (("{data}", "--out", "{out}", "--epochs", 1, "--steps", 1), "--steps stands in the place of --epochs"),
        (("{data}", "--out", "{out}", "--source-share", 0.5), "no line to train on has one"),
        (("{data}", "--out", "{out}", "--source-share", 2), "--source-share must be at most 1, got 2"),
        (("{data}", "--out", "{out}", "--batch-size", 0), "--batch-size must be an integer of at least 1"),
        (("{data}", "--out", "{out}", "--held-out", 0, "--patience", 2), "--patience needs held-out examples"),
        (("{data}", "--out", "{out}", "--held-out", 0, "--evaluate-every", 2), "--held-out 0 leaves none"),
        (("{data}", "--out", "{out}", "--held-out", 0, "--evaluation-examples", 2), "--held-out 0 leaves none"),
        (
            ("{data}", "--out", "{out}", "--evaluate-every", 0, "--held-out", 0.2),
            "--held-out means nothing with --evaluate-every 0",
        ),
        (
            ("{data}", "--out", "{out}", "--evaluate-every", 0, "--held-out-file", "{data}"),
            "--held-out-file means nothing with --evaluate-every 0",
        ),
        (
            ("{data}", "--out", "{out}", "--on-policy", "--source-share", 0.5),
            "--source-share corrupts canvases, and with --on-policy all begin as noise",
        ),
        (
            ("{data}", "--out", "{out}", "--evaluate-every", 0, "--evaluation-examples", 2),
            "--evaluation-examples means nothing with --evaluate-every 0",
        ),
        (("{data}", "--out", "{out}", "--evaluate-every", 0, "--patience", 2), "--patience counts evaluations"),
        (("{data}", "--out", "{out}", "--thinking", "maybe"), "--thinking must be one of keep, strip, got 'maybe'"),
        (("{data}", "--out", "{out}", "--method", "full", "--rank", 4), "--rank shapes an adapter"),
        (("{data}", "--out", "{out}", "--adapter", "x", "--rank", 4), "--adapter has its own shape"),
        (("{data}", "--out", "{out}", "--adapter", "nowhere"), "an adapter is a folder with"),
        (("{data}", "--out", "{out}", "--held-out", 0.1, "--held-out-file", "{data}"), "exclude each other"),
        (("{data}", "--out", "{out}", "--sample-every", 5), "--sample-every needs a --sample-prompt"),
        (("{data}", "--out", "{out}", "--steps", 0), "--steps must be an integer of at least 1"),
        (("{data}", "--out", "{out}", "--learning-rate", 0), "--learning-rate must be above 0"),
        (("{data}", "--out", "{out}", "--learning-rate", "inf"), "--learning-rate must be a finite number"),
        (("{data}", "--out", "{out}", "--learning-rate", "nan"), "--learning-rate must be a finite number"),
        (("{data}", "--out", "{out}", "--seed", 2**32), "--seed must be below 2**31, got 4294967296"),
        (("{data}", "--out", "{out}", "--epochs", "inf"), "--epochs must be a finite number, got inf"),
        (("{data}", "--out", "{out}", "--epochs", "1e308"), "epochs 1e+308 make more steps than can be counted"),
        (("--estimate", "--max-length", 0), "--max-length must be an integer of at least 2"),
        (("--estimate", "--max-length", 10**9), "--max-length 1000000000 is past the model's"),
        (("--estimate", "--optimizer", "muon"), "muon is for whole matrices"),
        (("--estimate", "--distill", 0.5, "--own-drafts", 0.5), "own drafts have none"),
        (("{bad}", "--estimate"), "bad.jsonl, line 1: no JSON"),
        (("--estimate", "--causal-only", "--distill", 0.25), "--causal-only leaves the canvases out"),
        (("{data}", "--out", "{out}", "--max-length", 10**6), "--max-length 1000000 is past the model's"),
        (("{data}", "--out", "{out}", "--draft-rounds", 2), "--draft-rounds needs --own-drafts"),
        (("{data}", "--out", "{out}", "--own-drafts", 1.5), "--own-drafts must be at most 1, got 1.5"),
        (("{data}", "--out", "{out}", "--own-drafts", 1, "--draft-rounds", 0), "--draft-rounds must be an integer of"),
        (("{data}", "--out", "{out}", "--time-exponent", 2), "--time-exponent must be at most 1, got 2"),
        (("none.jsonl", "--out", "{out}"), "none.jsonl"),
        (("{data}", "--out", "{out}", "--method", "qlora"), "cannot be held in 4 bits"),
    ],
)
def test_mistakes_get_one_line(
    gesso: Gesso, data: Path, tmp_path: Path, arguments: tuple[object, ...], message: str
) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text("{", "utf-8")
    given = [str(a).format(data=data, bad=bad, out=tmp_path / "out") for a in arguments]
    outcome = gesso("finetune", *given)
    assert outcome.code == 2
    assert message in outcome.err
    assert outcome.out == ""
    assert not (tmp_path / "out").exists(), "nothing is left of what was refused"


def test_keys_of_the_data_that_are_not_used_are_told(gesso: Gesso, data: Path, tmp_path: Path) -> None:
    run = ("--steps", 1, "--batch-size", 2, "--held-out", 0)
    outcome = gesso("finetune", data, "--out", tmp_path / "run", *run)
    assert outcome.code == 0, outcome.err
    assert "keys of the data" not in outcome.err
    data.write_text(data.read_text("utf-8").replace("{", '{"id": 5, "metadata": {"a": 1}, '), "utf-8")
    outcome = gesso("finetune", data, "--out", tmp_path / "other", *run)
    assert outcome.code == 0, outcome.err
    assert "keys of the data that are not used: id, metadata\n" in outcome.err


def test_a_bad_line_is_named(gesso: Gesso, data: Path, tmp_path: Path) -> None:
    data.write_text(data.read_text("utf-8") + '{"prompt": "x"}\n', "utf-8")
    outcome = gesso("finetune", data, "--out", tmp_path / "run")
    assert outcome.code == 2
    assert "data.jsonl, line 65: " in outcome.err


def test_merging_asks_for_an_adapter_and_another_folder(gesso: Gesso, bundled: Path, tmp_path: Path) -> None:
    assert "an adapter is a folder with" in gesso("merge", tmp_path, "--out", tmp_path / "x").err
    assert "name another folder" in gesso("merge", tmp_path, "--out", bundled / "mini").err
    assert "dtype 'int3' does not exist" in gesso("merge", tmp_path, "--out", tmp_path / "x", "--dtype", "int3").err


def test_the_estimate_needs_no_data(gesso: Gesso, bundled: Path, tmp_path: Path) -> None:
    folder = tmp_path / "config only"
    folder.mkdir()
    (folder / "config.json").write_bytes((bundled / "mini" / "config.json").read_bytes())
    outcome = gesso("finetune", "--estimate", "--model", folder, "--max-length", 64, "--batch-size", 2)
    assert (outcome.code, outcome.err) == (0, "")
    assert "lora, 2 x 64 tokens at a time, canvas 8, float32" in outcome.out
    assert "at the peak" in outcome.out
    assert gesso("train", "mini", "--estimate").code == 0
    parts = gesso("finetune", "--estimate", "--model", folder, "--batch-size", 2, "--expert-parallel", 2)
    assert (parts.code, parts.err) == (0, "")
    assert "lora, 1 x 1024 tokens at a time" in parts.out
    assert "each of 2 processes" in parts.out
    assert "whole for the time of a layer" in parts.out
    refused = gesso("finetune", "--estimate", "--model", folder, "--expert-parallel", 1000)
    assert refused.code == 2
    assert "experts leave one of 1000 processes without any" in refused.err
    both = gesso("finetune", "--estimate", "--model", folder, "--context-parallel", 2, "--expert-parallel", 4)
    assert (both.code, both.err) == (0, "")
    assert "each of 4 processes, 2 for each sequence" in both.out


def test_sequences_that_cannot_be_split_are_refused(gesso: Gesso, bundled: Path, data: Path, tmp_path: Path) -> None:
    options = ("--model", bundled / "mini", "--context-parallel", 3)
    for refused in (
        gesso("finetune", "--estimate", *options, "--expert-parallel", 4),
        gesso("finetune", data, "--out", tmp_path / "run", *options),
        gesso("train", "mini", "--out", tmp_path / "run", "--context-parallel", 3),
    ):
        assert refused.code == 2
        assert "--context-parallel 3 is for 3 processes or a multiple of them, and the run has" in refused.err
    assert not (tmp_path / "run").exists()
    assert gesso("train", "mini", "--context-parallel", 0).code == 2


def test_the_estimate_counts_every_step_of_a_canvas_that_is_trained_along(gesso: Gesso) -> None:
    options = ("--estimate", "--model", "mini", "--max-length", 16, "--batch-size", 16)
    plain, along = (gesso("finetune", *options, *more) for more in ((), ("--on-policy",)))
    assert plain.code == along.code == 0

    def activations(text: str) -> float:
        line = next(line for line in text.splitlines() if line.strip().startswith("activations"))
        return float(line.split()[1]) * {"MB": 1, "GB": 1000}[line.split()[2]]

    assert activations(along.out) > 1.2 * activations(plain.out)


def test_the_estimate_counts_what_learns_and_from_whom(gesso: Gesso, bundled: Path, tmp_path: Path) -> None:
    def peak(*options: object) -> float:
        outcome = gesso("finetune", "--estimate", "--max-length", 64, *options)
        assert (outcome.code, outcome.err) == (0, "")
        line = next(line for line in outcome.out.splitlines() if line.strip().startswith("at the peak"))
        return float(line.split()[3]) * {"MB": 1, "GB": 1000}[line.split()[4]]

    full = ("--model", "mini", "--method", "full")
    total = sum(tensor.numel() for tensor in load("mini", "cpu").model.parameters())
    assert peak(*full, "--distill", 0.25) == pytest.approx(peak(*full) + 4e-6 * total, abs=0.2)
    assert peak("--model", "mini", "--distill", 0.25) == peak("--model", "mini")  # the model without its deltas
    writer = shutil.copytree(bundled / "mini", tmp_path / "writer")
    (writer / "gesso.json").write_text('{"mode": "ar"}', "utf-8")
    assert peak("--model", writer) == peak("--model", "mini", "--causal-only")
    assert peak("--model", writer) < peak("--model", writer, "--no-causal-only") == peak("--model", "mini")
    assert (
        "64 tokens at a time, no canvases" in gesso("finetune", "--estimate", "--max-length", 64, "--model", writer).out
    )


def test_the_estimate_counts_packed_weights_as_they_are(gesso: Gesso, bundled: Path, tmp_path: Path) -> None:
    packed = tmp_path / "packed"
    assert gesso("quantize", bundled / "mini", "--to", "int8", "--out", packed).code == 0

    outcome = gesso("finetune", "--estimate", "--model", packed, "--max-length", 64, "--batch-size", 2)
    assert (outcome.code, outcome.err) == (0, "")
    assert "lora over packed weights, 2 x 64 tokens at a time" in outcome.out
    outcome = gesso("finetune", "--estimate", "--model", packed, "--method", "qlora")
    assert outcome.code == 2
    assert f"--method qlora needs whole weights, and those of {packed} are" in " ".join(outcome.err.split())
