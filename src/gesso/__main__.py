"""Runs the `gesso` command as `python -m gesso`."""

from gesso.cli import main

if __name__ == "__main__":
    main()
