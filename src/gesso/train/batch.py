"""Makes one training batch of prompt and answer token ids.

The answer, with the end-of-turn token, is cut into canvases; the last is filled up with EOS, which is supervised.
One canvas of every example, or several, are drawn uniformly. The encoder reads the prompt and the clean answer up to
the end of the last one drawn; a canvas sees the encoder's positions before its own start and nothing later.

    B canvases   C canvas length   N encoder tokens of all examples laid flat, without padding
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gesso.diffusion.corruption import T_EPSILON, corrupt_path, draw_times
from gesso.errors import DataError
from gesso.runner.prompt_input import EmbeddingSpan
from gesso.train.config import TrainConfig
from gesso.train.self_generated import SelfGenerated

IGNORED = -100
"""Target of a position that is not trained on."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """Holds the token ids of a prompt as the chat template ends it, and of the answer with its end-of-turn token.

    Raises:
        DataError: an empty prompt or answer.
    """

    prompt: Sequence[int]
    answer: Sequence[int]
    ends: bool = True
    """False where the text goes on after the answer: only full canvases are cut from it, none is filled up."""
    source: Sequence[int] = ()
    """The text that the answer changes, with an end-of-turn token; empty where it changes none."""
    images: Sequence[EmbeddingSpan] = ()
    """Where the prompt's images are, in order, whole; their `source` is what the tower takes."""
    retained: bool = False
    """The answer is learned from what a teacher says at each of its places, where a run has one
    (`gesso.train.retention`)."""
    earlier: Sequence[range] = ()
    """Places of answers within the prompt, which the encoder's loss is taken over as well."""

    def __post_init__(self) -> None:
        if not self.prompt or not self.answer:
            raise DataError("a training example needs a prompt and an answer of one token at least")

    def canvases(self, canvas_length: int) -> int:
        """Returns the number of canvases that the answer is cut into."""
        full, rest = divmod(len(self.answer), canvas_length)
        return full + bool(rest and self.ends)


@dataclass(frozen=True, slots=True)
class Batch:
    """Holds one training batch, examples in order of length; see the module's docstring."""

    tokens_N: Tensor
    lengths: tuple[int, ...]
    """Encoder tokens of each example."""
    starts_B: Tensor
    """Where each canvas starts: the number of encoder positions it may see."""
    canvas_BC: Tensor
    """The clean canvas; of no tokens where the causal pass alone learns."""
    noisy_BC: Tensor
    self_conditioned_B: Tensor
    """Which canvases get the first pass's self-conditioning, bool."""
    targets_N: Tensor
    """Next token of each encoder position inside an answer (or anywhere, by choice), `IGNORED` elsewhere."""
    canvases_per_example: int = 1
    """Canvases of one example are neighbours: canvas b belongs to example b // canvases_per_example."""
    self_generated: SelfGenerated | None = None
    """The self-generated corruption of some of the self-conditioned canvases."""
    images: tuple[tuple[EmbeddingSpan, ...], ...] = ()
    """Images of each example, in order, where they are in its row; empty where no example has any."""
    ahead_BC: Tensor | None = None
    """Each canvas at an earlier time of its path, where a teacher speaks (`gesso.train.distill`)."""
    causal: bool = False
    """The causal pass alone learns from this batch."""
    retained: tuple[bool, ...] = ()
    """Which examples are learned from what a teacher says; empty where none is."""
    seeds_B: Tensor | None = None
    """Seeds of the random numbers of canvases that the model denoises itself (`gesso.train.on_policy`)."""

    def to(self, device: torch.device) -> "Batch":
        """Returns the same batch with its tensors on `device`."""
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        moved: dict[str, Any] = {
            name: value.to(device) for name, value in fields.items() if isinstance(value, Tensor | SelfGenerated)
        }
        return dataclasses.replace(self, **moved)

    @property
    def canvas_tokens(self) -> int:
        """Returns the number of tokens that the denoiser's loss is the mean over."""
        return self.canvas_BC.numel()

    @property
    def target_tokens(self) -> int:
        """Returns the number of tokens that the encoder's loss is the mean over."""
        return int((self.targets_N != IGNORED).sum())

    def split(self, parts: int) -> list["Batch"]:
        """Divides the batch into at most `parts` batches of every `parts`-th example each: like in length, for
        micro-batches and processes."""
        if parts == 1:
            return [self]
        rows = list(zip(self.tokens_N.split(self.lengths), self.targets_N.split(self.lengths), strict=True))
        per, device = self.canvases_per_example, self.tokens_N.device
        batches = []
        for part in range(min(parts, len(rows))):
            mine = range(part, len(rows), parts)
            canvases = torch.tensor([i * per + k for i in mine for k in range(per)], device=device)
            batches.append(
                Batch(
                    tokens_N=torch.cat([rows[i][0] for i in mine]),
                    lengths=tuple(self.lengths[i] for i in mine),
                    starts_B=self.starts_B[canvases],
                    canvas_BC=self.canvas_BC[canvases],
                    noisy_BC=self.noisy_BC[canvases],
                    self_conditioned_B=self.self_conditioned_B[canvases],
                    targets_N=torch.cat([rows[i][1] for i in mine]),
                    canvases_per_example=per,
                    self_generated=None if self.self_generated is None else self.self_generated.rows(canvases),
                    images=tuple(self.images[i] for i in mine) if self.images else (),
                    retained=tuple(self.retained[i] for i in mine) if self.retained else (),
                    ahead_BC=None if self.ahead_BC is None else self.ahead_BC[canvases],
                    causal=self.causal,
                    seeds_B=None if self.seeds_B is None else self.seeds_B[canvases],
                )
            )
        return batches


