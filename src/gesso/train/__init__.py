"""Trains models: batches of conversations, the two-pass loss, the trainer, its checkpoints, and recipes."""
