"""Runs EleutherAI's evaluation harness over an engine: `python -m gesso.lm_eval --model gesso --tasks ...`.

`adapter` is what the harness knows as the model `gesso`; it needs the extra `lm-eval`.
"""
