"""Searching among candidates: fresh seeds behind a check, likelihood, agreement, and what it all takes."""

import random
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from server.fake import RESULT

from gesso.control.job import run_job, run_jobs
from gesso.control.search import SearchResult, choose_candidate, search
from gesso.engine.engine import Engine, Request
from gesso.engine.prompt import Prompt
from gesso.engine.result import GenerationResult, TokenLogprob
from gesso.errors import DataError, OptionError
from gesso.tasks.base import Augmented

PROMPT = "Sort: pear, fig"
SHORT = {"max_new_tokens": 8, "max_denoising_steps": 5, "seed": 3}


def ask(engine: Engine, **options: Any) -> SearchResult:
    return run_job(engine, search(engine, PROMPT, **SHORT, **options))


def alone(engine: Engine, seed: int, **options: Any) -> GenerationResult:
    return engine.generate(PROMPT, **{**SHORT, **options, "seed": seed})


def test_candidates_are_the_answers_of_one_seed_after_the_other(tiny: Engine) -> None:
    found = ask(tiny, best_of=3, select="consistency")
    assert [c.result.token_ids for c in found.candidates] == [alone(tiny, seed).token_ids for seed in (3, 4, 5)]
    assert found.denoising_passes == sum(sum(alone(tiny, seed).denoising_steps) for seed in (3, 4, 5))
    assert (found.scoring_passes, found.passed) == (0, None)


def test_the_likeliest_wins_and_its_passes_count(tiny: Engine) -> None:
    found = ask(tiny, best_of=4)
    means = []
    for seed in range(3, 7):
        logprobs = [token.logprob for token in alone(tiny, seed, logprobs=0).logprobs]
        means.append(sum(logprobs) / len(logprobs))
    assert [c.mean_logprob for c in found.candidates] == pytest.approx(means)
    assert found.best is found.candidates[means.index(max(means))]
    assert [c.mean_logprob for c in found.ranked()] == sorted((c.mean_logprob for c in found.candidates), reverse=True)
    assert found.scoring_passes == 4, "one causal pass over the last canvas of each"
    assert found.passes == found.denoising_passes + 4
    assert ask(tiny, best_of=2, logprobs=0).scoring_passes == 0, "they were asked for anyway"
    assert ask(tiny, best_of=2, mode="ar").scoring_passes == 0, "token by token all are read anyway"


def test_a_check_ends_the_search(tiny: Engine) -> None:
    wanted = alone(tiny, 5).text
    assert wanted not in (alone(tiny, 3).text, alone(tiny, 4).text)
    seen: list[tuple[str, str]] = []

    def check(prompt: str, text: str) -> bool:
        seen.append((prompt, text))
        return text == wanted

    found = ask(tiny, best_of=6, grader=check, every_step=False)
    assert found.passed
    assert found.best.result.text == wanted
    assert len(found.candidates) == 3
    assert seen == [(PROMPT, alone(tiny, seed).text) for seed in (3, 4, 5)]
    assert found.scoring_passes == 0
    assert len(ask(tiny, best_of=6, grader=check, at_once=2).candidates) == 4
    assert len(ask(tiny, best_of=3, grader=check, at_once=2).candidates) == 3


def test_a_grader_that_is_no_function_is_refused_by_name(tiny: Engine) -> None:
    with pytest.raises(OptionError, match=r"^grader must be a function, got 5"):
        ask(tiny, best_of=2, grader=5)


def test_a_candidate_that_is_right_takes_no_more_steps(tiny: Engine) -> None:
    wanted = alone(tiny, 3, max_denoising_steps=5, confidence_threshold=0.0).text
    steps: list[str] = []
    tiny.generate(PROMPT, **{**SHORT, "confidence_threshold": 0.0, "accept": steps.append})
    assert steps[-1] == wanted
    found = ask(tiny, best_of=1, grader=lambda _, text: text == wanted, confidence_threshold=0.0)
    assert found.passed
    assert found.denoising_passes == steps.index(wanted) + 1


def test_where_none_is_right_the_best_score_wins(tiny: Engine) -> None:
    scores = iter((0.25, 0.75, 0.5))
    found = ask(tiny, best_of=3, grader=lambda _prompt, _text: next(scores), every_step=False)
    assert found.passed is False
    assert [c.score for c in found.candidates] == [0.25, 0.75, 0.5]
    assert found.best is found.candidates[1]


