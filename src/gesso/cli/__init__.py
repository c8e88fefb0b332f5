"""Implements the `gesso` command. Only this package knows of terminals.

One file a command, each a line in `app`, before which `imports` imports what is the user's own. `option_rows` makes
`options` of the table of options, the `*_options` files declare what commands have beside them; `attachments` and
`conversation` are what `chat` holds; `bench_checks`, `bench_tables` and `doctor_parts` belong to their commands.
`help` and `completion` are the shell's side; `render` (the live canvas), `progress`, `output` and `session` print,
`model_notes` says what is to be known of a model and chooses one by the prompt; `signals`, `interrupt` and `failure`
(one line, or JSON) end; `flag_names` writes settings as flags in refusals. `reference` writes docs/cli.md and
docs/api.md from the table, with what `reference_classes` reads of classes.
"""


def main() -> None:
    """Runs the command line: a user's mistake is one line and exit code 2, Ctrl-C one line and exit code 130."""
    # Before anything else: what is imported from here on takes its time, and Ctrl-C must not wait for it.
    from gesso.cli.signals import SIGNALS

    SIGNALS.install()
    import gc
    import os
    import sys
    import warnings

    from gesso.cli.imports import import_first
    from gesso.cli.output import note, open_closed_streams, print_anything
    from gesso.cli.progress import is_screen
    from gesso.cli.signals import INTERRUPTED

    # What is imported stays: to sweep over all of it for every so many new objects took a sixth of a command's time.
    gc.set_threshold(*gc.get_threshold()[:2], 200)
    # Pictures that Pillow would only warn of are refused by a limit of our own.
    warnings.filterwarnings("ignore", message=r"Image size \(\d+ pixels\) exceeds limit")
    open_closed_streams()
    print_anything()
    if not is_screen(sys.stderr):
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")  # a file would hold every state of every bar
    try:
        SIGNALS.running = True
        if not import_first(sys.argv[1:]):
            sys.exit(2)
        from gesso.cli.app import run

        code = run(sys.argv[1:])
        SIGNALS.running = False
    except KeyboardInterrupt:
        SIGNALS.running = False
        code = INTERRUPTED
    if code == INTERRUPTED:
        note(SIGNALS.line())
        code = SIGNALS.exit_code()
    sys.exit(code)
