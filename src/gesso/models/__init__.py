"""The model family, its cache, and its files. Hugging Face's names live in two files here and nowhere else."""
