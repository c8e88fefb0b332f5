"""The `gesso` command. Only this room knows of terminals."""

import sys


def main() -> None:
    """Entry point: runs the command line and turns a user's mistake into one line and exit code 2."""
    from gesso.cli.app import run

    sys.exit(run(sys.argv[1:]))
