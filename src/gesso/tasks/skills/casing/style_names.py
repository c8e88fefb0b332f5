"""Asks for a style of identifiers by other than its full name: by a short name, a description, an example or a
function, or from one style to another."""

from gesso.tasks.skills.patterns import Phrasings, read_phrasings
from gesso.tasks.skills.slots import Slots

_SHORT = read_phrasings("casing", "style short")
_DESCRIBED = read_phrasings("casing", "style described")
_EXAMPLE = read_phrasings("casing", "style like")
_CALL = read_phrasings("casing", "style call")
_FROM = read_phrasings("casing", "style from")
NAMED_STYLES: dict[str, Phrasings] = {
    "style short": _SHORT, "style described": _DESCRIBED, "style like": _EXAMPLE, "style call": _CALL,
    "style from": _FROM,
}  # fmt: skip
_SHORT_NAMES = {
    "snake": ("snake", "snake", "snake_case", "snakecase"), "camel": ("camel", "camel", "camelcase", "camelCase"),
    "pascal": ("pascal", "Pascal", "PascalCase", "pascalcase"), "kebab": ("kebab", "kebab", "kebab-case", "dashed"),
    "constant": ("SCREAMING_SNAKE", "screaming snake", "UPPER_SNAKE", "CONSTANT_CASE", "upper snake"),
    "dot": ("dot.case", "dotted", "dot case"), "train": ("Train-Case", "train", "train case"),
}  # fmt: skip
_DESCRIPTIONS = {
    "snake": ("small letters and underscores between the words", "underscores between the words, all lowercase",
              "lowercase words joined by underscores", "all lowercase, words separated by _"),
    "camel": ("no spaces or signs, the first word small and a capital for each of the others",
              "no separators, first word lowercase, every other word capitalized",
              "a small first letter and a capital at the start of every further word, nothing between them"),
    "pascal": ("no spaces or signs and a capital at the start of each word",
               "no separators, every word capitalized, the first one too",
               "each word capitalized and nothing between the words"),
    "kebab": ("small letters and hyphens between the words", "hyphens between the words, all lowercase",
              "lowercase words joined by dashes", "all lowercase, words separated by -"),
    "constant": ("capital letters and underscores between the words", "underscores between the words, all uppercase",
                 "uppercase words joined by underscores", "all caps, words separated by _"),
    "dot": ("small letters and dots between the words", "lowercase words joined by dots",
            "dots between the words, all lowercase"),
    "train": ("hyphens between the words and a capital at the start of each",
              "capitalized words joined by hyphens", "every word capitalized, words separated by -"),
}  # fmt: skip
_CALLS = {
    "snake": ("snake_case", "to_snake_case", "toSnakeCase", "snakecase", "_.snakeCase", "underscore", "to_snake"),
    "camel": ("camelCase", "to_camel_case", "toCamelCase", "camelcase", "_.camelCase", "to_camel", "toCamel"),
    "pascal": ("PascalCase", "to_pascal_case", "toPascalCase", "pascalcase", "to_pascal", "pascalize"),
    "kebab": ("kebab_case", "to_kebab_case", "toKebabCase", "kebabcase", "_.kebabCase", "dasherize", "to_kebab"),
    "constant": ("constant_case", "to_constant_case", "toConstantCase", "CONSTANT_CASE", "to_screaming_snake"),
    "dot": ("dot_case", "to_dot_case", "toDotCase", "dotCase"),
    "train": ("train_case", "to_train_case", "toTrainCase"),
}  # fmt: skip
_WAYS = ("short", "described", "like", "call", "from")
_WEIGHTS = (0.38, 0.18, 0.16, 0.12, 0.16)


def ask_named(slots: Slots, given: str, old: str, new: str, example: str, *, loose: bool) -> str:
    """Returns a request for an identifier in a style.

    Args:
        given: the identifier.
        old: the style that it is in; empty if it is words with spaces between them.
        new: the style that is asked for.
        example: some other identifier in that style.
        loose: the words could be taken for words of the request.
    """
    rng = slots.rng
    way = rng.choices(_WAYS, _WEIGHTS)[0]
    if way == "described":
        return slots.request(_DESCRIBED, given, loose=loose, how=rng.choice(_DESCRIPTIONS[new]))
    if way == "like":
        return slots.request(_EXAMPLE, given, loose=loose, example=example)
    if way == "call":
        return slots.request(_CALL, given, call=rng.choice(_CALLS[new]))
    if way == "from" and old:
        place = rng.choice((0, 2))
        names = (_SHORT_NAMES[style][place if place < len(_SHORT_NAMES[style]) else 0] for style in (old, new))
        return slots.request(_FROM, given, loose=loose, **dict(zip(("old", "new"), names, strict=True)))
    return slots.request(_SHORT, given, loose=loose, name=rng.choice(_SHORT_NAMES[new]))
