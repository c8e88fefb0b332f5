"""`python -m gesso` is the `gesso` command."""

from gesso.cli import main

if __name__ == "__main__":
    main()
