"""Quantizes models: which layers and how (`plan`), modelopt's checkpoints, and converting a folder (`convert`)."""
