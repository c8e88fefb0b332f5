"""Builds the tokenizer of the skills: common words and signs are whole, every other word is spelled letter by letter.

Text is cut first: a word goes with the space or `_` before it, digits are single, signs take the spaces around them
(`", "`, ` = `), a line break takes the indentation after it. A cut that is in the list has a token of its own; any
other is spelled in bytes, all of it, so that an unknown word never falls into pieces of other words, and every text
survives `decode(encode(text))`. Technically it is a byte-level BPE without merges.

    python -m gesso.tasks.spelled --out src/gesso/tasks/skills/words_whole.txt

writes the list: the pieces of the tokenizer before, in whose words `mini` learned its first tasks, and what is common
in examples of the skills.
"""

import argparse
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import resources
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

from gesso.tasks.skills.catalogue import SKILLS
from gesso.tasks.vocabulary import SPECIAL_TOKENS, pieces

_CUT = r"\d|[ _]?[A-Z]?[a-z]+|[ _]?[A-Z]+(?![a-z])|\n+ *|[^\x00-\x7F]| ?[^\sA-Za-z0-9\x80-\x{10FFFF}]+ ?| +"
_EXAMPLES = 40_000
_COMMON = 80
"""A cut is whole if it occurs so often in `_EXAMPLES` examples."""
_BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)


def build_tokenizer(whole: Iterable[str] | None = None) -> Tokenizer:
    """Returns a tokenizer of the special tokens, all bytes in their order, then `whole`; the same on every call.

    Args:
        whole: cuts that have a token of their own; None takes the list that ships with the skills.
    """
    texts = whole_words() if whole is None else whole
    names = [*SPECIAL_TOKENS, *(_name_of_byte(byte) for byte in range(256)), *map(_name, texts)]
    vocabulary = {name: index for index, name in enumerate(dict.fromkeys(names))}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], ignore_merges=True))
    cut = pre_tokenizers.Split(Regex(_CUT), behavior="isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([cut, _BYTES])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL_TOKENS])
    return tokenizer


@cache
def _names_of_bytes() -> tuple[str, ...]:
    # The visible characters stand for themselves, the others, in order, for the characters from 256 on.
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(256, 512))
    return tuple(chr(byte if byte in visible else next(others)) for byte in range(256))


def _name_of_byte(byte: int) -> str:
    return _names_of_bytes()[byte]


def _name(text: str) -> str:
    return "".join(map(_name_of_byte, text.encode()))


@cache
def whole_words() -> tuple[str, ...]:
    """Returns the cuts that have a token of their own, in the order of their ids."""
    text = resources.files("gesso.tasks.skills").joinpath("words_whole.txt").read_text("utf-8")
    return tuple(line.encode("ascii").decode("unicode_escape") for line in text.split("\n") if line)


class Spelling:
    """Spells words of a prompt that have a token of their own, as BPE dropout would.

    The library's own dropout draws from a generator that cannot be seeded, and a training step must be repeatable.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        ids = tokenizer.get_vocab()
        self._letters = {
            index: tuple(ids[letter] for letter in name)
            for name, index in ids.items()
            if name not in SPECIAL_TOKENS and len(name) > 1 and name[-1].isalpha() and name.isascii()
        }

    def apply(self, ids: Sequence[int], share: float, rng: random.Random) -> list[int]:
        """Returns `ids` with about `share` of the words spelled."""
        spelled: list[int] = []
        for index in ids:
            letters = self._letters.get(index)
            if letters is not None and rng.random() < share:
                spelled += letters
            else:
                spelled.append(index)
        return spelled


def common_cuts() -> list[str]:
    """Returns the pieces of the tokenizer before that are cuts, then what is common in examples of the skills."""
    cut = pre_tokenizers.Split(Regex(_CUT), behavior="isolated")
    rng, counts = random.Random(0), Counter[str]()
    for _ in range(_EXAMPLES):
        example = rng.choice(SKILLS).sample(rng)
        for text in (*example.history, example.prompt, example.answer):
            counts.update(part for part, _ in cut.pre_tokenize_str(text))
    before = [piece for piece in pieces() if [part for part, _ in cut.pre_tokenize_str(piece)] == [piece]]
    common = sorted(part for part, count in counts.items() if count >= _COMMON)
    return [part for part in dict.fromkeys([*before, *common]) if len(part.encode()) > 1]


def _main() -> None:
    parser = argparse.ArgumentParser(description="Write the list of the words that have a token of their own.")
    parser.add_argument("--out", type=Path, required=True)
    lines = (part.encode("unicode_escape").decode("ascii") for part in common_cuts())
    parser.parse_args().out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    _main()
