"""Seeds of requests that are made together."""

from typing import Any

import pytest

from gesso.engine.seeds import numbered_seed
from gesso.errors import OptionError


def test_one_follows_the_other_and_0_the_largest() -> None:
    assert [numbered_seed(2**63 - 2, number) for number in range(4)] == [2**63 - 2, 2**63 - 1, 0, 1]


@pytest.mark.parametrize("seed", [-1, 2**63, 1.5, "7", True])
def test_what_is_no_seed_is_refused(seed: Any) -> None:
    with pytest.raises(OptionError) as caught:
        numbered_seed(seed, 1)
    assert caught.value.option == "seed"
