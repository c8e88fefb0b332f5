"""Runs the evaluation harness's command line, which knows the model `gesso` by the time that it starts."""

import sys
from importlib import import_module

from gesso.errors import UserError
from gesso.extras import pip_install


def main() -> int:
    """Returns the harness's exit code; 2 where it is not installed, or a model or option is refused."""
    try:
        import_module("gesso.lm_eval.adapter")
        return import_module("lm_eval.__main__").cli_evaluate() or 0
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "lm_eval":
            raise
        message = f"the harness is missing; {pip_install('lm-eval')}"
    except UserError as error:
        message = str(error)
    sys.stderr.write(f"gesso: {message}\n")
    return 2


if __name__ == "__main__":
    sys.exit(main())
