"""Implements `gesso edit`."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gesso.cli import options as opt
from gesso.cli.files import check_has_place, check_replaceable, read_text, write_atomically
from gesso.cli.output import note, print_json, write_exactly
from gesso.cli.progress import run_shown
from gesso.load_options import LoadOptions
from gesso.options import Integer, Number

if TYPE_CHECKING:
    from rich.text import Text

    from gesso.control.edit import EditResult

_SHOWN = {"rich_help_panel": opt.OUTPUT}
_PART = {"rich_help_panel": "What may change"}
File = Annotated[str, typer.Argument(metavar="FILE", help="The file to edit; - reads standard input.")]
Instruction = Annotated[str, typer.Argument(metavar="INSTRUCTION", help="What to change, such as: Rename x to count.")]
LinesOption = Annotated[
    str | None,
    typer.Option("--lines", metavar="A-B", help="Change these lines only, such as 10-24, counted from 1.", **_PART),
]
MatchOption = Annotated[
    str | None,
    typer.Option("--match", metavar="TEXT", help="Change this text only; it must occur exactly once.", **_PART),
]
Strength = Annotated[
    float | None,
    typer.Option(
        metavar="X", help="How much may change, above 0 and at most 1; 1, which rewrites, without it.", **_PART
    ),
]
Context = Annotated[
    int | None,
    typer.Option(metavar="N", help="Tokens that the model reads around what is selected; 512 without it.", **_PART),
]
Diff = Annotated[bool, typer.Option("--diff", help="Print a unified diff instead of the text.", **_SHOWN)]
InPlace = Annotated[
    bool, typer.Option("--in-place", help="Write the result to the file, whole or not at all.", **_SHOWN)
]
Interactive = Annotated[
    bool, typer.Option("--interactive", help="Ask about every change, then write the file.", **_SHOWN)
]

STYLES = {"+": "green", "-": "red", "@": "cyan", "\\": "dim"}
"""Styles of the lines of a diff, by their first character."""
QUESTION = "make this change? [y]es, [n]o, [a]ll the rest, [q]uit: "


@opt.takes(
    ("seed", "max_new_tokens"),
    helps={"max_new_tokens": "Most tokens of the answer; twice what is selected and a canvas more without it."},
)
def edit(
    options: dict[str, Any],
    load: LoadOptions,
    called: typer.Context,
    file: File,
    instruction: Instruction,
    lines: LinesOption = None,
    match: MatchOption = None,
    strength: Strength = None,
    context: Context = None,
    diff: Diff = False,
    in_place: InPlace = False,
    interactive: Interactive = False,
    as_json: opt.AsJson = False,
) -> None:
    """Change a part of a file as told, and nothing else."""
    from gesso.control.selection import selection_of
    from gesso.errors import GessoError, OptionError

    _check(file, diff=diff, in_place=in_place, interactive=interactive, as_json=as_json)
    if not instruction.strip():
        raise OptionError("instruction is empty", option="instruction")
    if strength is not None:
        Number(above=0, maximum=1).check("strength", strength)
    if context is not None:
        Integer(minimum=0).check("context", context)
    selection = selection_of(lines, match)
    data, text = read_text(file)
    # What cannot be edited or written is refused before the model is loaded.
    if in_place or interactive:
        check_replaceable(Path(file))
    selected = selection.of(text).selected
    if not selected.strip():
        raise OptionError("text: there is nothing to edit in what is selected", option="text")
    from gesso.cli.model_notes import is_named, suited
    from gesso.tasks.edit_prompt import edit_prompt

    named = is_named(called) or strength is not None
    load = suited(load, edit_prompt(instruction, selected.strip("\n"), "", ""), named=named, beside=text)
    engine = opt.load_engine(load)
    from gesso.control.edit import CONTEXT, STRENGTH
    from gesso.control.edit import edit as edit_job

    job = edit_job(
        engine,
        text,
        instruction,
        selection=selection,
        strength=STRENGTH if strength is None else strength,
        context=CONTEXT if context is None else context,
        name=file,
        **options,
    )
    result = run_shown(engine, job)
    if result.left_out is not None:
        raise GessoError(f"nothing is changed: {result.left_out}")
    accepted = _asked(text, result.text) if interactive else result.text
    if result.text == text and not interactive:
        note("nothing is changed: the model gave back what is selected as it was")
    if (in_place or interactive) and accepted != text:
        write_atomically(Path(file), data, accepted.encode())
    if as_json:
        _print_json(result)
    elif diff or (sys.stdout.isatty() and not interactive):
        _print_diff(result)
    elif not (in_place or interactive):
        write_exactly(result.text.encode())


def _check(file: str, *, diff: bool, in_place: bool, interactive: bool, as_json: bool) -> None:
    from gesso.errors import OptionError

    if as_json and diff:
        raise OptionError("--json and --diff contradict each other: the JSON line holds the diff", option="as_json")
    if in_place:
        check_has_place(file)
    if not interactive:
        return
    if as_json or diff:
        raise OptionError(
            f"--interactive and {'--json' if as_json else '--diff'} contradict each other", option="interactive"
        )
    if file == "-":
        raise OptionError(
            "--interactive needs a file: standard input is where the answers come from", option="interactive"
        )
    if sys.stdin is None or not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise OptionError("--interactive needs a terminal to ask in", option="interactive")


def changes(old: str, new: str) -> Iterator[tuple[str, str]]:
    """Cuts both texts into pieces, side by side: unequal where there is a change. Joined, they are the texts."""
    import difflib

    from gesso.control.edit import split_lines

    old_lines, new_lines = split_lines(old), split_lines(new)
    for _, start, end, new_start, new_end in difflib.SequenceMatcher(None, old_lines, new_lines).get_opcodes():
        yield "".join(old_lines[start:end]), "".join(new_lines[new_start:new_end])


def _asked(old: str, new: str) -> str:
    """The old text with the changes that the person wants; an end of input is a `q`."""
    from rich.console import Console

    console = Console(highlight=False)
    if old == new:
        console.print("nothing changes", style="dim")
    kept, line, answer = [], 1, ""
    for before, after in changes(old, new):
        if before != after and answer not in ("a", "q"):
            console.print(_drawn([f"@@ line {line} @@", *_signed("-", before), *_signed("+", after)]), soft_wrap=True)
            answer = _answer()
        kept.append(after if answer in ("y", "a") else before)
        line += before.count("\n")
    return "".join(kept)


def _signed(sign: str, text: str) -> list[str]:
    from gesso.control.edit import split_lines

    return [sign + line for line in split_lines(text)]


def _answer() -> str:
    while True:
        try:
            answer = input(QUESTION).strip().lower()
        except EOFError:
            print()
            return "q"
        if answer in ("y", "n", "a", "q"):
            return answer


def _print_json(result: "EditResult") -> None:
    import dataclasses

    derived = {name: getattr(result, name) for name in ("changed", "denoising_steps", "seconds", "prompt_tokens")}
    print_json({**dataclasses.asdict(result), **derived})


def _print_diff(result: "EditResult") -> None:
    """The diff, in colours where somebody looks, and then with how it was made."""
    from rich.console import Console

    from gesso.cli.render import flow
    from gesso.control.edit import split_lines

    if not sys.stdout.isatty():
        # The file's name may hold bytes that are no UTF-8.
        write_exactly(result.diff.encode(errors="surrogateescape"))
        return
    console = Console(highlight=False)
    if result.changed:
        console.print(_drawn(split_lines(result.diff)), soft_wrap=True)
    facts = [f"{result.denoising_steps} steps", f"{result.seconds:.2f} s", f"seed {result.answer.seed}"]
    console.print(flow(facts if result.changed else ["nothing changes", *facts], console.width), style="dim")


def _drawn(lines: list[str]) -> "Text":
    """Lines of a diff in colours."""
    from rich.text import Text

    from gesso.cli.render import printable

    styled = []
    for line in lines:
        style = "bold" if line.startswith(("--- ", "+++ ")) else STYLES.get(line[:1], "")
        styled.append(Text(printable(line.rstrip("\r\n")), style))
    return Text("\n").join(styled)
