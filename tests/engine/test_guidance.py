"""Guided requests: bit for bit nothing at scale 1, the second prompt alone at 0, and nobody else's business."""

import threading
from typing import Any

import pytest
import torch

from engine.tiny import CANVAS
from gesso.diffusion.guidance import BlackBox, Differentiable
from gesso.engine.async_engine import AsyncEngine, Limits
from gesso.engine.engine import Engine, Request
from gesso.engine.events import Finished
from gesso.engine.result import GenerationResult
from gesso.errors import OptionError
from gesso.text.output import CHANNEL

PROMPT, OTHER = "Sort: pear, fig", "Sort: kiwi, apple, plum"
SHORT = {"max_new_tokens": 20, "max_denoising_steps": 5, "seed": 3}


SAME_PATH = {"temperature": 0.0, "top_k": 10**6}
"""Cuts nothing, and makes a plain request work on its logits as a guided one does: equal to the last bit."""


def ask(engine: Engine, prompt: Any = PROMPT, **options: Any) -> GenerationResult:
    return engine.generate(prompt, **{**SHORT, **options})


def test_scale_1_is_no_guidance(tiny: Engine) -> None:
    plain, found = ask(tiny, logprobs=0), ask(tiny, logprobs=0, guidance_scale=1.0)
    assert (found.token_ids, found.denoising_steps, found.guidance_passes) == (
        plain.token_ids,
        plain.denoising_steps,
        0,
    )
    assert [t.logprob for t in found.logprobs] == [t.logprob for t in plain.logprobs]


@pytest.mark.parametrize("kind", ["text", "ids", "messages", "raw"])
def test_away_from_the_prompt_itself_is_no_guidance_but_twice_the_passes(tiny: Engine, kind: str) -> None:
    """Both passes say the same, whatever the scale."""
    kinds: dict[str, Any] = {"ids": tiny.tokenizer.encode(PROMPT), "messages": [{"role": "user", "content": PROMPT}]}
    prompt, raw = kinds.get(kind, PROMPT), kind == "raw"
    plain = ask(tiny, prompt, **SAME_PATH, raw=raw)
    found = ask(tiny, prompt, **SAME_PATH, raw=raw, guidance_scale=3.0, negative_prompt=PROMPT)
    assert found.token_ids == plain.token_ids
    assert found.denoising_steps == plain.denoising_steps
    assert found.guidance_passes == sum(found.denoising_steps)
    assert found.passes == 2 * plain.passes


def test_scale_0_is_the_second_prompt_alone(tiny: Engine) -> None:
    """Over several canvases: what is committed is behind both prompts."""
    found = ask(tiny, **SAME_PATH, guidance_scale=0.0, negative_prompt=OTHER)
    assert found.token_ids == ask(tiny, OTHER, **SAME_PATH).token_ids
    assert found.canvases == 3
    assert found.token_ids != ask(tiny, **SAME_PATH).token_ids


def test_a_response_prefix_stands_behind_both(tiny: Engine) -> None:
    found = ask(tiny, **SAME_PATH, guidance_scale=0.0, negative_prompt=OTHER, begin="fig")
    assert found.token_ids == ask(tiny, OTHER, **SAME_PATH, begin="fig").token_ids


@pytest.mark.parametrize("budget", range(3, 9))
def test_no_canvas_reaches_past_the_context_behind_the_longer_prompt(tiny: Engine, budget: int) -> None:
    """Reasoning that is cut short shifts the canvases behind it, so that the last one may reach beyond whole ones."""
    ids, context = tiny.tokenizer.encode(PROMPT), tiny.config.max_position_embeddings
    longer = "a" * (context - 6 * CANVAS - 1)  # a token each
    options = {"begin": CHANNEL, "thinking_budget": budget, "ignore_eos": True, "max_denoising_steps": 1}
    options |= {"max_new_tokens": 6 * CANVAS - 1, "guidance_scale": 0.0, "negative_prompt": longer}
    assert len(ask(tiny, ids, **options).token_ids) == 6 * CANVAS - 1


def test_an_interval_bounds_the_second_passes(tiny: Engine) -> None:
    never_settles = {"confidence_threshold": 0.0, "max_new_tokens": 8, "guidance_scale": 4.0}
    passes = [
        ask(tiny, **never_settles, guidance_start=start, guidance_end=end).guidance_passes
        for start, end in ((1.0, 0.0), (1.0, 0.5), (0.5, 0.0), (0.3, 0.25))
    ]
    assert passes == [5, 3, 2, 0], "noise levels 1, 0.8, 0.6, 0.4, 0.2"
    assert (
        ask(tiny, **never_settles, guidance_start=0.3, guidance_end=0.25).token_ids
        == ask(tiny, confidence_threshold=0.0, max_new_tokens=8).token_ids
    ), "bit for bit as without"


