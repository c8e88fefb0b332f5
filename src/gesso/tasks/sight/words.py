"""Builds the tokenizer of the model that sees: signs, and the few words of the questions and answers.

Everything that is read from a picture is spelled, letter by letter: of the words that a text is made of, only those of
answers stand whole without a space before them, and no drawn word contains one of them.
"""

from tokenizers import Tokenizer

from gesso.tasks.vocabulary import tokenizer_of
from gesso.tasks.words import words_of

ANSWERS: tuple[str, ...] = words_of("""
    red green blue yellow orange purple black pink circle square triangle star cross ring top middle bottom left centre
    right first second
    """)
_ASKED: tuple[str, ...] = words_of("""
    Which What Where How Give Read Write Name Count In number word table numbers JSON colour is this the this do you see
    as of the are there many has in part which shape shapes circles squares triangles stars crosses rings bar largest
    tallest smallest shortest picture pictures more missing gone another changed its order colours come comes after at
    """)
_GLUE = (", ", "[[", "], [", "]]", "user\n", "model\n", "system\n", "thought\n")


def build_sight_tokenizer() -> Tokenizer:
    """Returns the tokenizer; the same one, id for id, on every call."""
    asked = [word for word in dict.fromkeys(_ASKED) if word not in ANSWERS]
    words = [*ANSWERS, *(f" {word}" for word in (*ANSWERS, *asked)), *(word for word in asked if word[0].isupper())]
    return tokenizer_of([*_GLUE, *words])


def word_tokens(tokenizer: Tokenizer, word: str) -> tuple[int, ...]:
    """Returns the tokens that stand for a sign or a word seen in a picture: as an answer begins with it, and as it
    stands behind another word.

    Raises:
        ValueError: the word is no piece of the tokenizer.
    """
    pieces = (word.replace(" ", "▁"), f"▁{word}")
    if found := tuple(token for piece in pieces if (token := tokenizer.token_to_id(piece)) is not None):
        return found
    raise ValueError(f"{word!r} is no piece of this tokenizer")
