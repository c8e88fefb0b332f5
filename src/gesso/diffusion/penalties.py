"""Says by how much tokens become less likely that stand before a place already, as OpenAI's, Hugging Face's and
llama.cpp's penalties do; `gesso.diffusion.preceding_text` counts them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Penalties:
    """Holds what a request subtracts from logits. The options (`gesso.generation`) declare and check the ranges."""

    frequency: float = 0.0
    """Subtracted for each time that a token stands in the answer."""
    presence: float = 0.0
    """Subtracted once where it does."""
    repetition: float = 1.0
    """Divides a positive logit, and multiplies a negative one, where a token stands in the prompt or the answer (CTRL,
    arXiv 1909.05858)."""
    window: int | None = None
    """How many tokens before a place are looked at; None looks at all."""

    @property
    def neutral(self) -> bool:
        """Says whether they change nothing."""
        return (not self.frequency and not self.presence and self.repetition == 1) or self.window == 0
