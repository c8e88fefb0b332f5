"""Whole generations against the reference's `generate`, draft by draft.

A canvas is drawn at random three times over: its start, every sample, every re-noising. The reference is given
gesso's random stream in gesso's order, and draws its samples by inverse distribution function as gesso does; all the
rest (schedule, acceptance, stopping, self-conditioning, commits, cuts) is its own. With a temperature near zero the
samples are the argmaxes, whatever is drawn.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from oracle import SHAPES, Pair, make_oracle, tokens
from torch import Tensor

from gesso.engine.engine import Engine
from gesso.engine.events import DenoisingFrame, Finished
from gesso.engine.result import GenerationResult
from gesso.generation import GenerationConfig
from gesso.models.loading import load_folder
from gesso.tasks.vocabulary import build_tokenizer
from gesso.text.tokenizer import Tokenizer

pytestmark = pytest.mark.numbers

PROMPT = 21
GREEDY = {"t_min": 1e-6, "t_max": 2e-6, "max_denoising_steps": 12}
PUBLISHED = {"t_min": 0.4, "t_max": 0.8, "max_denoising_steps": 16}
NEVER = 10**6
CALM, CALMEST, WILD = 0.4, 0.1, 1.0
BRANCH_ENDS = (
    "post_attention_layernorm.weight",
    "post_feedforward_layernorm.weight",
    "self_conditioning.down_proj.weight",
)
Make = Callable[[str, float], Pair]


@dataclass
class Record:
    """What a generation went through."""

    drafts: list[list[tuple[int, ...]]] = field(default_factory=list)
    """Argmax canvases, by canvas and step."""
    tokens: tuple[int, ...] = ()
    tokens_per_forward: float = 0.0

    @property
    def steps(self) -> list[int]:
        return [len(canvas) for canvas in self.drafts]


class Listener:
    """A streamer of the reference's `generate`."""

    def __init__(self) -> None:
        self.drafts: list[list[tuple[int, ...]]] = []

    def put(self, *_: Tensor) -> None:
        """Called with the prompt, then with every finished canvas."""
        self.drafts.append([])

    def put_draft(self, value: Tensor) -> None:
        self.drafts[-1].append(tuple(value[0].tolist()))

    def end(self) -> None:
        self.drafts.pop()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """`made(shape, share)`: a random checkpoint whose branches add `share` of what they would to the residual.

    The argmax canvases of a wholly random model never settle, and what is last-place rounding at its first step is
    a whole token some ten steps later; those of a calmer one settle after some steps, and it forgets rounding.
    """
    pairs: dict[tuple[str, float], Pair] = {}

    def make(name: str, share: float) -> Pair:
        if (name, share) not in pairs:
            folder: Path = tmp_path_factory.mktemp("reference") / name
            model = make_oracle(folder, SHAPES[name], seed=3)
            with torch.no_grad():
                for key, parameter in model.named_parameters():
                    if key.endswith(BRANCH_ENDS):
                        parameter.mul_(share)
            model.save_pretrained(folder)
            pairs[name, share] = Pair(SHAPES[name], folder, model, load_folder(folder, "cpu", "float32"))
        return pairs[name, share]

    return make


@pytest.fixture
def compare(same_random_stream: Callable[[int, bool], None]) -> Callable[..., Record]:
    """Runs both sides with the same settings and compares all there is; returns what they agree on."""

    def run(
        pair: Pair,
        *,
        seed: int = 0,
        start_canvas: list[int] | None = None,
        eos: tuple[int, ...] = (NEVER,),
        prompt: int = PROMPT,
        entropy_bound: float = 0.1,
        canvases: int = 3,
        **settings: Any,
    ) -> Record:
        from transformers.models.diffusion_gemma.generation_diffusion_gemma import EntropyBoundSamplerConfig

        settings = {
            "stability_threshold": 1,
            "confidence_threshold": 0.005,
            "max_new_tokens": canvases * pair.shape.canvas,
            **settings,
        }
        prompt_1T = tokens(pair.shape, 1, prompt, seed=seed) % (pair.shape.vocab - 3)  # no image tokens
        engine = Engine(pair.model, Tokenizer(build_tokenizer()), None, GenerationConfig(eos_token_ids=eos))
        ours, result = follow(
            engine,
            prompt_1T[0].tolist(),
            {**settings, "seed": seed, "start_canvas": start_canvas, "entropy_bound": entropy_bound},
        )
        same_random_stream(seed, start_canvas is not None)
        listener = Listener()
        start = {} if start_canvas is None else {"decoder_input_ids": torch.tensor([start_canvas])}
        out = pair.reference.generate(
            prompt_1T,
            streamer=listener,
            sampler_config=EntropyBoundSamplerConfig(entropy_bound),
            eos_token_id=list(eos),
            pad_token_id=NEVER,
            **settings,
            **start,
        )
        theirs = [token for token in out.sequences[0, prompt:].tolist() if token != NEVER]
        assert ours.steps == [len(canvas) for canvas in listener.drafts]
        assert ours.drafts == listener.drafts
        assert list(ours.tokens) == theirs
        assert ours.tokens_per_forward == pytest.approx(float(out.tokens_per_forward[0]))
        assert list(result.denoising_steps) == ours.steps
        return ours

    return run


