"""Random combinations of options: whatever is asked, what is told of an answer agrees with it, and neighbours change
nothing."""

import json
from collections.abc import Mapping
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from thorough import cases

from engine.test_engine import told
from engine.tiny import CANVAS
from gesso.diffusion.samplers import SAMPLERS
from gesso.diffusion.stopping import STOPPING_RULES
from gesso.engine.engine import Engine, Request
from gesso.engine.events import BlockCommitted, DenoisingFrame, Finished, event_from_dict, event_to_dict
from gesso.errors import OptionError
from gesso.generation.contradictions import CONSTRAINTS

EOS, WORD, OTHER = 1, 300, 301
THOUGHT = "<|channel>thought\n"
PROMPTS = ("Sort: pear, fig", "a", [40, 41, 42, 43, 44, 45, 46], "What is 481 + 296? " * 3)
OPTIONS: dict[str, st.SearchStrategy[Any]] = {
    "max_denoising_steps": st.integers(1, 3),
    "restart_steps": st.integers(1, 3),
    "sampler": st.sampled_from(SAMPLERS.names),
    "stopping": st.sampled_from([name for name in STOPPING_RULES.names if name != "deadline"]),
    "canvas_length": st.sampled_from([4, 5, CANVAS]),
    "canvas_width": st.sampled_from(["need", "auto"]),
    "stop_at_end": st.just(True),
    "verify": st.sampled_from([1, "auto", "exact"]),
    "guidance_scale": st.sampled_from([0.0, 2.0]),
    "mode": st.sampled_from(["canvas", "ar"]),
    "temperature": st.sampled_from([0, 2.0]),
    "top_k": st.sampled_from([1, 5]),
    "top_p": st.sampled_from([1e-6, 0.5]),
    "min_p": st.sampled_from([0.2, 1.0]),
    "logit_bias": st.dictionaries(st.sampled_from([EOS, WORD, OTHER]), st.sampled_from([-100.0, 20.0, 60.0])),
    "frequency_penalty": st.sampled_from([-2.0, 0.5]),
    "presence_penalty": st.sampled_from([2.0]),
    "repetition_penalty": st.sampled_from([0.5, 1.2]),
    "min_new_tokens": st.integers(0, CANVAS + 2),
    "include_stop": st.just(True),
    "penalty_window": st.integers(0, CANVAS + 3),
    "thinking": st.just(True),
    "thinking_budget": st.integers(0, 4),
    "logprobs": st.integers(0, 2),
    "prompt_logprobs": st.integers(0, 1),
    "probe": st.lists(st.lists(st.integers(0, 500), min_size=1, max_size=CANVAS), min_size=1, max_size=2),
    "stop": st.lists(st.sampled_from(["a", "e", " "]), max_size=2),
    "ignore_eos": st.just(True),
    "start_canvas": st.lists(st.sampled_from([WORD, OTHER]), min_size=CANVAS, max_size=CANVAS),
    "strength": st.sampled_from([0.3, 1.0]),
    "canvas": st.lists(st.sampled_from([None, None, WORD, OTHER, EOS]), min_size=1, max_size=CANVAS + 2),
    "begin": st.sampled_from(["pear", "é", THOUGHT, "<turn|>"]),
    "regex": st.sampled_from(["[a-c]{2,5}", "(?s).*"]),
    "json_object": st.just(True),
    "eos_token_ids": st.sampled_from([(), (EOS, WORD), (10**6,)]),
}
REQUESTS = st.builds(
    lambda prompt, options, tokens, seed: Request(prompt, {**options, "max_new_tokens": tokens, "seed": seed}),
    st.sampled_from(PROMPTS),
    st.dictionaries(st.sampled_from(sorted(OPTIONS)), st.none(), max_size=5).flatmap(
        lambda names: st.fixed_dictionaries({name: OPTIONS[name] for name in names})
    ),
    st.integers(1, 2 * CANVAS + 1),
    st.integers(0, 3),
)


def asked(**options: Any) -> list[Request]:
    return [Request("a", {"seed": 1, "max_new_tokens": 2 * CANVAS, **options})]


@settings(max_examples=cases(30, 200))
@example(asked(json_object=True, begin=THOUGHT))
@example(asked(regex="[a-c]{2,5}", canvas=[WORD]))
@example(asked(regex="[a-c]{2,5}", eos_token_ids=(10**6,)))
@example(asked(sampler="remdm", start_canvas=[WORD] * CANVAS, strength=0.3, logit_bias={WORD: -100.0}))
@given(st.lists(REQUESTS, min_size=1, max_size=3))
def test_what_is_told_of_an_answer_agrees_with_it(tiny: Engine, requests: list[Request]) -> None:
    taken, alone, refused = [], [], list[OptionError]()
    for request in requests:
        try:
            events: list[Any] = list(tiny.stream(request.prompt, **request.options))
        except OptionError as error:
            refused.append(error)
            continue
        check(tiny, request.options, events)
        taken.append(request)
        alone.append(events[-1].result)
    assert [error for error in refused if error.option is None] == []
    assert [told(result) for result in tiny.generate_batch(taken)] == [told(result) for result in alone]


def check(tiny: Engine, options: Mapping[str, Any], events: list[Any]) -> None:
    assert [event_from_dict(json.loads(json.dumps(event_to_dict(event)))) for event in events] == events
    blocks = [event for event in events if isinstance(event, BlockCommitted)]
    (result,) = [event.result for event in events if isinstance(event, Finished)]
    begin = tuple(tiny.tokenizer.encode(options.get("begin", "")))
    ids, left = result.token_ids, options["max_new_tokens"]
    assert ids == (*begin, *(token for block in blocks for token in block.tokens))
    assert (result.text, result.reasoning) == (
        "".join(block.text for block in blocks),
        "".join(block.reasoning for block in blocks),
    )
    assert result.logprobs == tuple(entry for block in blocks for entry in block.logprobs)
    assert [entry.token for entry in result.logprobs] == (list(ids[len(begin) :]) if "logprobs" in options else [])
    assert result.denoising_steps == tuple(block.denoising_steps for block in blocks)
    if "verify" not in options and result.mode == "canvas":
        frames = [event.canvas for event in events if isinstance(event, DenoisingFrame)]
        assert result.denoising_steps == tuple(map(frames.count, range(len(blocks))))
    assert result.completion_tokens == len(ids) <= left
    ends = () if options.get("ignore_eos") else options.get("eos_token_ids", tiny.defaults.eos_token_ids)
    constrained = not options.keys().isdisjoint(CONSTRAINTS)
    ended = result.stop_string is not None or ids[-1] in ends
    assert result.finish_reason == ("stop" if ended or constrained else "length")
    assert ended or len(ids) == left
    fewest = options.get("min_new_tokens", 0)
    assert set(ends).isdisjoint(ids[len(begin) : fewest])
    if result.stop_string is not None:
        assert result.text.endswith(result.stop_string) or "include_stop" not in options
    pins = dict(enumerate(options.get("canvas", ()), start=len(begin)))
    assert all(ids[place] == pin for place, pin in pins.items() if pin is not None and place < len(ids))
    never = {token for token, bias in options.get("logit_bias", {}).items() if bias <= -100} - set(pins.values())
    assert never.isdisjoint(ids[len(begin) :])
    if "json_object" in options and result.stop_string is None:
        assert isinstance(json.loads(result.text.removeprefix(options.get("begin", ""))), dict)
