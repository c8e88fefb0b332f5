"""The commands and what wraps them. Heavy imports happen inside the commands: `--help` must be quick."""

import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from gesso import __version__
from gesso.cli.bench import bench
from gesso.cli.chat import chat
from gesso.cli.choose import choose
from gesso.cli.edit import edit
from gesso.cli.evaluate import evaluate
from gesso.cli.fill import fill
from gesso.cli.finetune import finetune
from gesso.cli.generate import generate
from gesso.cli.help import Command, Group
from gesso.cli.merge import merge
from gesso.cli.models import models
from gesso.cli.quantize import quantize
from gesso.cli.replay import replay
from gesso.cli.serve import serve
from gesso.cli.train import train
from gesso.errors import GessoError, UserError

app = typer.Typer(
    name="gesso",
    help="Block text diffusion: run, serve, edit with, train and measure DiffusionGemma models.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    cls=Group,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(cls=Command)(generate)
app.command(cls=Command)(chat)
app.command(cls=Command)(choose)
app.command(cls=Command)(edit)
app.command(cls=Command)(fill)
app.command(cls=Command)(serve)
app.command(cls=Command)(replay)
app.add_typer(models, name="models")
app.command(cls=Command)(train)
app.command(cls=Command)(finetune)
app.command(cls=Command)(merge)
app.command(cls=Command)(quantize)
app.command(name="eval", cls=Command)(evaluate)
app.command(cls=Command)(bench)

CANCELLED = 130
_USAGE_ERROR: Any = typer.BadParameter.__base__


def _version(wanted: bool) -> None:
    if wanted:
        print(f"gesso {__version__}")
        raise typer.Exit


@app.callback()
def _top(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


def run(arguments: Sequence[str]) -> int:
    """Run one command line; returns the exit code."""
    command = typer.main.get_command(app)
    try:
        return int(command.main(list(arguments), prog_name="gesso", standalone_mode=False) or 0)
    except _USAGE_ERROR as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            print(error.format_message())
            return 2
        return _fail(error.format_message(), 2)
    except UserError as error:
        return _fail(str(error), 2)
    except GessoError as error:
        return _fail(str(error), 1)
    except (KeyboardInterrupt, typer.Abort):
        print(file=sys.stderr)
        return CANCELLED
    except (BrokenPipeError, SystemExit):
        # The reader went away, which typer makes a SystemExit of; give the interpreter a stdout it can close.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        return _fail(f"{error.filename or 'input or output'}: {error.strerror or error}", 2)


def _fail(message: str, code: int) -> int:
    print("gesso: " + " ".join(message.split()), file=sys.stderr)
    return code
