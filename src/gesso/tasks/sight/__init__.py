"""Draws pictures and asks about them: what a small model with a vision tower is trained and measured on."""
