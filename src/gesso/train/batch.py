"""From prompt and answer token ids to one training batch.

The answer, with the end-of-turn token, is cut into canvases; the last is filled up with EOS, which is supervised.
One canvas of every example is drawn uniformly. The encoder reads the prompt and the clean answer up to the end of
that canvas; the canvas sees the encoder's positions before its own start and nothing later.

    B examples   C canvas length   N encoder tokens of all examples laid flat, without padding
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gesso.diffusion.corruption import corrupt, draw_times
from gesso.errors import DataError


@dataclass(frozen=True, slots=True)
class Conversation:
    """Token ids of a prompt as the chat template ends it, and of the answer with its end-of-turn token."""

    prompt: Sequence[int]
    answer: Sequence[int]

    def __post_init__(self) -> None:
        if not self.prompt or not self.answer:
            raise DataError("a training example needs a prompt and an answer of one token at least")


@dataclass(frozen=True, slots=True)
class Batch:
    """One training batch, rows in order of length; see the module's docstring."""

    tokens_N: Tensor
    lengths: tuple[int, ...]
    """Encoder tokens of each example."""
    starts_B: Tensor
    """Where each canvas starts: the number of encoder positions it may see."""
    canvas_BC: Tensor
    """The clean canvas."""
    noisy_BC: Tensor
    self_conditioned_B: Tensor
    """Which examples get the first pass's belief, bool."""
    targets_N: Tensor
    """Next token of each encoder position inside the answer, -100 elsewhere."""

    def to(self, device: torch.device) -> "Batch":
        """The same batch with its tensors on `device`."""
        tensors = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name != "lengths"}
        return dataclasses.replace(self, **{name: tensor.to(device) for name, tensor in tensors.items()})


def make_batch(
    conversations: Sequence[Conversation],
    *,
    canvas_length: int,
    vocab_size: int,
    eos_token_id: int,
    self_conditioning_probability: float,
    generator: torch.Generator,
) -> Batch:
    """Draw canvases, times, noise and self-conditioning, all from `generator`."""
    tokens: list[int] = []
    targets: list[int] = []
    lengths, starts, canvases = [], [], []
    drawn = []
    for conversation in conversations:
        blocks = -(-len(conversation.answer) // canvas_length)
        drawn.append((conversation, int(torch.randint(blocks, (), generator=generator))))
    drawn.sort(key=lambda pair: len(pair[0].prompt) + min(len(pair[0].answer), (pair[1] + 1) * canvas_length))
    for conversation, block in drawn:
        prompt, answer = list(conversation.prompt), list(conversation.answer)
        begin, end = block * canvas_length, (block + 1) * canvas_length
        canvas = answer[begin:end]
        canvases.append(canvas + [eos_token_id] * (canvas_length - len(canvas)))
        row = prompt + answer[:end]
        tokens += row
        targets += [-100] * (len(prompt) - 1) + answer[:end] + [-100]
        lengths.append(len(row))
        starts.append(len(prompt) + begin)
    canvas_BC = torch.tensor(canvases)
    times = draw_times(len(canvases), generator)
    return Batch(
        tokens_N=torch.tensor(tokens),
        lengths=tuple(lengths),
        starts_B=torch.tensor(starts),
        canvas_BC=canvas_BC,
        noisy_BC=corrupt(canvas_BC, times, vocab_size, generator),
        self_conditioned_B=torch.rand(len(canvases), generator=generator) < self_conditioning_probability,
        targets_N=torch.tensor(targets),
    )
