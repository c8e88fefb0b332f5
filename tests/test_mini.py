"""The bundled model: it ships whole, others can read it, and it answers."""

import json
import warnings
from pathlib import Path

import pytest
import torch
from oracle import reference_class

import gesso
from gesso.engine.engine import Engine
from gesso.models.hub import resolve
from gesso.tasks.base import evaluation_set, held_out
from gesso.tasks.registry import MINI_SKILLS, TASKS
from gesso.train.recipes import load_recipe

MEGABYTES = 12


@pytest.fixture(scope="module")
def folder() -> Path:
    return resolve("mini")


@pytest.fixture(scope="module")
def engine() -> Engine:
    return gesso.load("mini", device="cpu")


def test_it_is_small(folder: Path) -> None:
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) <= MEGABYTES * 10**6


def test_its_shape_and_text_files_are_those_of_its_recipe(folder: Path, engine: Engine, tmp_path: Path) -> None:
    recipe = load_recipe("mini-8")  # the last of those that made it, whose own settings are of its training
    assert engine.model.config == recipe.model
    assert engine.defaults == load_recipe("mini").generation
    recipe.text.write(tmp_path)
    for name in ("chat_template.jinja", "tokenizer.json", "tokenizer_config.json"):
        assert (folder / name).read_text("utf-8") == (tmp_path / name).read_text("utf-8"), name


def test_transformers_reads_it_with_equal_logits(folder: Path, engine: Engine) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from transformers import PreTrainedTokenizerFast

        reference = reference_class().from_pretrained(folder, dtype=torch.float32).eval()
        tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    messages = [{"role": "user", "content": "What is 481 + 296?"}]
    assert engine.template is not None
    ids = engine.tokenizer.encode(engine.template.render(messages))
    text = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    assert tokenizer(text, add_special_tokens=False)["input_ids"] == ids
    canvas = torch.randint(1811, (1, 32), generator=torch.Generator().manual_seed(0))
    cache = engine.model.new_cache()
    engine.model.encode(torch.tensor([ids]), cache)
    ours = engine.model.denoise(canvas, cache)
    with torch.no_grad():
        theirs = reference(input_ids=torch.tensor([ids]), decoder_input_ids=canvas).logits
    assert (ours - theirs).abs().max() < 2e-4


@pytest.mark.parametrize("skill", ["json", "code", "revision-in-file"])
def test_it_answers_held_out_prompts(engine: Engine, skill: str) -> None:
    task = TASKS[skill]
    cases = evaluation_set(task, 16, seed=1)
    assert all(held_out(case.prompt) for case in cases)
    results = engine.generate_batch([gesso.Request(case.prompt, {"seed": i}) for i, case in enumerate(cases)])
    right = sum(task.grade(case, result.text) for case, result in zip(cases, results, strict=True))
    assert right >= 14
    if skill == "json":
        assert all(isinstance(json.loads(result.text), dict) for result in results)


def test_every_skill_ends_its_answers(engine: Engine) -> None:
    cases = [evaluation_set(TASKS[name], 1, seed=2)[0] for name in MINI_SKILLS]
    requests = [gesso.Request(case.prompt, {"seed": i, "max_new_tokens": 400}) for i, case in enumerate(cases)]
    for result in engine.generate_batch(requests):
        assert result.finish_reason == "stop"
        assert result.text
