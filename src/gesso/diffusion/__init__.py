"""Implements block diffusion in small parts: samplers, schedules, stopping rules, the denoise loop, and corruption for
training.

This package knows a `Denoiser` (a protocol), never a model. Samplers, schedules and stopping rules are strategies: one
file each, which declares its own options and registers itself (see `gesso.options.registry`).

`samplers/`, `schedules/` and `stopping/`; `noise_levels`; `canvas_state` (and when it starts again; its `probe`) ->
`denoise` (one step of many); `logits_processing` with `guidance` and `logits_changes`, such as `penalties` of the
`preceding_text`; `corruption`.
"""
