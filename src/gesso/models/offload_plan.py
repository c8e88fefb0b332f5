"""Says what of a model lies on a device, and what streams to it from host memory."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OffloadPlan:
    """Tells what lies where. All sizes are bytes."""

    device_memory: int
    """All that may be used of the device."""
    resident: int
    """Weights that stay there, the vision tower's among them."""
    staged: int
    """Weights that are there for a while: those of two layers' experts."""
    working: int
    """Kept free for the passes themselves."""
    cache: int
    """Left for keys and values."""
    streamed: int
    """Copied in every pass."""
    layers: tuple[int, ...]
    """Layers whose experts stream."""
    of: int
    """All layers."""

    def sentence(self, link: float | None) -> str:
        """Says it in one line.

        Args:
            link: bytes that a second takes over to the device; None where it was not measured.
        """
        cost = "the link was not measured: no CUDA here"
        if link is not None:
            cost = f"a pass takes {self.streamed / link:.2f} s at least, at {link / 1e9:.1f} GB/s (measured)"
        return (
            f"of {self.device_memory / 1e9:.1f} GB on the device, {self.resident / 1e9:.1f} hold weights, "
            f"{self.staged / 1e9:.1f} those that come and go, {self.cache / 1e9:.1f} keys and values; the experts of "
            f"{len(self.layers)} of {self.of} layers, {self.streamed / 1e9:.1f} GB, stream in every pass; {cost}"
        )
