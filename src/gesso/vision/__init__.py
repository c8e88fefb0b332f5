"""Prepares images and clips for the vision tower: patches of pixels and counts, without tensors and without a model.

A picture from a user goes `source` (bytes, within limits) -> `decode` (a Pillow image, within limits) -> `colour` (RGB)
-> `preprocess` (resized, cut into patches). `size` says from width and height alone what comes out.
"""

NO_VISION = "this model reads text only: its checkpoint has no vision tower"
"""Refuses an image, or the token of one."""
