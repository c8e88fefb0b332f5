"""Text in and out: tokenizer, chat template, thinking, stop strings, incremental detokenizing."""
