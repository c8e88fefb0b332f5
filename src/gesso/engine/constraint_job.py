"""Begins to compile the constraint of a request, and ends with what the engine holds its answer to."""

from dataclasses import dataclass

from gesso.config import ModelShape
from gesso.constraints import call_form, reasoning
from gesso.constraints.automaton import TokenAutomaton
from gesso.constraints.compilation import Compilation
from gesso.constraints.compile import Language, submit
from gesso.constraints.expression import Expression
from gesso.engine.constraint import OutputConstraint, get_lattice
from gesso.engine.constraint_language import RequestLanguage
from gesso.errors import OptionError, UserError
from gesso.generation import GenerationConfig
from gesso.runner.protocol import Runner
from gesso.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class ConstraintJob:
    """Holds a constraint that is being compiled for a request."""

    name: str
    compilation: Compilation[TokenAutomaton]

    def finish(self, config: GenerationConfig, runner: Runner, response_prefix: int) -> OutputConstraint:
        """Returns the constraint, after it is compiled, with its tables on the runner's device.

        Args:
            response_prefix: how many tokens the answer is made to begin with; they count, and are not held to the
                constraint.

        Raises:
            OptionError: it cannot be used, or its shortest answer is too long.
        """
        try:
            automaton = self.compilation.result()
        except UserError as error:
            raise _unusable(self.name, error) from None
        needed = automaton.shortest - 1
        most = config.max_new_tokens
        if needed > max(0, most - response_prefix):
            taken = f", of which begin takes {response_prefix}" if response_prefix else ""
            message = f"{self.name}: the shortest answer has {needed} tokens, max_new_tokens is {most}{taken}"
            raise OptionError(message, option=self.name)
        return OutputConstraint(get_lattice(automaton, runner.device), self.name)


def compile_constraint(
    found: RequestLanguage,
    thinking: bool,
    config: GenerationConfig,
    tokenizer: Tokenizer,
    shape: ModelShape,
    fill: int,
    *,
    begun: bool,
) -> ConstraintJob:
    """Begins to compile the language of a request, or finds where the same was compiled before.

    Args:
        thinking: whether reasoning stands before what the language is about.
        fill: the token that fills a canvas after the end of an answer.
        begun: the response prefix opens reasoning and does not close it.

    Raises:
        OptionError: the model cannot be held to it, or it cannot be read.
    """
    option = "tools" if config.constraint is None else found.option
    if shape.mask_token_id is not None:
        raise OptionError(
            f"{option}: a constraint chooses the whole canvas anew in every step, and of masks what is decoded stays",
            option=option,
        )
    if (end := max(config.eos_token_ids, default=0)) >= shape.vocab_size:
        message = f"eos_token_ids: {option} has to end, and the vocabulary of {shape.vocab_size} has no token {end}"
        raise OptionError(message, option="eos_token_ids")
    language, special = found.language, call_form.SPECIAL if found.calls else ()
    if missing := [token for token in special if token not in tokenizer.special]:
        at = "tool_choice" if config.constraint is None else "tools"
        message = f"{at}: this checkpoint has no tool calls, its tokenizer knows no {missing[0]}"
        raise OptionError(message, option=at)
    if (thinking or begun) and all(token in tokenizer.special for token in reasoning.SPECIAL):
        language = _after_reasoning(language, len(special), begun=begun)
        special = (*special, *reasoning.SPECIAL)
    try:
        compilation = submit(language, tokenizer, config.eos_token_ids, fill, shape.vocab_size, special)
        return ConstraintJob(found.option, compilation)
    except UserError as error:
        raise _unusable(found.option, error) from None


def _after_reasoning(language: Language, first_mark: int, *, begun: bool) -> Language:
    def read() -> tuple[Expression, tuple[str, ...]]:
        expression, ignored = language.read()
        return reasoning.after_reasoning(expression, first_mark, begun=begun), ignored

    return Language(("after reasoning", begun, language.key), read)


def _unusable(name: str, error: UserError) -> UserError:
    """The error of a constraint that cannot be used; those of tools say so themselves."""
    return error if error.option == "tools" else OptionError(f"{name} cannot be used: {error}", option=name)
