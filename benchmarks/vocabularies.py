"""Which tokenizer learns to copy unseen words soonest: letters, merged pairs of bytes, or common words whole.

    python benchmarks/vocabularies.py                       all arms, one after the other
    python benchmarks/vocabularies.py --arm 4096 --minutes 7

Each arm trains a small model of its own (hidden 128, 4 layers) on one thread for the same processor time, on the same
examples of five skills: an arm with longer sequences sees fewer of them. Its canvas holds 98 of 100 answers. Then it
answers prompts of held-out words and phrasings. Nats are summed over an answer, which makes them comparable:
`encoder` left to right, `denoiser` over the canvas at all noise levels. The last line of an arm is JSON. There is no
ceiling to print: the figure that no arm can pass is 100%.
"""

import argparse
import json
import random
import tempfile
import time
from importlib import resources
from pathlib import Path

import torch

from _bpe import Respelling, train_tokenizer, training_texts
from gesso.api import load
from gesso.config import LayerConfig, ModelConfig, RopeConfig
from gesso.generation import GenerationConfig
from gesso.tasks.skills.lexicon import dictionary, draw_pseudo_word
from gesso.tasks.spelled import Spelling, build_tokenizer
from gesso.text.chat_template import ChatTemplate
from gesso.text.tokenizer import Tokenizer
from gesso.train.checkpoint import checkpoint_path
from gesso.train.config import TrainConfig
from gesso.train.evaluate import evaluate
from gesso.train.recipe import Recipe
from gesso.train.recipes.common import TOKENS, VISION
from gesso.train.records import METRICS
from gesso.train.skill_data import Mixture, SkillData
from gesso.train.text_files import NewText
from gesso.train.trainer import train

ARMS: dict[str, tuple[int, bool] | None] = {
    "letters": (0, True),
    "2048": (2048, True),
    "4096": (4096, True),
    "8192": (8192, True),
    "4096-spaces": (4096, False),
    "whole-or-letters": None,
}
"""Size and whether spaces stand apart of a trained one; None is the one that ships, with common words whole and all
others spelled."""
SKILLS = ("sorting", "duplicates", "reversing", "casing", "replacing")
EVALUATION_STEPS = 16


def make_recipe(name: str) -> tuple[Recipe, dict[str, float]]:
    """An arm's recipe, and what its tokenizer makes of words."""
    arm = ARMS[name]
    respelling: Spelling | Respelling
    if arm is None:
        built, respelling = build_tokenizer(), Spelling(build_tokenizer())
    else:
        size, apart = arm
        built = train_tokenizer(size, training_texts() if size else (), spaces_apart=apart)
        respelling = Respelling(built)
    tokenizer = Tokenizer(built)
    rng = random.Random(0)
    words = {
        "word": rng.sample(dictionary(), 2000),
        "pseudo": [draw_pseudo_word(rng, unseen=True) for _ in range(2000)],
    }
    lengths = {f"tokens_a_{kind}": sum(len(tokenizer.encode(w)) for w in row) / len(row) for kind, row in words.items()}
    source = resources.files("gesso.tasks").joinpath("chat_template.jinja").read_text("utf-8")
    mixture = Mixture(0, dict.fromkeys(SKILLS, 1.0))
    data = SkillData((mixture,), tokenizer, ChatTemplate(source, TOKENS), respelling, seed=0)
    drawn = data.batch(0, 1000, 0)
    answers = sorted(len(conversation.answer) for conversation in drawn)
    lengths["tokens_a_prompt"] = sum(len(conversation.prompt) for conversation in drawn) / len(drawn)
    lengths["tokens_an_answer"] = sum(answers) / len(answers)
    special = tokenizer.special
    sliding = LayerConfig("sliding_attention", head_dim=32, num_key_value_heads=2)
    full = LayerConfig("full_attention", head_dim=64, num_key_value_heads=1)
    model = ModelConfig(
        vocab_size=tokenizer.size,
        hidden_size=128,
        intermediate_size=256,
        num_attention_heads=4,
        layers=(sliding, full) * 2,
        num_experts=4,
        top_k_experts=2,
        moe_intermediate_size=64,
        sliding_window=256,
        sliding_rope=RopeConfig("default", 10_000.0),
        full_rope=RopeConfig("proportional", 1_000_000.0, 0.25),
        canvas_length=-(-answers[980] // 8) * 8,
        max_position_embeddings=4096,
        image_token_ids=(special["<|image>"], special["<|image|>"], special["<image|>"]),
        vision_config=VISION,
    )
    config = TrainConfig(
        steps=1_000_000,
        batch_size=48,
        canvases_per_example=2,
        learning_rate=2e-3,
        warmup_steps=50,
        encoder_loss_weight=0.2,
        optimizer="muon",
        checkpoint_every=1_000_000,
    )
    stops = (special["<eos>"], special["<turn|>"])
    recipe = Recipe(
        name=f"vocabulary-{name}",
        model=model,
        generation=GenerationConfig(eos_token_ids=stops, pad_token_id=special["<pad>"], verify=0),
        train=config,
        text=NewText(lambda: built, source, {"tokenizer_class": "PreTrainedTokenizerFast", **TOKENS}),
        data=data,
    )
    return recipe, lengths


def run(name: str, minutes: float, examples: int) -> None:
    """Train one arm and answer with it."""
    recipe, lengths = make_recipe(name)
    started = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        outcome = train(recipe, out, device="cpu", should_stop=lambda: time.process_time() - started > 60 * minutes)
        steps = int(outcome.last.name.split("-")[-1])
        losses = [json.loads(line) for line in (out / METRICS).read_text("utf-8").splitlines()][-20:]
        mean = {key: sum(row[key] for row in losses) / len(losses) for key in ("denoiser_loss", "encoder_loss")}
        engine = load(str(checkpoint_path(out, steps)), "cpu", "float32")
        scores = [evaluate(engine, task, examples=examples, max_denoising_steps=EVALUATION_STEPS) for task in SKILLS]
    shown = {
        "arm": name,
        "vocabulary": recipe.model.vocab_size,
        **{key: round(value, 2) for key, value in lengths.items()},
        "canvas": recipe.model.canvas_length,
        "examples": steps * recipe.train.batch_size,
        "denoiser_nats": round(mean["denoiser_loss"] * recipe.model.canvas_length, 1),
        "encoder_nats": round(mean["encoder_loss"] * lengths["tokens_an_answer"], 1),
        "right": {score.task: score.right for score in scores},
        "of": examples,
    }
    print(json.dumps(shown), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arm", action="append", choices=ARMS, help="this arm only; may be repeated")
    parser.add_argument("--minutes", type=float, default=7.0, help="processor time of an arm's training")
    parser.add_argument("--examples", type=int, default=60, help="prompts of each skill that are answered")
    given = parser.parse_args()
    torch.set_num_threads(1)
    for name in given.arm or ARMS:
        run(name, given.minutes, given.examples)


if __name__ == "__main__":
    main()