def make_batch(
    conversations: Sequence[Conversation],
    config: TrainConfig,
    *,
    canvas_length: int,
    vocab_size: int,
    eos_token_id: int,
    generator: torch.Generator,
    canvases_per_example: int = 1,
    jump: float | None = None,
) -> Batch:
    """Draws canvases, times, noise and self-conditioning, all from `generator`, as `config` says.

    Several canvases of an example cost the encoder nothing more. They lie in different parts of a long answer as far
    as it has that many, and each has a time and a noise of its own. Where the encoder's loss has no weight the encoder
    reads no further than the canvases can see. With `jump` each canvas is also made at the time so much earlier on its
    path, or at 0. With `config.on_policy` each canvas has a seed.

    Raises:
        DataError: an answer that goes on is shorter than a canvas.
    """
    encoder_loss = config.encoder_loss_weight > 0
    tokens: list[int] = []
    targets: list[int] = []
    lengths, starts = [], []
    canvases: list[list[int]] = []
    sources: list[list[int]] = []
    images: list[tuple[EmbeddingSpan, ...]] = []
    retained: list[bool] = []
    drawn = []
    for conversation in conversations:
        blocks = conversation.canvases(canvas_length)
        if not blocks:
            raise DataError(f"text that goes on has {len(conversation.answer)} tokens, a canvas {canvas_length}")
        drawn.append((conversation, _draw_blocks(blocks, canvases_per_example, generator)))
    drawn.sort(key=lambda pair: _row_length(pair[0], (max(pair[1]) + encoder_loss) * canvas_length))
    for conversation, picks in drawn:
        prompt, answer = list(conversation.prompt), list(conversation.answer)
        source = list(conversation.source) if config.source_probability else []
        for begin in (block * canvas_length for block in picks):
            for text, rows in ((answer, canvases), (source or answer, sources)):
                canvas = text[begin : begin + canvas_length]
                rows.append(canvas + [eos_token_id] * (canvas_length - len(canvas)))
            starts.append(len(prompt) + begin)
        end = (max(picks) + encoder_loss) * canvas_length
        row = prompt + answer[:end]
        tokens += row
        if encoder_loss:
            targets += _prompt_targets(conversation, whole=config.prompt_loss)
            targets += [*answer[:end], IGNORED]
        else:
            targets += [IGNORED] * len(row)
        lengths.append(len(row))
        images.append(tuple(conversation.images))
        retained.append(conversation.retained)
    canvas_BC = from_BC = torch.tensor(canvases)
    if config.source_probability:
        changed_B = torch.rand(len(canvases), generator=generator) < config.source_probability
        from_BC = torch.where(changed_B[:, None], torch.tensor(sources), canvas_BC)
    times_B = draw_times(len(canvases), generator, config.time_exponent)
    earlier_B = times_B if jump is None else (times_B - jump).clamp(min=T_EPSILON)
    path_RBC = corrupt_path(from_BC, torch.stack((times_B, earlier_B)), vocab_size, generator)
    if config.prefix_probability:
        noise_BC = torch.randint(vocab_size, canvas_BC.shape, generator=generator)
        halved_BC = _clean_before(canvas_BC, noise_BC, eos_token_id, generator)
        halved_B1 = torch.rand(len(canvases), 1, generator=generator) < config.prefix_probability
        path_RBC[0] = torch.where(halved_B1, halved_BC, path_RBC[0])
    batch = Batch(
        tokens_N=torch.tensor(tokens),
        lengths=tuple(lengths),
        starts_B=torch.tensor(starts),
        canvas_BC=canvas_BC,
        noisy_BC=path_RBC[0],
        self_conditioned_B=torch.rand(len(canvases), generator=generator) < config.self_conditioning_probability,
        targets_N=torch.tensor(targets),
        canvases_per_example=canvases_per_example,
        images=tuple(images) if any(images) else (),
        ahead_BC=None if jump is None else path_RBC[1],
        retained=tuple(retained) if any(retained) else (),
        seeds_B=torch.randint(2**31, (len(canvases),), generator=generator) if config.on_policy else None,
    )
    if not config.own_draft_probability:
        return batch
    drafts = SelfGenerated.draw(
        canvas_BC.shape, config.own_draft_probability, config.own_draft_rounds, vocab_size, generator
    )
    return dataclasses.replace(batch, self_generated=drafts)


