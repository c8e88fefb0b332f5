"""Declares the table of options: each is declared once, as a field of a frozen dataclass, and everything else is made
from it.

    max_denoising_steps: int = option(48, "Most denoising steps a canvas takes.", minimum=1, unit="steps")

Validation (`checked`), command line (`gesso.cli.options`), HTTP fields (`gesso.server.option_fields`), Python keywords
and the configuration files of a checkpoint (`gesso.models.hf_generation_config`) and the generated pages read the table
(`options_of`). Strategies such as samplers declare their own options in their own files; a `Registry` finds them.

`table` has the rows (`option(...)`), `kinds` and `compound_kinds` their kinds and bounds, `registry` the strategies;
`sizes` and `paths` read what is no row, and `user_code` imports and calls what users wrote.
"""

from gesso.options.compound_kinds import (
    BiasMap,
    Files,
    JsonSchema,
    Mappings,
    PinnedTokens,
    Texts,
    TokenIds,
    TokenSequences,
    WordOrMapping,
)
from gesso.options.kinds import Choice, Function, Instance, Integer, IntegerOrWord, Kind, Number, OneOf, Switch, Text
from gesso.options.registry import Registry, Strategy, StrategyName
from gesso.options.table import Option, checked, declare, keyword, option, options_of, unknown_option

__all__ = [
    "BiasMap",
    "Choice",
    "Files",
    "Function",
    "Instance",
    "Integer",
    "IntegerOrWord",
    "JsonSchema",
    "Kind",
    "Mappings",
    "Number",
    "OneOf",
    "Option",
    "PinnedTokens",
    "Registry",
    "Strategy",
    "StrategyName",
    "Switch",
    "Text",
    "Texts",
    "TokenIds",
    "TokenSequences",
    "WordOrMapping",
    "checked",
    "declare",
    "keyword",
    "option",
    "options_of",
    "unknown_option",
]
