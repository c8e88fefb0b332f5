"""Measures what a model costs on a device, beside the least that it must: `gesso bench`.

`cells` -> `measure` (an engine core that is timed) beside `floor` (bytes and operations of a step, over what `machine`
measures) -> `report`, `plot`. `meter` reads memory and energy, `random_weights` draws a model, `account` counts the
bytes of a shape, `peer` times transformers in a process of its own; docs/bench.md.
"""