def make_causal_batch(conversations: Sequence[Conversation], *, prompt_loss: bool = False) -> Batch:
    """Lays out prompts and whole answers for the causal pass alone: nothing is drawn, and canvases are empty.

    With `prompt_loss` the loss is taken over the prompt as well.
    """
    ordered = sorted(conversations, key=lambda conversation: len(conversation.prompt) + len(conversation.answer))
    tokens: list[int] = []
    targets: list[int] = []
    for conversation in ordered:
        tokens += [*conversation.prompt, *conversation.answer]
        targets += [*_prompt_targets(conversation, whole=prompt_loss), *conversation.answer, IGNORED]
    retained = tuple(conversation.retained for conversation in ordered)
    images = tuple(tuple(conversation.images) for conversation in ordered)
    empty_B0 = torch.empty(len(ordered), 0, dtype=torch.int64)
    return Batch(
        tokens_N=torch.tensor(tokens),
        lengths=tuple(len(conversation.prompt) + len(conversation.answer) for conversation in ordered),
        starts_B=torch.tensor([len(conversation.prompt) for conversation in ordered]),
        canvas_BC=empty_B0,
        noisy_BC=empty_B0,
        self_conditioned_B=torch.zeros(len(ordered), dtype=torch.bool),
        targets_N=torch.tensor(targets),
        images=images if any(images) else (),
        causal=True,
        retained=retained if any(retained) else (),
    )


def _clean_before(canvas_BC: Tensor, noise_BC: Tensor, eos_token_id: int, generator: torch.Generator) -> Tensor:
    """Each canvas up to a random place of its answer, noise behind it."""
    ends_B = (canvas_BC != eos_token_id).sum(dim=1) + 1
    places_B = (torch.rand(len(canvas_BC), generator=generator) * ends_B).long()
    return torch.where(torch.arange(canvas_BC.shape[1]) < places_B[:, None], canvas_BC, noise_BC)


def _prompt_targets(conversation: Conversation, *, whole: bool) -> list[int]:
    """Next tokens within the prompt: of the earlier answers, or of the whole but for soft tokens, which are no text
    that anything could predict."""
    if whole:
        soft = {place for image in conversation.images for place in range(image.start, image.end)}
        return [IGNORED if place in soft else token for place, token in enumerate(conversation.prompt)][1:]
    targets = [IGNORED] * len(conversation.prompt)
    for places in conversation.earlier:
        targets[places.start : places.stop] = conversation.prompt[places.start : places.stop]
    return targets[1:]


def _draw_blocks(blocks: int, count: int, generator: torch.Generator) -> list[int]:
    """`count` of `blocks` canvases. Of several, one is the last, where the answer ends: there is none like it. The
    others are drawn without repetition until all were drawn."""
    if count == 1:
        return [int(torch.randint(blocks, (), generator=generator))]
    first = torch.cat((torch.tensor([blocks - 1]), torch.randperm(blocks - 1, generator=generator)))
    rounds = [torch.randperm(blocks, generator=generator) for _ in range(-(-count // blocks) - 1)]
    picks: list[int] = torch.cat((first, *rounds))[:count].tolist()
    return picks


def _row_length(conversation: Conversation, end: int) -> int:
    """Encoder tokens of prompt and answer up to token `end` of the answer."""
    return len(conversation.prompt) + min(len(conversation.answer), end)
