"""Prepares images and clips for the vision tower: patches of pixels and counts, without tensors and without a model.

A picture from a user goes `source` (bytes, within limits) -> `decode` (a Pillow image, within limits) -> `colour` (RGB)
-> `preprocess` (resized, cut into patches). `size` says from width and height alone what comes out.

Pictures and clips become patches exactly as the reference's processor makes them. `jpeg` looks at scans before a
decoder sees them. Pillow, no torch.
"""

NO_VISION = "this model reads text only: its checkpoint has no vision tower"
"""Refuses an image, or the token of one."""
