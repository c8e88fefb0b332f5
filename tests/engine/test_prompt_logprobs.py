"""Log-probabilities of a prompt: what the causal pass says of each token after those before it."""

import threading

import pytest
import torch

from gesso.engine.async_engine import AsyncEngine, Limits
from gesso.engine.engine import Engine, Request
from gesso.engine.events import Event, Finished
from gesso.errors import OptionError

LONG = "the quick brown fox jumps over the lazy dog " * 5


def direct(engine: Engine, ids: list[int]) -> torch.Tensor:
    """Of one causal pass over all of it."""
    model = engine.model
    with torch.inference_mode():
        cache = model.new_cache(1, len(ids), len(ids))
        hidden_TD = model.encode_flat(torch.tensor(ids), [len(ids)], cache)
        scores = model.vocabulary.logits(hidden_TD[:-1]).log_softmax(dim=-1)
    return scores.gather(1, torch.tensor(ids[1:])[:, None])[:, 0]


@pytest.mark.parametrize("mode", ["canvas", "ar"])
@pytest.mark.parametrize("text", ["ab", "the quick brown fox", LONG])
def test_they_are_those_of_one_causal_pass(tiny: Engine, text: str, mode: str) -> None:
    ids = tiny.tokenizer.encode(text)
    state = tiny.start(Request(ids, {"prompt_logprobs": 2, "max_new_tokens": 4, "mode": mode, "seed": 1}), chunk=16)
    for _ in tiny._run([state]):
        pass
    told = state.result().prompt_logprobs
    assert [score.token for score in told] == ids[1:]
    torch.testing.assert_close(torch.tensor([score.logprob for score in told]), direct(tiny, ids), atol=1e-4, rtol=1e-4)
    for score in told:
        assert len(score.top) == 2
        assert score.top[0][2] >= max(score.top[1][2], score.logprob - 1e-6)


def test_the_answer_is_what_it_is_without_them(tiny: Engine) -> None:
    options = {"max_new_tokens": 8, "seed": 3, "logprobs": 1}
    plain = tiny.generate(LONG, **options)
    told = tiny.generate(LONG, **options, prompt_logprobs=0)
    assert (told.token_ids, told.logprobs, plain.prompt_logprobs) == (plain.token_ids, plain.logprobs, ())
    assert len(told.prompt_logprobs) == told.prompt_tokens - 1


def test_what_is_stored_of_a_prompt_is_read_again(tiny: Engine) -> None:
    service = AsyncEngine(tiny, Limits(prefill_chunk=16))
    service.start()
    results = []
    for _ in range(2):
        done = threading.Event()

        def listen(event: Event, done: threading.Event = done) -> None:
            if isinstance(event, Finished):
                results.append(event.result)
                done.set()

        service.submit(Request(LONG, {"prompt_logprobs": 0, "max_new_tokens": 4, "seed": 1}), listen)
        assert done.wait(60)
    service.close()
    assert results[0].prompt_logprobs == results[1].prompt_logprobs
    assert results[1].cached_tokens == 0


def test_a_prompt_of_one_token_has_none(tiny: Engine) -> None:
    assert tiny.generate([5], prompt_logprobs=1, max_new_tokens=4).prompt_logprobs == ()
    with pytest.raises(OptionError, match="prompt_logprobs"):
        tiny.generate("ab", prompt_logprobs=-1)


def test_what_the_answer_begins_with_is_no_part_of_the_prompt(tiny: Engine) -> None:
    plain, begun = (tiny.generate(LONG, prompt_logprobs=0, max_new_tokens=8, begin=begin) for begin in ("", "fig"))
    assert begun.prompt_tokens == plain.prompt_tokens
    assert [score.token for score in begun.prompt_logprobs] == [score.token for score in plain.prompt_logprobs]
    assert tiny.generate([5], prompt_logprobs=1, max_new_tokens=8, begin="fig").prompt_logprobs == ()
