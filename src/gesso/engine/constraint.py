"""Applies a constraint to a request's output, canvas by canvas."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from gesso.constraints.automaton import TokenAutomaton
from gesso.constraints.class_pass import read_classes
from gesso.constraints.compile import Language, key_of
from gesso.constraints.constraint import Constraint
from gesso.constraints.emissions import Emissions
from gesso.constraints.expression import Expression, choices
from gesso.constraints.grammar import parse_grammar
from gesso.constraints.inference import Lattice, Posterior
from gesso.constraints.json_schema import schema_expression
from gesso.constraints.json_text import json_object
from gesso.constraints.regex import parse
from gesso.constraints.sized_cache import CacheStats, SizedCache, held_bytes
from gesso.constraints.tool_calls import tool_calls
from gesso.diffusion.canvas_state import Pins
from gesso.diffusion.logits_processing import ConstraintPosterior
from gesso.errors import OptionError
from gesso.generation import GenerationConfig
from gesso.nn.vocabulary import ROWS, Vocabulary, VocabularyPass


def constraint_language(config: GenerationConfig, strict: bool) -> Language:
    """Returns the language of a request's constraint, still to be read; the request must have one.

    Args:
        strict: refuses what is not known of a schema, which is ignored else.
    """
    if (schema := config.json_schema) is not None:
        return _language("json_schema", (schema, strict), lambda: _schema(schema, strict))
    if (pattern := config.regex) is not None:
        return _language("regex", pattern, lambda: (parse(pattern), ()))
    if (texts := config.choices) is not None:
        return _language("choices", texts, lambda: (choices(texts), ()))
    if (grammar := config.grammar) is not None:
        return _language("grammar", grammar, lambda: (parse_grammar(grammar), ()))
    return _language("json_object", True, lambda: (json_object(), ()))


def _language(kind: str, value: Any, read: Callable[[], tuple[Expression, tuple[str, ...]]]) -> Language:
    return Language((kind, key_of(kind, value)), read)


def _schema(schema: Any, strict: bool) -> tuple[Expression, tuple[str, ...]]:
    ignored: list[str] = []
    expression = schema_expression(schema, strict=strict, ignored=ignored)
    return expression, tuple(ignored)


def _tools(
    schemas: Mapping[str, Any], free: Collection[str], strict: Collection[str], calls: tuple[int, int | None]
) -> tuple[Expression, tuple[str, ...]]:
    ignored: list[str] = []
    text_first = not calls[0]
    expression = tool_calls(schemas, calls=calls, text_first=text_first, strict=strict, free=free, ignored=ignored)
    return expression, tuple(ignored)


def with_constraint(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Puts what `gesso.constraint` compiled in the place of the option of its kind.

    Raises:
        OptionError: it is something else, or that option is given as well.
    """
    if not isinstance(options, Mapping):
        raise OptionError(f"options of a request are a mapping of names to values, got {options!r:.60}")
    given = options.get("constraint")
    others = {name: value for name, value in options.items() if name != "constraint"}
    if given is None:
        return others
    if not isinstance(given, Constraint):
        raise OptionError(f"constraint must be made by gesso.constraint, got {given!r:.60}", option="constraint")
    if others.get(given.option) is not None:
        message = f"constraint and {given.option} contradict: an answer has one constraint at most"
        raise OptionError(message, option="constraint")
    return {**others, given.option: given.value}


def tool_language(
    tools: Sequence[Mapping[str, Any]], choice: str | Mapping[str, Any], parallel: bool
) -> Language | None:
    """Returns the language of an answer that may or must call `tools`; None where tools put no constraint on it.

    Args:
        tools: functions as OpenAI's API describes them; arguments of those that are `strict` are held to their schema.
        choice: `auto`: text, then calls if any; `required`: calls alone; or the function that is called, as
            `{"type": "function", "function": {"name": ...}}`.
        parallel: whether there may be more than one call.

    Raises:
        OptionError: an impossible choice, or a tool that is no function. A schema that is not supported is found when
            the language is read.
    """
    if choice == "none" or (choice == "auto" and parallel and not any(_function(tool).get("strict") for tool in tools)):
        return None
    if choice not in ("auto", "required") and not isinstance(choice, Mapping):
        raise OptionError(
            f"tool_choice must be auto, none, required or a function, got {choice!r}", option="tool_choice"
        )
    functions = {_function(tool)["name"]: _function(tool) for tool in tools}
    if not functions:
        name = "parallel_tool_calls" if choice == "auto" else "tool_choice"
        raise OptionError(f"{name} needs tools", option=name)
    if isinstance(choice, Mapping):
        name = _function(choice)["name"]
        if name not in functions:
            raise OptionError(f"tool_choice names {name!r}; there is {', '.join(functions)}", option="tool_choice")
        functions = {name: functions[name]}
    asked = choice != "auto"
    strict = [name for name, function in functions.items() if function.get("strict")]
    schemas = {name: one.get("parameters") for name, one in functions.items() if asked or name in strict}
    # What is called of its own accord and is not strict may have any arguments.
    free = [name for name in functions if name not in schemas]
    calls = (1 if asked else 0, None if parallel else 1)
    return _language("tools", (schemas, free, strict, calls), lambda: _tools(schemas, free, strict, calls))


