"""Defines the commands and what wraps them. Heavy imports happen inside the commands: `--help` must be quick."""

import os
import sys
from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any

import typer

from gesso import __version__
from gesso.cli.batch import batch
from gesso.cli.bench import bench
from gesso.cli.chat import chat
from gesso.cli.choose import choose
from gesso.cli.completion import COMPLETE, offer_values
from gesso.cli.deploy import deploy
from gesso.cli.doctor import doctor
from gesso.cli.edit import edit
from gesso.cli.evaluate import evaluate
from gesso.cli.failure import fail, memory_failure
from gesso.cli.fill import fill
from gesso.cli.finetune import finetune
from gesso.cli.generate import generate
from gesso.cli.help import Command, Group
from gesso.cli.imports import FLAG
from gesso.cli.lab import lab
from gesso.cli.merge import merge
from gesso.cli.models import models
from gesso.cli.other_names import other_name_hint
from gesso.cli.output import drop
from gesso.cli.plan import plan
from gesso.cli.pull import pull
from gesso.cli.quantize import quantize
from gesso.cli.reinforce import reinforce
from gesso.cli.replay import replay
from gesso.cli.router import router
from gesso.cli.serve import serve
from gesso.cli.signals import INTERRUPTED, SIGNALS
from gesso.cli.studio import studio
from gesso.cli.train import train
from gesso.errors import GessoError, TrainingError, UserError

app = typer.Typer(
    name="gesso",
    cls=Group,
    help="Block text diffusion: run, serve, edit with, train and measure DiffusionGemma models.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(cls=Command)(generate)
app.command(cls=Command)(chat)
app.command(cls=Command)(choose)
app.command(cls=Command)(edit)
app.command(cls=Command)(fill)
app.command(cls=Command)(serve)
app.command(cls=Command)(router)
app.command(cls=Command)(deploy)
app.command(cls=Command)(batch)
app.command(cls=Command)(studio)
app.command(cls=Command)(replay)
app.add_typer(models, name="models")
app.command(cls=Command)(pull)
app.command(cls=Command)(doctor)
app.command(cls=Command)(train)
app.command(cls=Command)(finetune)
app.command(cls=Command)(reinforce)
app.command(cls=Command)(merge)
app.command(cls=Command)(quantize)
app.command(name="eval", cls=Command)(evaluate)
app.command(cls=Command)(bench)
app.command(cls=Command)(lab)
app.command(cls=Command)(plan)

_USAGE_ERROR: Any = typer.BadParameter.__base__
_DASH = 'a text that begins with a dash stands last, behind --, as in gesso generate -- "-5 + 3"'
"""Hint where such a text was taken for an option."""
_QUOTES = 'a text of several words stands in quotes, as in "What is 481 + 296?"'
"""Hint where the words of a text were taken for arguments."""
_MODEL = "the model goes with -m, as in gesso {} -m skills"
"""Hint where a model was taken for an argument."""
_OF_RUNS = "--max-minutes"
"""An option of the commands that train, some of whose options have other names elsewhere."""
_NAMED = "the model has no flag here, as in gesso {} mini"
"""Hint where a model was given with a flag to a command that takes it as an argument."""
_TEXTS = frozenset({"prompt", "instruction", "system"})
"""Parameters that are texts."""


def _version(wanted: bool) -> None:
    if wanted:
        print(f"gesso {__version__}")
        raise typer.Exit


@app.callback()
def _top(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    imports: Annotated[  # what it names is imported by now
        list[str] | None,
        typer.Option(
            FLAG,
            metavar="FILE.py",
            help="Import this file or module first: it registers samplers, schedules, stopping rules or tasks of your "
            "own. Stands before the command; may be repeated. GESSO_IMPORT in the environment does the same.",
        ),
    ] = None,
) -> None:
    pass


def _is_text(argument: str) -> bool:
    """Says whether an argument that begins with a dash is no option."""
    return argument.startswith("-") and any(character.isspace() for character in argument.partition("=")[0])


def _hint(error: Any, arguments: Sequence[str]) -> str | None:
    """What to do about a command line that cannot be read, where the message does not say so."""
    if type(error).__name__ == "NoSuchOption":
        if error.option_name == FLAG:
            return f"{FLAG} stands before the command, as in gesso {FLAG} FILE.py generate"
        if error.option_name in ("-m", "--model") and _kinds(error.ctx).get("model") == "argument":
            return _NAMED.format(error.ctx.command_path.removeprefix("gesso "))
        if any(map(_is_text, arguments)):
            return _DASH
        known = [name for option in (error.ctx.command.params if error.ctx else ()) for name in option.opts]
        return other_name_hint(error.option_name, known) if _OF_RUNS in known else None
    if error.ctx is None or "unexpected extra argument" not in error.format_message():
        return None
    kinds = _kinds(error.ctx)
    texts = _TEXTS & kinds.keys()
    if any(kinds[text] == "argument" or f"--{text}" in arguments for text in texts):
        return _QUOTES
    takes_model = kinds.get("model") == "option" and "argument" not in kinds.values()
    return _MODEL.format(error.ctx.info_name) if takes_model else None


def _kinds(context: Any) -> dict[str, str]:
    """Says of each parameter of a command whether it is an option or an argument."""
    return {} if context is None else {known.name: known.param_type_name for known in context.command.params}


@cache
def _commands() -> Any:
    """What typer makes of all commands, which takes longer than to run most of those that refuse something."""
    return typer.main.get_command(app)


def _command() -> Any:
    command = _commands()
    if COMPLETE in os.environ:
        offer_values(command)
    return command


def run(arguments: Sequence[str]) -> int:
    """Runs one command line; returns the exit code."""
    command = _command()
    SIGNALS.recovered()
    try:
        code = int(command.main(list(arguments), prog_name="gesso", standalone_mode=False) or 0)
        if sys.stdout is not None:
            sys.stdout.flush()
    except _USAGE_ERROR as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            print(error.format_message())
            return 2
        return fail(error, error.format_message(), 2, command, arguments, _hint(error, arguments))
    except UserError as error:
        return fail(error, str(error), 2, command, arguments)
    except GessoError as error:
        # A full disk is the caller's to mend, whether a run tells of it or not.
        code = 2 if isinstance(error, TrainingError) and isinstance(error.__cause__, OSError) else 1
        return fail(error, str(error), code, command, arguments)
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except SystemExit as error:
        # Shell completion ends so, and typer where the reader of standard output went away.
        if not isinstance(error.__context__, BrokenPipeError):
            return int(error.code or 0)
        drop(sys.stdout)
        return 0
    except BrokenPipeError:
        drop(sys.stdout)
        return 0
    except OSError as error:
        place = error.filename2 or error.filename or "input or output"  # of a copy, where it goes
        return fail(error, f"{place}: {error.strerror or error}", 2, command, arguments)
    except Exception as error:
        return _unforeseen(error, command, arguments)
    return code


def _unforeseen(error: Exception, command: Any, arguments: Sequence[str]) -> int:
    """Returns the exit code of a command that a signal ended, or a machine without memory; raises any other error."""
    # A signal's KeyboardInterrupt that something on the way made another error of.
    if SIGNALS.received is not None:
        return INTERRUPTED
    message = memory_failure(error)
    if message is None:
        raise error
    return fail(error, message, 1, command, arguments)
