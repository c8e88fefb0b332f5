"""Layers whose weights are held in few bits; `base` says what a format is and multiplies by what one holds."""
