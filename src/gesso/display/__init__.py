"""Makes HTML for notebooks. This package knows texts and numbers, and nothing else of gesso."""
