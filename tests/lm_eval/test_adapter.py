"""The adapter for EleutherAI's harness, through the harness where it is installed."""

import json
import math
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from engine.tiny import make_tiny_folder

from gesso.engine.engine import Engine

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # the harness's own, while it is imported
    pytest.importorskip("lm_eval.api.model", reason="the extra lm-eval is not installed", exc_type=ImportError)
    from gesso.lm_eval.adapter import GessoLM

pytestmark = pytest.mark.filterwarnings("ignore")

CONTEXT, CONTINUATION = "Sort: pear, fig", " fig, pear"


@pytest.fixture(scope="module")
def adapter(tmp_path_factory: pytest.TempPathFactory) -> GessoLM:
    folder = make_tiny_folder(tmp_path_factory.mktemp("checkpoint") / "tiny")
    return GessoLM(pretrained=str(folder), device="cpu", batch_size=1, max_denoising_steps=3)


def instance(*args: Any) -> Any:
    from lm_eval.api.instance import Instance

    return Instance(request_type="loglikelihood", doc={}, arguments=args, idx=0)


def by_hand(engine: Engine, tokens: list[int], scored: int) -> float:
    hidden = engine.model.encode(torch.tensor([tokens]), engine.model.new_cache(1))
    scores = engine.model.logits(hidden)[0].log_softmax(dim=-1)
    places = range(len(tokens) - scored, len(tokens))
    return math.fsum(scores[place - 1, tokens[place]].item() for place in places)


QUESTIONS = """task: {name}
dataset_path: json
dataset_kwargs: {{data_files: {{test: {folder}/docs.json}}}}
output_type: {kind}
test_split: test
doc_to_text: question
doc_to_choice: choices
doc_to_target: answer
metric_list: [{{metric: {metric}}}]
{more}
"""


@pytest.fixture
def tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two questions, as the tasks `questions` and `writing`."""
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    docs = [{"question": CONTEXT, "choices": ["fig, pear", "pear, pear"], "answer": right} for right in (0, 1)]
    (tmp_path / "docs.json").write_text("".join(json.dumps(doc) + "\n" for doc in docs), encoding="utf-8")
    more = 'generation_kwargs: {until: ["#"], do_sample: false, temperature: 0.0, max_gen_toks: 16}'
    for name, kind, metric, extra in (
        ("questions", "multiple_choice", "acc", ""),
        ("writing", "generate_until", "exact_match", more),
    ):
        text = QUESTIONS.format(name=name, folder=tmp_path, kind=kind, metric=metric, more=extra)
        (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")
    return tmp_path


def run_harness(monkeypatch: pytest.MonkeyPatch, *options: str) -> int:
    """Runs the command line of the documentation."""
    from gesso.lm_eval.__main__ import main

    monkeypatch.setattr("sys.argv", ["lm_eval", "--model", "gesso", *options])
    return main()


def test_the_documented_command_needs_no_device(
    adapter: GessoLM,
    tasks: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The harness says cuda:0 where its user says nothing."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    command = ["--model_args", f"pretrained={adapter.engine.name}", "--tasks", str(tasks / "questions.yaml")]
    assert run_harness(monkeypatch, *command) == 0
    assert "|questions|" in capsys.readouterr().out
    assert [record.getMessage() for record in caplog.records if record.name.startswith("gesso")] == [
        "gesso: PyTorch finds no CUDA device here; device auto in place of cuda:0"
    ]


def test_model_args_come_before_the_harness_device(adapter: GessoLM) -> None:
    made = GessoLM.create_from_arg_string(f"pretrained={adapter.engine.name},device=cpu", {"device": "tpu"})
    assert made.engine.model.device.type == "cpu"
    made = GessoLM.create_from_arg_obj({"pretrained": adapter.engine.name}, {"device": "cpu", "batch_size": 1})
    assert made.engine.model.device.type == "cpu"


def test_the_seed_of_the_command_line_is_that_of_the_answers(
    adapter: GessoLM, tasks: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def answers(name: str, *more: str) -> list[str]:
        command = ["--model_args", f"pretrained={adapter.engine.name},device=cpu,max_denoising_steps=2"]
        command += ["--tasks", str(tasks / "writing.yaml"), "--log_samples", "--output_path", str(tasks / name)]
        assert run_harness(monkeypatch, *command, *more) == 0
        (file,) = (tasks / name).rglob("*.jsonl")
        return [json.loads(line)["resps"][0][0] for line in file.read_text("utf-8").splitlines()]

    first = answers("a", "--seed", "1")
    assert answers("b", "--seed", "1") == first
    assert answers("c", "--seed", "2") != first


def test_the_harness_finds_it_by_its_name() -> None:
    from lm_eval.api.registry import get_model

    assert get_model("gesso") is GessoLM


def test_log_likelihoods_are_the_sums_by_hand(adapter: GessoLM) -> None:
    engine = adapter.engine
    whole = [engine.config.bos_token_id, *engine.tokenizer.encode(CONTEXT + CONTINUATION)]
    scored = len(whole) - 1 - len(engine.tokenizer.encode(CONTEXT))
    pairs = [instance(CONTEXT, CONTINUATION), instance(CONTEXT + " ", CONTINUATION[1:]), instance("", CONTEXT)]
    found = adapter.loglikelihood(pairs)
    assert found[0][0] == pytest.approx(by_hand(engine, whole, scored), abs=1e-3)
    assert found[1] == found[0], "spaces at the end of a context belong to what follows"
    assert found[0][1] is False
    (rolling,) = adapter.loglikelihood_rolling([instance(CONTEXT + CONTINUATION)])
    assert rolling == pytest.approx(by_hand(engine, whole, len(whole) - 1), abs=1e-3)


def test_texts_are_generated_up_to_a_stop(adapter: GessoLM) -> None:
    asked = {"until": ["\n\n"], "max_gen_toks": 8, "do_sample": False, "temperature": 0.0}
    (text,) = adapter.generate_until([instance(CONTEXT, asked)])
    prompt = [adapter.engine.config.bos_token_id, *adapter.engine.tokenizer.encode(CONTEXT)]
    seen = adapter.engine.generate(
        prompt, max_new_tokens=8, temperature=0.0, max_denoising_steps=3, stop=("\n\n",), seed=0
    )
    assert isinstance(text, str)
    assert len(seen.denoising_steps) == 1
    with pytest.raises(ValueError, match="num_beams 3 is not known here"):
        adapter.generate_until([instance(CONTEXT, {"num_beams": 3})])


def test_a_task_of_the_harness_runs(adapter: GessoLM, tasks: Path) -> None:
    """Its own evaluator over two questions in files: which answer is likelier is the causal pass's to say."""
    from lm_eval.evaluator import simple_evaluate
    from lm_eval.tasks import TaskManager

    manager = TaskManager(include_path=str(tasks), include_defaults=False)
    found = simple_evaluate(model=adapter, tasks=["questions"], task_manager=manager, bootstrap_iters=0)
    first, second = (sample["resps"] for sample in found["samples"]["questions"])
    assert first == second
    assert found["results"]["questions"]["acc,none"] == 0.5, "one of two, as the right answers differ"
    engine = adapter.engine
    whole = [engine.config.bos_token_id, *engine.tokenizer.encode(f"{CONTEXT} fig, pear")]
    scored = len(whole) - 1 - len(engine.tokenizer.encode(CONTEXT))
    assert float(first[0][0][0]) == pytest.approx(by_hand(engine, whole, scored), abs=1e-3)


