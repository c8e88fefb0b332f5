"""Teaches a vision tower what is where in a picture, before any question is asked about one.

Questions tell a tower little: one answer of a few letters is all that comes of a picture. A drawn picture can say of
every soft token what stands there, and the words for it are in the vocabulary: so each soft token's embedding, as the
projector makes it, is scored against the table of the text model, which the embeddings of these words are read from
too. Where nothing stands the pad token does. A text model that reads such soft tokens has words before it.

M words of a batch of B pictures with n soft tokens each   P patches   V numbers of a patch
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gesso.models.diffusion_gemma import DiffusionGemma
from gesso.models.vision_tower import VisionModel
from gesso.tasks.sight.drawing import SIDE
from gesso.tasks.sight.scenes import Scene
from gesso.vision.preprocess import prepare_image
from gesso.vision.size import PatchLayout

SHARES = (1.0, 0.6, 0.36, 0.22)
"""Weights of the words at one place, the first the most important: of two letters, the left one; of a shape its colour,
kind, row and column."""
EMPTY_WEIGHT = 0.2
"""Weight of a soft token where nothing stands: most are such."""


@dataclass(frozen=True, slots=True)
class LabelBatch:
    """Holds pictures of one size and the words for what stands where; where nothing does, the pad token."""

    pixels_BPV: Tensor
    """fp32 in [0, 1]."""
    rows: int
    columns: int
    places_M: Tensor
    """Number of the soft token among all of the batch, int64."""
    tokens_M: Tensor
    weights_M: Tensor
    """fp32; those of one soft token sum to 1, or to `EMPTY_WEIGHT`."""
    first_M: Tensor
    """Whether the token is one of the most important word of its place; False where nothing stands."""

    @property
    def soft_tokens(self) -> int:
        """Returns the soft tokens of all pictures."""
        return len(torch.unique(self.places_M))

    def to(self, device: torch.device) -> "LabelBatch":
        """Returns the batch on a device."""
        tensors = (self.pixels_BPV, self.places_M, self.tokens_M, self.weights_M, self.first_M)
        pixels, places, tokens, weights, first = (tensor.to(device) for tensor in tensors)
        return LabelBatch(pixels, self.rows, self.columns, places, tokens, weights, first)


@dataclass(frozen=True, slots=True)
class PictureLabels:
    """Draws a step's pictures with their labels; they depend on the seed and the step alone."""

    steps: int
    """The first so many of a run."""
    draw: Callable[[random.Random], Scene]
    tokens_of: Callable[[str], Sequence[int]]
    """Finds the tokens of a word of `Mark.words`: it may have one for each way it stands in a text, which then mean the
    same to a model that reads soft tokens."""
    empty: int
    """Token of places where nothing stands."""
    layout: PatchLayout
    budget: int
    size: int
    """Pictures of a step."""
    seed: int
    rest: int = 0
    """Steps of questions behind the labels in which the tower stays as it is."""

    @property
    def fingerprint(self) -> str:
        """Returns what the pictures follow from."""
        return f"{self.steps} {self.rest} {self.draw.__name__} {self.size} {self.budget} {self.seed}"

    def batch(self, step: int) -> LabelBatch:
        """Draws the pictures of step `step` (from 0)."""
        rng = random.Random(f"labels/{self.seed}/{step}")
        scenes = [self.draw(rng) for _ in range(self.size)]
        pictures = [prepare_image(scene.picture, self.budget, self.layout) for scene in scenes]
        rows, columns = pictures[0].rows // self.layout.pooling, pictures[0].columns // self.layout.pooling
        places: list[int] = []
        tokens: list[int] = []
        weights: list[float] = []
        first: list[bool] = []
        for number, scene in enumerate(scenes):
            for place, words in enumerate(words_of_places(scene, rows, columns)):
                shares = SHARES[: len(words)] if words else (1.0,)
                scale = (1.0 if words else EMPTY_WEIGHT) / sum(shares)
                for order, (word, share) in enumerate(zip(words or [""], shares, strict=False)):
                    found = self.tokens_of(word) if word else (self.empty,)
                    places += [number * rows * columns + place] * len(found)
                    tokens += found
                    weights += [share * scale / len(found)] * len(found)
                    first += [bool(word) and order == 0] * len(found)
        return LabelBatch(
            torch.stack([torch.from_numpy(picture.pixel_values()) for picture in pictures]),
            pictures[0].rows,
            pictures[0].columns,
            torch.tensor(places),
            torch.tensor(tokens),
            torch.tensor(weights),
            torch.tensor(first),
        )


def words_of_places(scene: Scene, rows: int, columns: int) -> list[list[str]]:
    """Returns the words of each place of a grid, row by row; of several marks in one place, those further left
    first."""
    found: list[list[str]] = [[] for _ in range(rows * columns)]
    for mark in sorted(scene.marks, key=lambda mark: mark.x):
        row, column = int(mark.y / SIDE * rows), int(mark.x / SIDE * columns)
        found[min(row, rows - 1) * columns + min(column, columns - 1)] += mark.words
    return found


def label_loss(model: DiffusionGemma, vision: VisionModel, batch: LabelBatch) -> tuple[Tensor, Tensor]:
    """Returns the mean cross-entropy of a batch's words in nats, and the share of places whose likeliest token is their
    first word, of those where something stands."""
    embeddings_ND = vision(batch.pixels_BPV, batch.rows, batch.columns).flatten(0, 1)
    log_probs_NV = model.vocabulary.logits(embeddings_ND).log_softmax(dim=-1)
    loss = -(batch.weights_M * log_probs_NV[batch.places_M, batch.tokens_M]).sum() / batch.weights_M.sum()
    likeliest_M = log_probs_NV.detach().argmax(dim=-1)[batch.places_M]
    right = (likeliest_M == batch.tokens_M)[batch.first_M].sum()
    return loss, right / batch.places_M[batch.first_M].unique().numel()
