"""Defines the model family, its cache, and its files. Hugging Face's names live in three files here and nowhere
else."""
