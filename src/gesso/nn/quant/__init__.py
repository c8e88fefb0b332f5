"""Defines layers with quantized weights; `base` says what a format is and multiplies by packed weights."""
