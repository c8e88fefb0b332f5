import pytest

from gesso.tasks.vocabulary import build_tokenizer
from gesso.text.tokenizer import Tokenizer


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    """The bundled model's: words, single digits, and UTF-8 bytes for what it has no piece for."""
    return Tokenizer(build_tokenizer())
