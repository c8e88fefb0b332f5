"""Turns text into tokens and back: tokenizer, chat template, thinking, stop strings, incremental detokenizing.

`tokenizer`; `chat_template` (Jinja: `sandbox` with `sandbox_budget`, `sandbox_counts`, `sandbox_sizes`); `output`
(incremental text, reasoning, calls, stop strings), `tool_calls`, `graded` (what graders get).
"""
