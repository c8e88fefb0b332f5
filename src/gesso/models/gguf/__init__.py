"""Reads DiffusionGemma from GGUF files, as they are published for it."""
