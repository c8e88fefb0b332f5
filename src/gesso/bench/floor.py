"""Computes the floor: the least time that a step can take on a machine whose bandwidth and matmul rate are known.

What a step must read: every weight of the text model once, of the experts those that its tokens are routed to, the
embedding table once (scores and mixture are made chunk by chunk), and the keys and values of what is committed. How
many experts N tokens meet is the expected number when each chooses k of E evenly by itself, E (1 - (1 - k / E)^N).

Its operations: those of its matrices, of attention, and of the table twice, for scores and for the mixture. Left
to right there is no mixture and no self-conditioning. Norms, sampling and what goes from layer to layer count nothing.
"""

from dataclasses import dataclass

from gesso.bench.cells import Cell
from gesso.config import LayerConfig, ModelConfig
from gesso.models.diffusion_gemma import DiffusionGemma


@dataclass(frozen=True, slots=True)
class Work:
    """Counts the bytes and operations of one step."""

    bytes: float
    """Bytes that must be read."""
    operations: float
    """Multiplications and additions."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Holds what a machine reads and computes in a second."""

    bytes: float
    """Bytes that it reads from memory in a second."""
    operations: float
    """Operations of matmuls a second, in the dtype and in shapes of the model."""

    def best(self, other: "Rates") -> "Rates":
        """Returns the better of two measurements."""
        return Rates(max(self.bytes, other.bytes), max(self.operations, other.operations))

    def seconds(self, work: Work) -> tuple[float, float]:
        """Returns the seconds that reading takes and those that the arithmetic takes; the larger is the floor."""
        return work.bytes / self.bytes, work.operations / self.operations


def step_work(model: DiffusionGemma, cell: Cell, rows: int) -> Work:
    """Counts the work of one step of `rows` requests of the cell, with the mean of what is committed behind it over
    the answer."""
    config, canvas = model.config, cell.mode == "canvas"
    width = config.canvas_length if canvas else 1
    tokens, committed = rows * width, cell.prompt + (cell.canvases(width) - 1) * width / 2
    mlp, expert = (
        3 * config.hidden_size * config.intermediate_size,
        3 * config.hidden_size * config.moe_intermediate_size,
    )
    table = config.vocab_size * config.hidden_size
    per_token, kept = (2 * table + mlp) if canvas else float(table), 0.0
    for layer in config.layers:
        seen = min(committed, config.sliding_window - 1) if layer.is_sliding else committed
        kept += 2 * layer.num_key_value_heads * layer.head_dim * seen
        per_token += _attention(config, layer) + mlp + config.hidden_size * config.num_experts
        per_token += config.top_k_experts * expert
        per_token += 2 * (seen + width) * config.num_attention_heads * layer.head_dim
    read = _weight_bytes(model, tokens, self_conditioned=canvas) + rows * kept * model.dtype.itemsize
    return Work(bytes=read, operations=2 * tokens * per_token)


def _weight_bytes(model: DiffusionGemma, tokens: int, *, self_conditioned: bool) -> float:
    """Counts the bytes of the weights that so many tokens meet."""
    met = experts_met(model.config, tokens) / model.config.num_experts
    total = 0.0
    for name, tensor in model.state_dict().items():
        if ".experts." in name:
            total += met * tensor.nbytes
        elif self_conditioned or not name.startswith("self_conditioning."):
            total += tensor.nbytes
    return total


def experts_met(config: ModelConfig, tokens: int) -> float:
    """Counts the experts of a layer that so many tokens are routed to, on average."""
    missed: float = (1 - config.top_k_experts / config.num_experts) ** tokens
    return config.num_experts * (1 - missed)


def _attention(config: ModelConfig, layer: LayerConfig) -> int:
    """Weights of a layer's projections: q and o, k, and v where a layer has its own."""
    heads = 2 * config.num_attention_heads + layer.num_key_value_heads * (2 if layer.is_sliding else 1)
    return config.hidden_size * layer.head_dim * heads
