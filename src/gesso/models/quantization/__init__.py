"""Layers in few bits: which and how (`plan`), modelopt's checkpoints, and a folder into a smaller one (`convert`)."""