def follow(engine: Engine, prompt: list[int], options: dict[str, Any]) -> tuple[Record, GenerationResult]:
    record = Record()
    for event in engine.stream(prompt, **options):
        if isinstance(event, DenoisingFrame):
            if event.step == 1:
                record.drafts.append([])
            record.drafts[event.canvas].append(event.tokens)
        elif isinstance(event, Finished):
            record.tokens = event.result.token_ids
            record.tokens_per_forward = event.result.tokens_per_forward
            return record, event.result
    raise AssertionError("no finish")


SETTLING = ["plain", "two_full_kv_heads", "window_2", "wide_canvas", "all_full"]
"""Sliding windows of 8, 4, 2 and 16 behind a prompt of 21, and no window at all."""


@pytest.mark.parametrize(
    ("name", "stability"), [*[(name, k) for name in SETTLING for k in (1, 2)], ("plain", 0), ("plain", 3)]
)
def test_a_deterministic_generation_settles_as_the_references_does(
    made: Make, compare: Callable[..., Record], name: str, stability: int
) -> None:
    """Temperature near zero, the start canvas given, a bound that accepts every position."""
    pair = made(name, CALM)
    start = tokens(pair.shape, pair.shape.canvas, seed=7).tolist()
    record = compare(pair, start_canvas=start, entropy_bound=1e9, stability_threshold=stability, **GREEDY)
    assert len(record.steps) == 3
    if stability == 0:
        assert record.steps == [1, 1, 1]
    else:
        assert max(record.steps) > stability + 1, "some canvas must have changed on its way"
        assert min(record.steps) < GREEDY["max_denoising_steps"], "and some must have settled"
        for canvas in record.drafts:
            assert len(canvas) == GREEDY["max_denoising_steps"] or len(set(canvas[-stability - 1 :])) == 1


@pytest.mark.parametrize("name", ["plain", "biased", "three_heads_one_kv"])
def test_a_generation_that_never_settles_uses_up_its_steps(
    made: Make, compare: Callable[..., Record], name: str
) -> None:
    pair = made(name, WILD)
    start = tokens(pair.shape, pair.shape.canvas, seed=1).tolist()
    record = compare(pair, start_canvas=start, **(GREEDY | {"max_denoising_steps": 6}))
    assert record.steps == [6, 6, 6]
    assert len({canvas for drafts in record.drafts for canvas in drafts}) > 15


@pytest.mark.parametrize(("name", "seed"), [("plain", 0), ("plain", 1), ("two_full_kv_heads", 0), ("window_2", 0)])
def test_the_published_settings_with_the_same_random_numbers(
    made: Make, compare: Callable[..., Record], name: str, seed: int
) -> None:
    """Real temperatures: partly accepted canvases, re-noising and a soft self-conditioning all matter."""
    record = compare(made(name, CALMEST), seed=seed, canvases=2, **PUBLISHED)
    assert 5 < min(record.steps) < PUBLISHED["max_denoising_steps"]


def test_the_published_settings_with_all_of_the_self_conditioning(made: Make, compare: Callable[..., Record]) -> None:
    record = compare(made("plain", WILD), canvases=2, entropy_bound=5.0, **(PUBLISHED | {"max_denoising_steps": 4}))
    assert record.steps == [4, 4]


@pytest.mark.parametrize("prompt", [1, 7, 8, 9, 40])
def test_prompts_about_as_long_as_the_window_and_much_longer(
    made: Make, compare: Callable[..., Record], prompt: int
) -> None:
    pair = made("plain", CALM)
    assert pair.shape.window == 8
    compare(pair, prompt=prompt, canvases=2, **GREEDY)


def test_stop_tokens_cut_where_the_reference_cuts(made: Make, compare: Callable[..., Record]) -> None:
    pair = made("plain", CALM)
    free = compare(pair, **GREEDY)
    late = free.tokens[pair.shape.canvas + 5]
    cut = compare(pair, eos=(NEVER, late), **GREEDY)
    assert cut.tokens == free.tokens[: free.tokens.index(late) + 1]
    first = compare(pair, eos=(free.tokens[0], late), **GREEDY)
    assert first.tokens == free.tokens[:1]
