"""Measures what a model costs on a device, beside the least that it must: `gesso bench`."""
