"""Says which part of each tensor a rank holds.

H query heads   G key heads   F rows of the dense MLP   E experts   V tokens   R ranks
"""

import dataclasses
import re

from gesso.config import LayerConfig, ModelConfig
from gesso.errors import OptionError
from gesso.kernels import BLOCK
from gesso.ranks.group import RankGroup

_LAYER = re.compile(r"layers\.(\d+)\.(.+)")


def check_ranks(config: ModelConfig, ranks: int) -> None:
    """Refuses a number of ranks that the model cannot be cut into.

    Raises:
        OptionError: what does not come out even, by name.
    """
    counts = {
        "attention heads": config.num_attention_heads,
        "rows of the dense MLP": config.intermediate_size,
        "experts": config.num_experts,
    }
    for what, count in counts.items():
        if count % ranks:
            raise OptionError(
                f"{count} {what} cannot be cut into {ranks} equal parts: tensor_parallel must divide them",
                option="tensor_parallel",
            )
    for heads in {layer.num_key_value_heads for layer in config.layers}:
        if heads % ranks and ranks % heads:
            raise OptionError(f"{heads} key heads cannot be shared by {ranks} ranks", option="tensor_parallel")
    if blocks(config.vocab_size) < ranks:
        raise OptionError(
            f"a vocabulary of {config.vocab_size} has no part for each of {ranks} ranks", option="tensor_parallel"
        )


def blocks(vocab_size: int) -> int:
    """Returns how many blocks of tokens a vocabulary has; ranks hold whole ones."""
    return -(-vocab_size // BLOCK)


def tokens_of(vocab_size: int, rank: int, size: int) -> range:
    """Returns the tokens whose rows of the table a rank holds: whole blocks, in the order of the ranks."""
    count = blocks(vocab_size)
    begin, end = (BLOCK * (count * place // size) for place in (rank, rank + 1))
    return range(begin, min(end, vocab_size))


def key_heads(layer: LayerConfig, group: RankGroup) -> range:
    """Returns the key heads of a rank: its share, or the one that its query heads read."""
    count = layer.num_key_value_heads
    if count % group.size == 0:
        return group.share(count)
    head = group.rank * count // group.size
    return range(head, head + 1)


def local_config(config: ModelConfig, group: RankGroup) -> ModelConfig:
    """Returns the shape of what a rank computes: its heads and rows. Experts and tokens are counted in whole."""
    return dataclasses.replace(
        config,
        num_attention_heads=config.num_attention_heads // group.size,
        intermediate_size=config.intermediate_size // group.size,
        layers=tuple(
            dataclasses.replace(layer, num_key_value_heads=len(key_heads(layer, group))) for layer in config.layers
        ),
    )


def cut(name: str, config: ModelConfig, group: RankGroup) -> tuple[int, range] | None:
    """Returns the dimension along which a tensor is cut and the rank's part of it; None where every rank has it
    whole."""
    if name == "vocabulary.weight":
        return 0, tokens_of(config.vocab_size, group.rank, group.size)
    match = _LAYER.fullmatch(name)
    if match is None:
        return None
    layer, part = config.layers[int(match[1])], match[2]
    heads = _scaled(group.share(config.num_attention_heads), layer.head_dim)
    owners = {
        ("attention.q_proj.weight", "attention.q_proj.bias"): (0, heads),
        (
            "attention.k_proj.weight",
            "attention.k_proj.bias",
            "attention.v_proj.weight",
            "attention.v_proj.bias",
        ): (0, _scaled(key_heads(layer, group), layer.head_dim)),
        ("attention.o_proj.weight",): (1, heads),
        ("mlp.gate_proj.weight", "mlp.up_proj.weight"): (0, group.share(config.intermediate_size)),
        ("mlp.down_proj.weight",): (1, group.share(config.intermediate_size)),
        ("experts.gate_up_proj", "experts.down_proj"): (0, group.share(config.num_experts)),
    }
    return next((place for names, place in owners.items() if part in names), None)


def is_added_once(name: str) -> bool:
    """Says whether a tensor is added to a sum over ranks, so that one rank alone may have it."""
    return name.endswith("attention.o_proj.bias")


def _scaled(parts: range, by: int) -> range:
    return range(parts.start * by, parts.stop * by)
