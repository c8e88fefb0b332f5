"""A whole checkpoint folder with random weights and the bundled model's text side, and a model that recites."""

import dataclasses
import weakref
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import torch
from oracle import Shape, randomise
from torch import Tensor

from gesso.config import ModelConfig
from gesso.engine.engine import Engine
from gesso.generation import GenerationConfig
from gesso.models.cache import KVCache
from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.models.saving import save_folder
from gesso.nn.vocabulary import VocabularyPass
from gesso.tasks.vocabulary import build_tokenizer
from gesso.text.chat_template import ChatTemplate
from gesso.text.tokenizer import Tokenizer
from gesso.train.config import TrainConfig
from gesso.train.recipe import Recipe
from gesso.train.text_files import NewText

CANVAS, CONTEXT = 8, 4096
NEW_TOKENS = 4 * CANVAS
"""Of an answer of noise, which hardly ever ends by itself, where nobody says how long it may be."""
SHARP = 2.0
TOKENS = {"bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>", "unk_token": "<unk>"}
TEMPLATE = resources.files("gesso.tasks").joinpath("chat_template.jinja").read_text("utf-8")


class NoData:
    def batch(self, step: int, size: int, canvas_length: int) -> list[Any]:
        raise NotImplementedError


def tiny_recipe() -> Recipe:
    """Never trained: it names what a checkpoint folder holds."""
    special = Tokenizer(build_tokenizer()).special
    shape = Shape(layers="sf", vocab=len(build_tokenizer().get_vocab()), hidden=24, mlp=24, window=6, canvas=CANVAS)
    model = dataclasses.replace(
        shape.config(),
        max_position_embeddings=CONTEXT,
        image_token_ids=(special["<|image>"], special["<|image|>"], special["<image|>"]),
    )
    return Recipe(
        name="tiny",
        model=model,
        generation=GenerationConfig(eos_token_ids=(special["<eos>"], special["<turn|>"]), max_denoising_steps=12),
        train=TrainConfig(steps=1),
        text=NewText(build_tokenizer, TEMPLATE, {"tokenizer_class": "PreTrainedTokenizerFast", **TOKENS}),
        data=NoData(),
    )


def make_tiny_folder(folder: Path) -> Path:
    """A checkpoint in Hugging Face layout. Its answers are noise that settles after a few steps, or never."""
    recipe = tiny_recipe()
    model = DiffusionGemma(recipe.model)
    randomise(model, seed=1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(("post_attention_norm.weight", "post_norm.weight", "conditioning.mlp.down_proj.weight")):
                parameter.mul_(0.1)
            if name == "norm.weight":  # sharper than random, so that canvases settle
                parameter.mul_(SHARP)
    save_folder(model, folder, generation=dataclasses.replace(recipe.generation, max_new_tokens=NEW_TOKENS))
    recipe.text.write(folder)
    return folder


class ReciteRow:
    """A cache row that only counts."""

    def __init__(self) -> None:
        self.length = 0
        self.prompt: int | None = None

    def extend(self, tokens: int) -> None:
        self.length += tokens


class Reciter:
    """A model that is sure of every word: each canvas is the next piece of `script`, then `fill` for ever."""

    def __init__(self, config: ModelConfig, script: Sequence[int], fill: int) -> None:
        self.config = config
        self.device = torch.device("cpu")
        self.script = list(script)
        self.fill = fill
        self.encoded: list[list[int]] = []
        self.rows: list[weakref.ref[ReciteRow]] = []
        self.passes = 0

    dtype = torch.float32
    offload = None

    @property
    def vocabulary(self) -> "Reciter":
        return self

    def fix_positions(self, positions: int) -> None:
        """It has no tables."""

    def new_cache(self, batch_size: int, *_: int) -> KVCache:
        rows: Any = [ReciteRow() for _ in range(batch_size)]
        self.rows += [weakref.ref(row) for row in rows]
        return KVCache(rows)

    def encode_flat(self, tokens_N: Tensor, counts: Sequence[int], cache: KVCache, *_: object) -> Tensor:
        self.encoded += [part.tolist() for part in tokens_N.split(list(counts))]
        for row, count in zip(cache.rows, counts, strict=True):
            row.extend(count)  # type: ignore[attr-defined]
        return torch.zeros(len(tokens_N), 1)

    def denoise_flat(self, _canvas_N: Tensor, widths: Sequence[int], cache: KVCache, _: Tensor | None) -> Tensor:
        self.passes += 1
        return torch.tensor([self._say(row, width) for row, width in zip(cache.rows, widths, strict=True)]).flatten()

    def predict(self, said_N: Tensor, *_: Tensor, mix: bool) -> VocabularyPass:
        zeros = torch.zeros(said_N.shape)
        return VocabularyPass(said_N, said_N, zeros, zeros, torch.zeros(said_N.shape[0], 1))

    def _say(self, row: Any, width: int) -> list[int]:
        row.prompt = row.length if row.prompt is None else row.prompt
        start = row.length - row.prompt
        piece = self.script[start : start + width]
        return piece + [self.fill] * (width - len(piece))


def reciter(script: str | Sequence[int], *, fill: str = "<eos>", canvas: int = CANVAS) -> Engine:
    """An engine that says `script`, a text or token ids."""
    recipe, tokenizer = tiny_recipe(), Tokenizer(build_tokenizer())
    ids = tokenizer.encode(script) if isinstance(script, str) else script
    model: Any = Reciter(dataclasses.replace(recipe.model, canvas_length=canvas), ids, tokenizer.special[fill])
    return Engine(model, tokenizer, ChatTemplate(TEMPLATE, TOKENS), recipe.generation, "reciter")
