"""Block diffusion as small parts: schedule, sampler, stopping, the denoise loop, and corruption for training.

This room knows a `Denoiser` (a protocol), never a model.
"""
