"""What `import gesso` promises."""

import ast
import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

import gesso

NAMES = {
    "AsyncEngine", "BlockCommitted", "DiffusionGemma", "DenoisingFrame", "Engine", "Event", "Failed",
    "Finished", "GenerationConfig", "GenerationResult", "GessoError", "Limits", "Lines", "Match", "ModelConfig",
    "Replay", "Request", "Stream", "UserError", "choose", "constraint", "edit", "evaluate", "fill", "load",
    "load_model", "particles", "read_schema", "replay", "save_model", "search",
}  # fmt: skip
"""Changing this set changes the public API: the changelog must say so."""


def test_the_public_names() -> None:
    assert set(gesso.__all__) == NAMES
    assert gesso.__all__ == sorted(gesso.__all__)
    assert set(dir(gesso)) == NAMES | {"__version__"}


@pytest.mark.parametrize("name", sorted(NAMES))
def test_every_name_can_be_imported_and_documents_itself(name: str) -> None:
    value = getattr(gesso, name)
    assert value is getattr(gesso, name)
    if name != "Event":
        assert value.__doc__
        module = importlib.import_module(value.__module__)
        assert getattr(module, value.__name__) is value


def test_a_type_checker_finds_these_names_and_no_others() -> None:
    tree = ast.parse(Path(gesso.__file__).read_text("utf-8"))
    guards = {ast.unparse(node.test): node.body for node in tree.body if isinstance(node, ast.If)}
    imported = [alias for node in guards["TYPE_CHECKING"] if isinstance(node, ast.ImportFrom) for alias in node.names]
    assert {alias.asname or alias.name for alias in imported} == NAMES | {"Any"}
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert "__getattr__" not in functions, "outside of a guard it would give a type checker every name"
    assert (Path(gesso.__file__).parent / "py.typed").exists()


def test_every_kind_of_event_has_a_public_name() -> None:
    """A program that tells events apart needs the one that says why there is no result, too."""
    assert {kind.__name__ for kind in get_args(gesso.Event)} <= set(gesso.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'gesso' has no attribute 'nothing'"):
        _ = gesso.nothing
    with pytest.raises(ImportError):
        from gesso import nothing  # noqa: F401


def test_errors_are_one_tree() -> None:
    from gesso import errors

    classes = [value for value in vars(errors).values() if isinstance(value, type)]
    assert all(issubclass(value, gesso.GessoError) for value in classes)
    assert issubclass(gesso.UserError, ValueError)
    assert not issubclass(errors.TrainingError, gesso.UserError)
    drawn = {word for word in (errors.__doc__ or "").split() if word.endswith("Error")}
    assert drawn == {value.__name__ for value in classes}


def printed(code: str) -> str:
    """What a program prints in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(Path(gesso.__file__).parents[1])}
    out = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return out.stdout


def test_importing_it_imports_nothing_heavy() -> None:
    code = "import gesso, sys; print(sorted({'torch', 'numpy', 'tokenizers', 'typer', 'rich'} & set(sys.modules)))"
    assert printed(code) == "[]\n"


def test_errors_are_named_in_full_before_any_other_name_is_used() -> None:
    assert printed("import gesso; print(gesso.errors.ClosingError.__name__)") == "ClosingError\n"


def test_a_saved_model_may_be_named_by_a_string(tmp_path: Path) -> None:
    model = gesso.load_model("mini", "cpu")
    gesso.save_model(model, str(tmp_path / "copy"))
    assert gesso.load_model(tmp_path / "copy", "cpu").config == model.config
    (tmp_path / "file").write_text("kept", encoding="utf-8")
    with pytest.raises(gesso.UserError, match="is a file, and a checkpoint is a folder"):
        gesso.save_model(model, tmp_path / "file")
    with pytest.raises(gesso.UserError, match="dtype 'foo' does not exist; known: "):
        gesso.save_model(model, tmp_path / "other", dtype="foo")
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("name", ["tensor_parallel", "pipeline_parallel"])
def test_ranks_are_counted_from_one(name: str) -> None:
    for value in (0, -1, "2"):
        with pytest.raises(gesso.UserError, match=f"^{name} must be an integer of at least 1"):
            gesso.load("mini", **{name: value})


def test_a_model_is_saved_and_loaded_with_names_of_pytorch(tmp_path: Path) -> None:
    import torch

    source = Path(gesso.__file__).parent / "bundled" / "mini"
    model = gesso.load_model("mini", torch.device("cpu"), torch.float32)
    gesso.save_model(model, tmp_path / "copy", dtype=torch.bfloat16, source=str(source))
    engine = gesso.load(tmp_path / "copy", device=torch.device("cpu"), dtype=torch.float32)
    assert engine.generate("What is 481 + 296?", seed=7).text == "777"
    with pytest.raises(gesso.UserError, match=r"^source .*nowhere is no folder"):
        gesso.save_model(model, tmp_path / "other", source=tmp_path / "nowhere")
    with pytest.raises(gesso.UserError, match=r"^model must be what gesso.load_model returns.*got Engine"):
        gesso.save_model(engine, tmp_path / "other")  # type: ignore[arg-type]
    assert not (tmp_path / "other").exists()