def test_the_check_gets_the_last_message(tiny: Engine) -> None:
    seen: list[str] = []
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": [{"type": "text", "text": PROMPT}]}]
    for prompt in (messages, [*messages[:1], {"role": "user", "content": PROMPT}], tiny.tokenizer.encode(PROMPT)):
        run_job(
            tiny, search(tiny, prompt, best_of=1, grader=lambda p, _: seen.append(p) or True, every_step=False, **SHORT)
        )  # type: ignore[func-returns-value]
    assert seen == [PROMPT] * 3


def upside_down(prompt: str, rng: random.Random) -> Augmented:
    """The same words the other way round."""
    assert rng.random() < 1
    return Augmented(prompt[::-1], lambda answer: f"<{answer[::-1]}>")


@pytest.mark.parametrize("prompt", [PROMPT, [{"role": "user", "content": PROMPT}]])
def test_candidates_after_the_first_are_asked_in_other_forms(tiny: Engine, prompt: Prompt) -> None:
    graded: list[tuple[str, str]] = []
    job = search(
        tiny, prompt, best_of=3, augment=upside_down, every_step=False, **SHORT,
        grader=lambda asked, text: bool(graded.append((asked, text))),  # type: ignore[func-returns-value]
    )  # fmt: skip
    found = run_job(tiny, job)
    backwards = [tiny.generate(PROMPT[::-1], **{**SHORT, "seed": seed}) for seed in (4, 5)]
    texts = [alone(tiny, 3).text, *(f"<{answer.text[::-1]}>" for answer in backwards)]
    assert [candidate.result.text for candidate in found.candidates] == texts
    assert graded == [(PROMPT, text) for text in texts]
    assert [c.result.token_ids for c in found.candidates[1:]] == [answer.token_ids for answer in backwards]


def test_a_form_s_answer_is_accepted_as_an_answer_to_what_was_asked(tiny: Engine) -> None:
    turned = f"<{tiny.generate(PROMPT[::-1], **{**SHORT, 'seed': 4}).text[::-1]}>"
    found = ask(tiny, best_of=3, augment=upside_down, grader=lambda _, text: text == turned)
    assert (found.passed, found.best.result.text, len(found.candidates)) == (True, turned, 2)


def test_token_ids_have_one_form(tiny: Engine) -> None:
    ids = tiny.tokenizer.encode(PROMPT)
    plain, same = (
        run_job(tiny, search(tiny, ids, best_of=2, augment=augment, select="consistency", **SHORT))
        for augment in (None, upside_down)
    )
    assert [c.result.text for c in plain.candidates] == [c.result.text for c in same.candidates]


@pytest.mark.parametrize("augment", [lambda _p, _r: 1 / 0, lambda _p, _r: "other"])
def test_an_augmentation_that_fails_is_named(tiny: Engine, augment: Any) -> None:
    with pytest.raises(OptionError, match="augment") as caught:
        ask(tiny, best_of=2, augment=augment)
    assert caught.value.option == "augment"


@pytest.mark.parametrize("restore", [lambda _: 1 / 0, lambda _: None])
@pytest.mark.parametrize("every_step", [True, False])
def test_a_form_that_gives_no_answer_back_is_named(tiny: Engine, restore: Any, every_step: bool) -> None:
    options = {"best_of": 2, "grader": lambda _, __: 0.0, "every_step": every_step}
    with pytest.raises(OptionError, match="restore") as caught:
        ask(tiny, augment=lambda prompt, _: Augmented(prompt, restore), **options)
    assert caught.value.option == "augment"


@given(st.lists(st.sampled_from(["a", "b", "c ", "c"]), min_size=1, max_size=8))
def test_consistency_is_the_first_of_the_most_frequent(texts: list[str]) -> None:
    found = choose_candidate([replace(RESULT, text=text, seed=seed) for seed, text in enumerate(texts)], "consistency")
    stripped = [text.strip() for text in texts]
    most = max(stripped.count(text) for text in stripped)
    first = next(seed for seed, text in enumerate(stripped) if stripped.count(text) == most)
    assert found.best.result.seed == first
    assert found.best.votes == most


