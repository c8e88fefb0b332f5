"""Runs the model: batches in, outcomes out, one thread at a time."""
