"""Turns text into tokens and back: tokenizer, chat template, thinking, stop strings, incremental detokenizing."""
