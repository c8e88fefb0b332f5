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
    with pytest.raises(ValueError, match="num_beams is not known here"):
        adapter.generate_until([instance(CONTEXT, {"num_beams": 3})])


def test_a_task_of_the_harness_runs(adapter: GessoLM, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own evaluator over two questions in files: which answer is likelier is the causal pass's to say."""
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    from lm_eval.evaluator import simple_evaluate
    from lm_eval.tasks import TaskManager

    docs = [{"question": CONTEXT, "choices": ["fig, pear", "pear, pear"], "answer": right} for right in (0, 1)]
    (tmp_path / "docs.json").write_text("".join(json.dumps(doc) + "\n" for doc in docs), encoding="utf-8")
    (tmp_path / "questions.yaml").write_text(
        f"""task: questions
dataset_path: json
dataset_kwargs: {{data_files: {{test: {tmp_path / "docs.json"}}}}}
output_type: multiple_choice
test_split: test
doc_to_text: question
doc_to_choice: choices
doc_to_target: answer
metric_list: [{{metric: acc}}]
""",
        encoding="utf-8",
    )
    tasks = TaskManager(include_path=str(tmp_path), include_defaults=False)
    found = simple_evaluate(model=adapter, tasks=["questions"], task_manager=tasks, bootstrap_iters=0)
    first, second = (sample["resps"] for sample in found["samples"]["questions"])
    assert first == second
    assert found["results"]["questions"]["acc,none"] == 0.5, "one of two, as the right answers differ"
    engine = adapter.engine
    whole = [engine.config.bos_token_id, *engine.tokenizer.encode(f"{CONTEXT} fig, pear")]
    scored = len(whole) - 1 - len(engine.tokenizer.encode(CONTEXT))
    assert float(first[0][0][0]) == pytest.approx(by_hand(engine, whole, scored), abs=1e-3)


def test_nothing_has_no_surprise_and_no_stop(adapter: GessoLM) -> None:
    empty, whole = adapter.loglikelihood_rolling([instance(""), instance(CONTEXT)])
    assert empty == 0.0
    assert [whole] == adapter.loglikelihood_rolling([instance(CONTEXT)])
    (text,) = adapter.generate_until([instance(CONTEXT, {"until": None, "max_gen_toks": 8})])
    assert isinstance(text, str)


def test_options_of_a_request_are_taken(adapter: GessoLM) -> None:
    begun = GessoLM(pretrained=adapter.engine.name, device="cpu", begin="fig", max_denoising_steps=3)
    (text,) = begun.generate_until([instance(CONTEXT, {"max_gen_toks": 8})])
    assert text.startswith("fig")


def test_a_mistake_in_the_options_is_told_at_once() -> None:
    with pytest.raises(ValueError, match="max_steps"):
        GessoLM(pretrained="mini", max_steps=3)
