"""Trains a byte-level byte-pair encoding for models that must spell any word.

Text is cut before pairs are merged: a word is by itself, without the space before it, so that it has the same tokens
in a list, in quotes, in an identifier and in a sentence; identifiers are cut at `_` and where the case changes; digits
are single; signs take the spaces around them (`", "`, ` = `); a line break takes the indentation after it. What no
merge covers is spelled in bytes, so every text survives `decode(encode(text))`.

The texts are the standard library's sources of the Python that runs it, docstrings included and tests left out, the
word list of `gesso.tasks.skills`, and examples of its skills.
"""

import random
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from gesso.tasks.skills.catalogue import SKILLS
from gesso.tasks.skills.lexicon import dictionary
from gesso.tasks.vocabulary import SPECIAL_TOKENS

BYTES = 256
_WORDS_APART = r"\d|[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\n+ *|[^\x00-\x7F]+| ?[^\sA-Za-z0-9\x80-\x{10FFFF}]+ ?| +"
_WORDS_WITH_SPACE = r"\d| ?[A-Z]?[a-z]+| ?[A-Z]+(?![a-z])|\n+ *|[^\x00-\x7F]+| ?[^\sA-Za-z0-9\x80-\x{10FFFF}]+| +"
_LEFT_OUT = ("test", "tests", "idlelib", "lib2to3", "site-packages", "dist-packages", "__pycache__")
_WORD_LIST_TIMES = 8
"""How often the word list is read, so that common stems outweigh the library's own abbreviations."""
_EXAMPLES = 30_000


def train_tokenizer(size: int, texts: Iterable[str], *, spaces_apart: bool = True) -> Tokenizer:
    """Trains a tokenizer of at most `size` tokens: the special ones, all bytes, then merges in the order of their use.

    Args:
        spaces_apart: False leaves the space before a word in the word's first token, as most tokenizers do.
    """
    tokenizer = Tokenizer(models.BPE())
    cut = pre_tokenizers.Split(Regex(_WORDS_APART if spaces_apart else _WORDS_WITH_SPACE), behavior="isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [cut, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    special = [AddedToken(token, special=True, normalized=False) for token in SPECIAL_TOKENS]
    trainer = trainers.BpeTrainer(
        vocab_size=max(size, len(SPECIAL_TOKENS) + BYTES),
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def training_texts() -> Iterator[str]:
    """Yields the modules of the standard library, the word list several times over, and examples of the skills."""
    root = Path(sysconfig.get_path("stdlib"))
    for path in sorted(root.rglob("*.py")):
        if not set(path.relative_to(root).parts) & set(_LEFT_OUT):
            yield path.read_text(encoding="utf-8", errors="ignore")
    for _ in range(_WORD_LIST_TIMES):
        yield "\n".join(dictionary())
    rng = random.Random(0)
    for _ in range(_EXAMPLES):
        example = rng.choice(SKILLS).sample(rng)
        yield f"{example.prompt}\n{example.answer}"


class Respelling:
    """Splits a token in two parts, which training does in prompts as BPE dropout would.

    The library's own dropout draws from a generator that cannot be seeded, and a training step must be repeatable.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._parts: dict[int, tuple[tuple[int, ...], ...]] = {}
        special = set(SPECIAL_TOKENS)
        for piece, index in tokenizer.get_vocab().items():
            if piece in special or len(piece) < 2:
                continue
            halves = ((piece[:cut], piece[cut:]) for cut in range(1, len(piece)))
            self._parts[index] = tuple(
                tuple(token.id for half in pair for token in tokenizer.model.tokenize(half)) for pair in halves
            )

    def apply(self, ids: Sequence[int], share: float, rng: random.Random) -> list[int]:
        """Returns `ids` with about `share` of the tokens that can be split split at a random place."""
        spelled: list[int] = []
        for index in ids:
            parts = self._parts.get(index)
            if parts is not None and rng.random() < share:
                spelled += rng.choice(parts)
            else:
                spelled.append(index)
        return spelled
