"""Defines the SDAR family (arXiv 2510.06303): a dense stack that denoises masked blocks, each behind whole blocks."""
