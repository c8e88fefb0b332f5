"""Code of users: what goes wrong in it is told as the fault of the option that named it."""

import importlib
import os
import sys
from pathlib import Path

import pytest

from gesso.errors import OptionError, TextError
from gesso.options.user_code import IMPORT, failures_of, import_named, imported


def test_a_failure_is_told_by_what_failed_and_keeps_its_cause() -> None:
    with pytest.raises(OptionError, match=r"^the score failed: ZeroDivisionError: division by zero$") as error:
        _run(lambda: 1 / 0)
    assert error.value.option == "score"
    assert isinstance(error.value.__cause__, ZeroDivisionError)
    with pytest.raises(OptionError, match=r"^the score failed: SystemExit: 3$"):
        _run(lambda: sys.exit(3))


def test_what_is_told_already_and_what_ends_the_program_come_as_they_are() -> None:
    with pytest.raises(TextError, match=r"^the prompt is empty$"):
        _run(lambda: _raise(TextError("the prompt is empty")))
    with pytest.raises(KeyboardInterrupt):
        _run(lambda: _raise(KeyboardInterrupt()))


def _run(function: object) -> None:
    with failures_of("score", "the score"):
        function()  # type: ignore[operator]


def _raise(error: BaseException) -> None:
    raise error


def test_a_file_is_imported_as_it_is_now_and_stands_among_modules(tmp_path: Path) -> None:
    # Dataclasses look their module up where annotations are text.
    file = tmp_path / "json.py"
    head = "from __future__ import annotations\nfrom dataclasses import dataclass\n"
    text = head + "@dataclass\nclass A:\n    x: int = {}\n"
    for value in (1, 2):
        file.write_text(text.format(value))
        assert imported(str(file), "check").A().x == value
    assert importlib.import_module("json").dumps([1]) == "[1]", "no other module of its name is touched"
    del sys.modules[str(file)]


def test_what_cannot_be_imported_says_in_which_line(tmp_path: Path) -> None:
    file = tmp_path / "broken.py"
    file.write_text("x = 1\ny = x / 0\n")
    with pytest.raises(OptionError, match=r"broken\.py cannot be imported: ZeroDivisionError: .* \(line 2\)$") as error:
        imported(str(file), "check")
    assert error.value.option == "check"
    assert str(file) not in sys.modules


def test_named_files_are_imported_once_and_a_missing_one_is_refused_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [tmp_path / "first.py", tmp_path / "second.py"]
    for file in files:
        file.write_text(
            f"from pathlib import Path\nwith Path({str(tmp_path / 'log')!r}).open('a') as f:\n    f.write('x')\n"
        )
    monkeypatch.setenv(IMPORT, os.pathsep.join(map(str, files)))
    import_named()
    import_named()
    assert (tmp_path / "log").read_text() == "xx"
    monkeypatch.setenv(IMPORT, str(tmp_path / "missing.py"))
    for _ in range(2):
        with pytest.raises(OptionError, match=r"there is no file .*missing\.py"):
            import_named()