def _function(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    function = tool.get("function")
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise OptionError("tools: a tool needs a function with a name", option="tools")
    return function


TABLE_BYTES = 256 * 2**20
"""Bytes of inference tables that are kept, on all devices together."""
_tables: SizedCache[tuple[TokenAutomaton, torch.device], Lattice] = SizedCache(TABLE_BYTES)


def get_lattice(automaton: TokenAutomaton, device: torch.device) -> Lattice:
    """Returns the inference tables of an automaton on a device; the most recently used stay cached, up to
    `TABLE_BYTES`."""
    if (lattice := _tables.get((automaton, device))) is None:
        lattice = Lattice(automaton, device)
        lattice.prepare()
        # Its automaton is counted here as well: a lattice keeps it when the compiler lets it go.
        _tables.put((automaton, device), lattice, held_bytes(lattice))
    return lattice


def table_stats() -> CacheStats:
    """Returns the number of cached inference tables in this process, and their bytes with those of their automata."""
    return _tables.stats


class OutputConstraint:
    """Tracks the state of one request's output in its automaton."""

    def __init__(self, lattice: Lattice) -> None:
        self._lattice = lattice
        self._state = self.automaton.start

    @property
    def automaton(self) -> TokenAutomaton:
        """Returns the automaton over tokens that the output must satisfy."""
        return self._lattice.automaton

    def allows(self, tokens: Sequence[int]) -> bool:
        """Says whether these tokens may come next."""
        return self.automaton.advance(self._state, tokens) >= 0

    def fits(self, tokens: Sequence[int], left: int) -> bool:
        """Says whether these tokens may come next and the output can still end within `left` tokens, them included."""
        state = self.automaton.advance(self._state, tokens)
        return state >= 0 and self.automaton.distance(state) <= left - len(tokens)

    def advance(self, tokens: list[int]) -> None:
        """Appends these tokens, which must be allowed, to the output."""
        self._state = self.automaton.advance(self._state, tokens)

    def on_canvas(self, left: int, width: int, pins: Pins | None) -> "CanvasConstraintState":
        """Returns the constraint on the next canvas of `width`, when `left` tokens may still be written."""
        return CanvasConstraintState(self._lattice, self._state, left, width, pins)


class CanvasConstraintState:
    """Constrains one canvas; implements `gesso.diffusion.logits_processing.CanvasConstraint`."""

    def __init__(self, lattice: Lattice, state: int, left: int, width: int, pins: Pins | None) -> None:
        self._lattice = lattice
        self._state = state
        self._left = left
        self._width = width
        self._pins = pins
        self._possible_CK: Tensor | None = None

    def forced(self, piece: Callable[[int], str]) -> Tensor:
        """Finds the free positions that hold the same text in all possible canvases, bool [C] on the CPU."""
        if self._possible_CK is None:
            return torch.zeros(self._width, dtype=torch.bool)
        possible_CK = self._possible_CK.cpu()
        one_C = (possible_CK.sum(dim=1) == 1) & (self._fixed() < 0)
        kind_C = possible_CK.int().argmax(dim=1)
        alike = {kind for kind in kind_C[one_C].unique().tolist() if self._lattice.one_text(kind, piece)}
        return one_C & torch.tensor([kind in alike for kind in kind_C.tolist()])

    def summarise(self, scores_RV: Tensor, rows: slice) -> Emissions:
        """Sums scores up by class of tokens. Pinned positions are certain of their token; those past the last token
        that may be written, of the pad fill."""
        fixed = self._fixed()[rows].to(scores_RV.device)
        held = fixed >= 0
        if held.any():
            scores_RV[held] = -torch.inf
            scores_RV[held, fixed[held]] = 0.0
        return self._lattice.emissions(scores_RV)

    def predict(
        self, vocabulary: Vocabulary, hidden_ND: Tensor, temperature_N: Tensor, uniform_N: Tensor
    ) -> VocabularyPass:
        classes = self._lattice.token_classes
        rows = [slice(start, start + ROWS) for start in range(0, self._width, ROWS)]
        passes = [read_classes(vocabulary, classes, hidden_ND[part], temperature_N[part]) for part in rows]
        fixed_N = self._fixed().to(hidden_ND.device)
        seen = Emissions.cat([part.summary for part in passes])
        seen.hold(fixed_N, self._lattice.class_V)
        posterior = self._posterior(seen)
        ends = [
            part.finish(posterior.factor_CK[place], uniform_N[place]) for part, place in zip(passes, rows, strict=True)
        ]
        sample_N, embedding_ND = (torch.cat(parts) for parts in zip(*ends, strict=True))
        held_N = fixed_N >= 0
        if held_N.any():
            embedding_ND[held_N] = vocabulary.embed(fixed_N[held_N])
        return VocabularyPass(
            sample_N=torch.where(held_N, fixed_N, sample_N),
            argmax_N=posterior.canvas_C,
            entropy_N=posterior.entropy_C,
            normaliser_N=torch.zeros_like(posterior.entropy_C),
            embedding_ND=embedding_ND,
        )

    def infer(self, parts: Sequence[Emissions]) -> ConstraintPosterior:
        posterior = self._posterior(Emissions.cat(parts))
        return ConstraintPosterior(posterior.canvas_C, posterior.entropy_C, posterior.apply)

    def _posterior(self, emissions: Emissions) -> Posterior:
        # Where the tokens are used up the text may end without its end token.
        budget = self._left - self._width + 1 if self._left >= self._width else 0
        posterior = self._lattice.posterior(emissions, self._state, budget)
        self._possible_CK = posterior.factor_CK > -torch.inf
        return posterior

    def _fixed(self) -> Tensor:
        """Returns the token of every position that is not free, -1 elsewhere, int64 [C]."""
        fixed_C = torch.full((self._width,), -1)
        if self._pins is not None:
            fixed_C = torch.where(self._pins.held_C, self._pins.tokens_C, fixed_C)
        fixed_C[self._left :] = self._lattice.automaton.fill_token
        return fixed_C