def test_no_token_is_no_division() -> None:
    token = TokenLogprob(5, "a", -1.0)
    found = choose_candidate([replace(RESULT, logprobs=()), replace(RESULT, logprobs=(token,), seed=1)], "likelihood")
    assert [c.mean_logprob for c in found.candidates] == [0.0, -1.0]


def test_jobs_share_rounds_and_say_what_they_say_alone(tiny: Engine) -> None:
    jobs = [search(tiny, PROMPT, best_of=count, select="consistency", **SHORT) for count in (1, 3)]
    jobs.append(search(tiny, PROMPT, best_of=3, grader=lambda _p, text: text == alone(tiny, 5).text, **SHORT))
    one, three, checked = run_jobs(tiny.generate_batch, jobs)
    assert [len(found.candidates) for found in (one, three, checked)] == [1, 3, 3]
    tokens = [[c.result.token_ids for c in found.candidates] for found in (one, three, checked)]
    assert tokens[0] == tokens[1][:1]
    assert tokens[1] == tokens[2] == [alone(tiny, seed).token_ids for seed in (3, 4, 5)]


@pytest.mark.parametrize(
    ("options", "option"),
    [
        ({"best_of": 0}, "best_of"),
        ({"best_of": "4"}, "best_of"),
        ({"best_of": 257}, "best_of"),
        ({"select": "luck"}, "select"),
        ({"at_once": 0}, "at_once"),
        ({"grader": lambda _p, _t: "yes"}, "check"),
        ({"grader": lambda _p, _t: float("nan")}, "check"),
        ({"grader": lambda _p, _t: 1 / 0}, "check"),
    ],
)
def test_refusals(tiny: Engine, options: dict[str, Any], option: str) -> None:
    with pytest.raises(OptionError) as caught:
        ask(tiny, **options)
    assert caught.value.option == option


def test_a_task_that_cannot_tell_says_so(tiny: Engine) -> None:
    from gesso.control.grading import find_grader

    with pytest.raises(DataError, match="code cannot tell a right answer without its reference"):
        ask(tiny, grader=find_grader("code"))
    assert ask(tiny, best_of=1, grader=find_grader("json", "{}")).passed is False


def test_a_request_of_the_search_is_plain(tiny: Engine) -> None:
    job = search(
        tiny, PROMPT, best_of=2, grader=lambda _p, _t: False, adapter="x", at_once=2, seed=7, top_k=3, every_step=False
    )
    assert next(job) == [Request(PROMPT, {"top_k": 3, "seed": seed}, "x") for seed in (7, 8)]


def test_seeds_go_on_behind_the_largest(tiny: Engine) -> None:
    job = search(tiny, PROMPT, best_of=3, select="consistency", **{**SHORT, "seed": 2**63 - 1})
    assert [c.result.seed for c in run_job(tiny, job).candidates] == [2**63 - 1, 0, 1]


@pytest.mark.parametrize("seed", ["7", 1.5, 2**63])
def test_what_is_no_seed_is_refused(tiny: Engine, seed: Any) -> None:
    with pytest.raises(OptionError, match="seed must be"):
        run_job(tiny, search(tiny, PROMPT, best_of=2, **{**SHORT, "seed": seed}))


def test_a_check_is_asked_at_the_end_where_the_checkpoint_writes_token_by_token(tiny: Engine) -> None:
    engine = Engine(tiny.runner, tiny.tokenizer, tiny.template, tiny.defaults.override(mode="ar"))
    grader = Mock(return_value=False)
    found = ask(engine, best_of=2, grader=grader)
    seen = [call.args[1] for call in grader.call_args_list]
    assert [candidate.result.mode for candidate in found.candidates] == ["ar", "ar"]
    assert seen == [candidate.result.text for candidate in found.candidates]
    job = search(engine, PROMPT, best_of=1, grader=lambda _p, _t: False, mode="canvas")
    assert "accept" in next(job)[0].options, "a request may choose canvases"


def test_where_no_seed_changes_an_answer_there_is_nothing_to_choose(tiny: Engine) -> None:
    with pytest.raises(OptionError, match="the same for every seed") as refused:
        ask(tiny, best_of=2, mode="ar", temperature=0.0)
    assert refused.value.option == "best_of"
    ask(tiny, best_of=1, mode="ar", temperature=0.0)
    ask(tiny, best_of=2, temperature=0.0)