def test_pins_and_constraints_hold(tiny: Engine) -> None:
    pinned = ask(tiny, canvas=(None, 9, None, None, 17), guidance_scale=5.0)
    assert (pinned.token_ids[1], pinned.token_ids[4]) == (9, 17)
    bound = ask(tiny, regex="[ab]{3,6}", guidance_scale=5.0, negative_prompt=OTHER)
    assert set(bound.text) <= {"a", "b"}
    assert 3 <= len(bound.text) <= 6
    assert bound.guidance_passes > 0


def test_guided_and_plain_requests_share_passes_and_change_nothing(tiny: Engine) -> None:
    asked: list[dict[str, Any]] = [
        {},
        {"guidance_scale": 3.0},
        {"guidance_scale": 2.0, "negative_prompt": OTHER, "guidance_end": 0.5},
        {"guidance_scale": 2.0, "guidance_start": 0.5},
        {"top_k": 4},
    ]
    alone = [ask(tiny, **options).token_ids for options in asked]
    together = tiny.generate_batch([Request(PROMPT, {**SHORT, **options}) for options in asked])
    assert [result.token_ids for result in together] == alone


def test_the_async_engine_accounts_for_both_caches(tiny: Engine) -> None:
    service = AsyncEngine(tiny, Limits())
    service.start()
    try:
        events: list[Any] = []
        options = {**SHORT, "guidance_scale": 3.0}
        plain_need = service._core.need(tiny.start(Request(PROMPT, SHORT)))
        assert service._core.need(tiny.start(Request(PROMPT, options))) > 1.5 * plain_need
        before = service.stats().counters.canvas_steps
        for _ in range(2):  # the second time with a stored prefix
            done = threading.Event()
            service.submit(
                Request(PROMPT, options), lambda e, d=done: (events.append(e), isinstance(e, Finished) and d.set())
            )
            assert done.wait(60)
        results = [event.result for event in events if isinstance(event, Finished)]
        assert results[0].token_ids == results[1].token_ids == ask(tiny, guidance_scale=3.0).token_ids
        assert service.stats().counters.canvas_steps - before == sum(result.passes for result in results)
    finally:
        service.close()
    assert service.stats().cache_bytes == 0


def test_a_classifier_pulls_a_token_in_and_a_constraint_keeps_it_out(tiny: Engine) -> None:
    wanted = tiny.tokenizer.encode("fig")[0]
    pull = Differentiable(lambda shares_CV: shares_CV[2, wanted], scale=200.0)
    assert ask(tiny, classifier=pull, max_new_tokens=8).token_ids[2] == wanted
    kept_out = ask(tiny, classifier=pull, max_new_tokens=8, regex="[ab]{3,6}")
    assert set(kept_out.text) <= {"a", "b"}
    plain = ask(tiny, max_new_tokens=8)
    zero = Differentiable(lambda shares_CV: shares_CV[2, wanted], scale=0.0)
    unchanged = ask(tiny, classifier=zero, max_new_tokens=8, **SAME_PATH)
    assert unchanged.token_ids == ask(tiny, max_new_tokens=8, **SAME_PATH).token_ids
    late = ask(tiny, classifier=pull, max_new_tokens=8, guidance_start=0.1)
    assert late.token_ids == plain.token_ids, "bit for bit where it never holds"


def test_a_black_box_steers(tiny: Engine) -> None:
    def lowest(tokens: Any) -> float:
        return -float(sum(tokens))

    steered = ask(tiny, classifier=BlackBox(lowest, scale=1.0, sure=1.0), max_new_tokens=8, max_denoising_steps=1)
    plain = ask(tiny, max_new_tokens=8, max_denoising_steps=1)
    pairs = list(zip(steered.token_ids, plain.token_ids, strict=False))
    assert all(low <= likeliest for low, likeliest in pairs)
    assert sum(low < likeliest for low, likeliest in pairs) >= 4


@pytest.mark.parametrize(
    ("options", "option"),
    [
        ({"guidance_scale": -1.0}, "guidance_scale"),
        ({"guidance_scale": 101.0}, "guidance_scale"),
        ({"guidance_scale": 2.0, "mode": "ar"}, "guidance_scale"),
        ({"guidance_scale": 2.0, "verify": 1}, "guidance_scale"),
        ({"guidance_start": 0.2, "guidance_end": 0.2}, "guidance_start"),
        ({"guidance_start": 0.5}, "guidance_start"),
        ({"guidance_end": 0.5, "guidance_scale": 1.0}, "guidance_end"),
        ({"negative_prompt": "x"}, "negative_prompt"),
        ({"guidance_scale": 2.0, "negative_prompt": "fig " * 5000}, "negative_prompt"),
        ({"classifier": 5}, "classifier"),
        ({"classifier": Differentiable}, "classifier"),
        ({"classifier": Differentiable(torch.sum), "mode": "ar"}, "classifier"),
    ],
)
def test_refusals(tiny: Engine, options: dict[str, Any], option: str) -> None:
    with pytest.raises(OptionError) as caught:
        ask(tiny, **options)
    assert caught.value.option == option


def test_auto_mode_keeps_canvases_for_it(tiny: Engine) -> None:
    assert ask(tiny, mode="auto", guidance_scale=2.0).mode == "canvas"
