"""Paths that users give in Python."""

from pathlib import Path

import pytest

import gesso
from gesso.errors import OptionError
from gesso.options.paths import checked_path


def test_a_path_is_a_text_or_a_path() -> None:
    assert checked_path("folder", "a/b") == checked_path("folder", Path("a/b")) == Path("a/b")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (5, "folder must be a path, got 5"),
        (None, "folder must be a path, got None"),
        (b"a", "folder must be a path"),
        ("", "folder is empty"),
    ],
)
def test_anything_else_is_refused_by_name(value: object, message: str) -> None:
    with pytest.raises(OptionError, match=f"^{message}") as refused:
        checked_path("folder", value)
    assert refused.value.option == "folder"


def test_what_takes_paths_says_so() -> None:
    model = gesso.load_model("mini")
    for call in (lambda: gesso.load("mini", adapter=5), lambda: gesso.read_schema(5)):  # type: ignore[arg-type]
        with pytest.raises(OptionError, match="must be a path, got 5"):
            call()
    with pytest.raises(OptionError, match=r"^folder is empty"):
        gesso.save_model(model, "")
