"""Sizes that users write."""

import pytest

from gesso.errors import OptionError
from gesso.options.sizes import named_size, size_in_bytes


@pytest.mark.parametrize(
    ("text", "size"), [("4GiB", 4 * 2**30), ("500 MB", 500_000_000), ("1.5kb", 1500), (" 7 ", 7), ("8EB", None)]
)
def test_a_number_and_its_unit(text: str, size: int | None) -> None:
    if size is None:
        with pytest.raises(OptionError, match="--fit takes a size such as 4GiB or 500MB, got '8EB'"):
            size_in_bytes(text, "--fit")
    else:
        assert size_in_bytes(text, "--fit") == size


@pytest.mark.parametrize(
    ("size", "named"),
    [(7, "7 B"), (1000, "1.00 KB"), (365_432, "365.43 KB"), (18 * 10**9, "18.00 GB"), (10**13, "10,000.00 GB")],
)
def test_a_size_is_named_in_a_unit_that_suits(size: int, named: str) -> None:
    assert named_size(size) == named


@pytest.mark.parametrize(
    ("size", "named"),
    [(7, "7 B"), (1000, "1.00 KB"), (365_431, "365.44 KB"), (1_430_000_001, "1.44 GB"), (8_240_000, "8.24 MB")],
)
def test_who_gives_what_is_needed_as_it_was_named_gives_enough(size: int, named: str) -> None:
    assert named_size(size, up=True) == named
    assert size_in_bytes(named, "--fit") >= size


@pytest.mark.parametrize("text", ["0", "0.4", "9" * 400, "9" * 400 + "GB", "9" * 300 + "GB", "9" * 5000, str(2**63)])
def test_sizes_of_nothing_and_of_more_than_there_is(text: str) -> None:
    with pytest.raises(OptionError, match="--device-memory takes a size such as") as refused:
        size_in_bytes(text, "--device-memory")
    assert refused.value.option == "device_memory"
