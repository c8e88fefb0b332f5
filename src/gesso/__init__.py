"""gesso: block text diffusion with DiffusionGemma."""
