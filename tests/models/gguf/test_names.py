"""Names of tensors: the package's own table of Gemma 4 says the same."""

from pathlib import Path

import pytest

from gesso.models.gguf.names import hf_name, is_gguf
from gesso.models.loading import weight_files
from models.gguf.published import SHAPE, gguf_name


def test_every_tensor_of_the_released_checkpoint_is_known_by_the_packages_name(released: Path) -> None:
    names = [name for name in weight_files(released) if "vision" not in name]
    assert len(names) > 60
    for name in names:
        assert hf_name(gguf_name(name, len(SHAPE.layers))) == name


@pytest.mark.parametrize(
    "name", ["blk.0.attn_sinks.weight", "blk.00.attn_q.weight", "blk.x.attn_q.weight", "v.a.weight"]
)
def test_a_name_that_is_not_known_stays(name: str) -> None:
    assert hf_name(name) == name


def test_a_head_is_the_vocabulary_once_more() -> None:
    assert hf_name("output.weight") == "lm_head.weight"


def test_a_file_is_told_by_the_end_of_its_name() -> None:
    assert is_gguf(Path("a.gguf"))
    assert is_gguf(Path("a/b.GGUF"))
    assert not is_gguf(Path("gguf"))
