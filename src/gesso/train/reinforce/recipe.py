"""Makes a complete recipe of reinforcement from prompts with rewards and a checkpoint."""

import dataclasses
import math
from pathlib import Path
from typing import Literal

from gesso.config import LoraConfig
from gesso.control.grading import Grader, find_grader, grader_identity
from gesso.engine.prompt import PromptReader
from gesso.errors import OptionError
from gesso.models.adapter_files import adapter_config_of
from gesso.models.loading import read_generation_defaults, read_model_config
from gesso.options import options_of
from gesso.text.chat_template import ChatTemplate
from gesso.text.tokenizer import Tokenizer
from gesso.train.config import TrainConfig
from gesso.train.plan import Plan
from gesso.train.recipe import Recipe
from gesso.train.reinforce.cases import FileCases, TaskCases
from gesso.train.reinforce.config import Cases, PolicyConfig
from gesso.train.reinforce.rollout import policy_rules
from gesso.train.run_rate import is_small
from gesso.train.text_files import CopiedText

Method = Literal["full", "lora"]
LEARNING_RATES: dict[str, float] = {"full": 2e-6, "lora": 2e-5}
"""Defaults for models of billions of parameters."""
SMALL_RATES: dict[str, float] = {"full": 3e-5, "lora": 3e-4}
"""Defaults for models of the bundled ones' size, fifteen times as high, as in fine-tuning: at the others they stand
still in thirty steps."""
WARMUP_SHARE = 0.05


def find_cases(
    tasks: tuple[str, ...], prompts: Path | None, reward: str | None, held_out: float, seed: int
) -> TaskCases | FileCases:
    """Returns what gives prompts and rewards, as a command line says it.

    Args:
        reward: `right` or `score` of tasks, or `FILE.py:FUNCTION`; None is `right`, and what a file's lines say.
        held_out: share of a file's lines.

    Raises:
        OptionError: no prompts or two sources of them, or something that does not exist.
        DataError: a line of the file cannot be used.
    """
    if bool(tasks) == (prompts is not None):
        raise OptionError("gesso reinforce takes its prompts from --task or from --prompts, one of them", option="task")
    if not 0 <= held_out < 1:
        raise OptionError(f"--held-out must be at least 0 and below 1, got {held_out:g}", option="held_out")
    grader: Grader | None = None
    if reward not in (None, "right", "score"):
        if ":" not in reward:
            raise OptionError(f"no reward {reward!r}; known: right, score, FILE.py:FUNCTION", option="reward")
        grader = find_grader(reward, option="reward")
        reward = grader_identity(reward)
    if prompts is None:
        return TaskCases(tasks, seed, reward or "right", grader)
    if reward in ("right", "score"):
        raise OptionError(f"--reward {reward} needs a task, and --prompts has none", option="reward")
    return FileCases(prompts, seed, held_out, reward or "", grader)


def reinforce_recipe(
    folder: Path,
    *,
    base: str,
    method: Method,
    cases: Cases,
    policy: PolicyConfig,
    train: TrainConfig,
    learning_rate: float | None,
    adapter: LoraConfig,
    adapter_start: Path | None = None,
) -> Recipe:
    """Makes the recipe, and refuses a checkpoint that cannot be reinforced.

    Args:
        folder: the checkpoint to start from.
        base: what the adapter's file calls it.
        train: settings other than learning rate and warm-up.
        learning_rate: None takes the default of the method and the model's size.
        adapter_start: an adapter to go on from, which the divergence is from then; `adapter` is not asked.

    Raises:
        CheckpointError: `adapter_start` is no adapter of this checkpoint.
        OptionError: an option that is impossible, or impossible with this checkpoint.
        DataError: a prompt of a file that this checkpoint cannot read.
    """
    if method not in LEARNING_RATES:
        raise OptionError(f"method {method!r} does not exist; known: {', '.join(LEARNING_RATES)}", option="method")
    learning_rate = options_of(Plan)["learning_rate"].check(learning_rate)
    if not (folder / "tokenizer.json").exists():
        raise OptionError(f"{folder} has no tokenizer.json, without which no answer can be read")
    if train.evaluate_every and not cases.evaluation(1):
        message = "evaluate_every needs held-out prompts: give held_out, or more of it, for none is held out"
        raise OptionError(message, option="evaluate_every")
    model = read_model_config(folder)
    if adapter_start is not None:
        adapter = adapter_config_of(model, adapter_start)
    generation = read_generation_defaults(folder, model)
    policy_rules(generation)
    if isinstance(cases, FileCases):
        width = generation.canvas_length or model.canvas_length
        reader = PromptReader(Tokenizer.from_folder(folder), ChatTemplate.from_folder(folder), model)
        cases.check_prompts(reader, model.max_position_embeddings - width * -(-policy.max_new_tokens // width))
    settings = dataclasses.replace(
        train,
        learning_rate=learning_rate or (SMALL_RATES if is_small(model) else LEARNING_RATES)[method],
        warmup_steps=math.ceil(WARMUP_SHARE * train.steps),
    )
    return Recipe(
        name=f"reinforce-{method}",
        model=model,
        generation=generation,
        train=settings,
        text=CopiedText(folder),
        data=cases,
        start=folder,
        adapter=None if method == "full" else adapter,
        adapter_start=adapter_start,
        base=base,
        policy=policy,
    )
