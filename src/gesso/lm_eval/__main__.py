"""Runs the evaluation harness's command line, which knows the model `gesso` by the time that it starts."""

import sys

from lm_eval.__main__ import cli_evaluate

sys.exit(cli_evaluate() or 0)
