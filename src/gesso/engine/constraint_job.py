"""Begins to compile the constraint of a request, and ends with what the engine holds its answer to."""

from dataclasses import dataclass

from gesso.config import ModelShape
from gesso.constraints import call_form, reasoning
from gesso.constraints.automaton import TokenAutomaton
from gesso.constraints.compilation import Compilation
from gesso.constraints.compile import Language, submit
from gesso.constraints.expression import Expression
from gesso.engine.constraint import OutputConstraint, get_lattice
from gesso.engine.constraint_language import constraint_language, tool_language
from gesso.errors import OptionError, UserError
from gesso.generation import GenerationConfig, RequestOptions
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
        return OutputConstraint(get_lattice(automaton, runner.device))


def compile_constraint(
    config: GenerationConfig,
    calls: Language | None,
    asked: RequestOptions,
    tokenizer: Tokenizer,
    shape: ModelShape,
    fill: int,
) -> ConstraintJob | None:
    """Begins to compile a request's constraint, or finds where the same was compiled before; None where it has none.

    Args:
        calls: the language of tool calls, where there are tools.
        fill: the token that fills a canvas after the end of an answer.

    Raises:
        OptionError: two constraints at once, one that the model cannot be held to, or one that cannot be read.
    """
    name = config.constraint
    if name is None and calls is None:
        return None
    called = bool(asked.tools) and asked.tool_choice != "none"
    if name is not None and called and asked.tool_choice != "auto":
        raise OptionError(f"tools and {name} contradict: a call that is asked for is the whole answer", option="tools")
    if shape.mask_token_id is not None:
        raise OptionError(
            f"{name or 'tools'}: a constraint chooses the whole canvas anew in every step, and of masks what is "
            "decoded stays",
            option=name or "tools",
        )
    text = constraint_language(config, asked.strict_schema) if name is not None else None
    if text is not None and called:
        calls = tool_language(asked.tools, asked.tool_choice, asked.parallel_tool_calls, text)
    special = () if calls is None else call_form.SPECIAL
    if missing := [token for token in special if token not in tokenizer.special]:
        at = "tools" if name is not None else "tool_choice"
        message = f"{at}: this checkpoint has no tool calls, its tokenizer knows no {missing[0]}"
        raise OptionError(message, option=at)
    language = calls or text
    assert language is not None  # one of them is what the request is held to
    name = name or "tool_choice"
    if asked.thinking and all(token in tokenizer.special for token in reasoning.SPECIAL):
        language = _after_reasoning(language, len(special))
        special = (*special, *reasoning.SPECIAL)
    try:
        compilation = submit(language, tokenizer, config.eos_token_ids, fill, shape.vocab_size, special)
        return ConstraintJob(name, compilation)
    except UserError as error:
        raise _unusable(name, error) from None


def _after_reasoning(language: Language, first_mark: int) -> Language:
    def read() -> tuple[Expression, tuple[str, ...]]:
        expression, ignored = language.read()
        return reasoning.after_reasoning(expression, first_mark), ignored

    return Language(("after reasoning", language.key), read)


def _unusable(name: str, error: UserError) -> UserError:
    """The error of a constraint that cannot be used; those of tools say so themselves."""
    return error if error.option == "tools" else OptionError(f"{name} cannot be used: {error}", option=name)
