"""The harness's command line, without the harness."""

from types import SimpleNamespace
from typing import Any

import pytest

from gesso.errors import OptionError
from gesso.lm_eval import __main__ as command


def with_imports(monkeypatch: pytest.MonkeyPatch, found: Any) -> None:
    """Lets what is imported be `found`, or fail with it."""

    def import_module(name: str) -> Any:
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(command, "import_module", import_module)


def test_without_the_harness_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with_imports(monkeypatch, ModuleNotFoundError("No module named 'lm_eval.api'", name="lm_eval.api"))
    assert command.main() == 2
    assert "the harness is missing; pip install" in capsys.readouterr().err


def test_other_missing_modules_are_no_matter_of_the_harness(monkeypatch: pytest.MonkeyPatch) -> None:
    with_imports(monkeypatch, ModuleNotFoundError("No module named 'torch'", name="torch"))
    with pytest.raises(ModuleNotFoundError, match="torch"):
        command.main()


def test_a_refused_option_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def refuse() -> None:
        raise OptionError("no such model", option="model")

    with_imports(monkeypatch, SimpleNamespace(cli_evaluate=refuse))
    assert command.main() == 2
    assert capsys.readouterr().err == "gesso: no such model\n"


def test_its_own_exit_code_comes_through(monkeypatch: pytest.MonkeyPatch) -> None:
    with_imports(monkeypatch, SimpleNamespace(cli_evaluate=lambda: 3))
    assert command.main() == 3