def test_a_context_of_spaces_is_part_of_what_follows(adapter: GessoLM) -> None:
    spaces, whole = adapter.loglikelihood([instance("  ", "fig"), instance("", "  fig")])
    assert spaces == whole


def test_an_answer_without_a_seed_can_be_had_again(adapter: GessoLM) -> None:
    asked = {"until": [], "max_gen_toks": 8, "do_sample": False, "temperature": 0.0}
    other = instance("Sort: kiwi", asked)
    torch.manual_seed(5)
    alone = adapter.generate_until([instance(CONTEXT, asked)])
    torch.rand(3)
    assert adapter.generate_until([other, instance(CONTEXT, asked)])[1:] == alone, "whatever stands beside it"
    prompt = [adapter.engine.config.bos_token_id, *adapter.engine.tokenizer.encode(CONTEXT)]
    seeds = [
        adapter.engine.generate(prompt, max_new_tokens=8, temperature=0, max_denoising_steps=3, seed=seed).text
        for seed in (5, 6)
    ]
    assert adapter.generate_until([instance(CONTEXT, asked), instance(CONTEXT, asked)]) == seeds
    assert seeds[0] != seeds[1], "or nothing is seen of it"


def test_what_is_too_long_is_cut_from_the_left(adapter: GessoLM, caplog: pytest.LogCaptureFixture) -> None:
    adapter._warned = False
    engine = adapter.engine
    limit, width = engine.runner.max_model_len, engine.config.canvas_length
    long = "pear fig apple kiwi " * limit
    ids = engine.tokenizer.encode(long)
    short, cut = adapter.generate_until(
        [instance(CONTEXT, {"max_gen_toks": width}), instance(long, {"max_gen_toks": 2})]
    )
    assert short == adapter.generate_until([instance(CONTEXT, {"max_gen_toks": width})])[0]
    kept = [engine.config.bos_token_id, *ids[-(limit - width - 1) :]]
    seed = torch.initial_seed() % 2**62
    assert cut == engine.generate(kept, max_new_tokens=2, max_denoising_steps=3, seed=seed).text
    adapter.generate_until([instance(CONTEXT, {"max_gen_toks": 10**6}), instance(long, {"max_gen_toks": 10**6})])
    (found,) = adapter.loglikelihood([instance(long.rstrip(), " fig")])
    assert math.isfinite(found[0])
    assert len([record for record in caplog.records if record.name.startswith("gesso")]) == 1, "one warning"


def test_nothing_has_no_surprise_and_no_stop(adapter: GessoLM) -> None:
    empty, whole = adapter.loglikelihood_rolling([instance(""), instance(CONTEXT)])
    assert empty == 0.0
    assert [whole] == adapter.loglikelihood_rolling([instance(CONTEXT)])
    assert adapter.loglikelihood([instance(CONTEXT, "")]) == [(0.0, True)]
    (text,) = adapter.generate_until([instance(CONTEXT, {"until": None, "max_gen_toks": 8})])
    assert isinstance(text, str)


def test_options_of_a_request_are_taken(adapter: GessoLM) -> None:
    begun = GessoLM(pretrained=adapter.engine.name, device="cpu", threads=None, begin="fig", max_denoising_steps=3)
    (text,) = begun.generate_until([instance(CONTEXT, {"max_gen_toks": 8})])
    assert text.startswith("fig")


def test_a_mistake_in_the_options_is_told_at_once() -> None:
    with pytest.raises(ValueError, match="max_steps"):
        GessoLM(pretrained="mini", max_steps=3)
