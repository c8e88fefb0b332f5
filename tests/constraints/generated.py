"""Regular expressions and texts made at random."""

import random

LETTERS = 'ab é"\\\n01日-]^'
_CLASSES = ("[a-c]", "[^a]", "[^ab\\n]", "[0-9é]", "[\\]^-]", "[a\\-b]", "[]a]", "[\\d_]", "[^\\s]", "[b-]")
_ATOMS = (".", "\\d", "\\w", "\\s", "\\D", "\\S", "\\W", "\\n", "\\x61", "\\u00e9", "\\\\", "\\-", '"', " ", "-")


def make_regex(generator: random.Random, depth: int = 3) -> str:
    """A pattern in the part that Python's `re` shares."""
    kind = generator.choice(("atom", "letter", "letter", "text", "class", "cat", "cat", "or", "repeat", "repeat"))
    if depth == 0 or kind == "letter":
        return generator.choice("abé01日")
    if kind == "atom":
        return generator.choice(_ATOMS)
    if kind == "text":
        return "".join(generator.choice("abé 01日") for _ in range(generator.randint(1, 4)))
    if kind == "class":
        return generator.choice(_CLASSES)
    inner = [make_regex(generator, depth - 1) for _ in range(generator.randint(2, 3))]
    if kind == "cat":
        return "".join(f"(?:{part})" if "|" in part else part for part in inner)
    if kind == "or":
        return "(" + "|".join(inner) + generator.choice(("", "", "|")) + ")"
    count = generator.choice(("*", "+", "?", "{2}", "{1,3}", "{0,2}", "{2,}", "*?", "{1,2}?"))
    group = generator.choice(("(?:{})", "({})", "(?P<n{}>{})"))
    name = generator.randint(0, 10**9)
    return (group.format(name, inner[0]) if "P<" in group else group.format(inner[0])) + count


def make_text(generator: random.Random) -> str:
    return "".join(generator.choice(LETTERS) for _ in range(generator.randint(0, 6)))
