import pytest

from gesso.diffusion.penalties import Penalties


@pytest.mark.parametrize(
    ("penalties", "neutral"),
    [
        (Penalties(), True),
        (Penalties(frequency=1.0, window=0), True),
        (Penalties(window=5), True),
        (Penalties(presence=-1.0), False),
        (Penalties(repetition=1.1, window=3), False),
    ],
)
def test_neutral_penalties(penalties: Penalties, neutral: bool) -> None:
    assert penalties.neutral == neutral
