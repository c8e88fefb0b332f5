"""Imports code of the user's own, and calls functions that are given as options."""

import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

from gesso.errors import OptionError, UserError

IMPORT = "GESSO_IMPORT"
"""Environment variable that names files and modules that register strategies and tasks, parted as in PATH."""


@contextmanager
def failures_of(option: str, what: str) -> Iterator[None]:
    """Lets what goes wrong in a function of the user's own be told as its option's fault.

    Args:
        what: the function, as a message begins with it: `the score`.

    Raises:
        OptionError: it failed.
    """
    try:
        yield
    except UserError:
        raise
    except (Exception, SystemExit) as error:
        raise OptionError(f"{what} failed: {type(error).__name__}: {error}", option=option) from error


def path_flags() -> list[str]:
    """Returns the flags with which a Python that this process starts imports what this one would: from the working
    folder, whose files may have the names of any modules, only where this one does."""
    try:
        looked_at = {"", str(Path.cwd())} & {*sys.path}
    except OSError:  # it is gone
        return ["-P"]
    return [] if looked_at else ["-P"]


def is_own(strategy: object) -> bool:
    """Says whether a strategy is the user's own."""
    return not type(strategy).__module__.startswith("gesso.")


def failures_in(strategy: object, role: str, method: str) -> AbstractContextManager[None]:
    """Does as `failures_of` for a method of a strategy that is the user's own; the others' failures are faults."""
    return failures_of(role, f"{type(strategy).__name__}.{method}") if is_own(strategy) else nullcontext()


def imported(place: str, option: str) -> ModuleType:
    """Imports `FILE.py` as it is now, or a module by its name.

    Args:
        option: the option that named it, for errors.

    Raises:
        OptionError: there is none, or it fails.
    """
    try:
        return _file(Path(place), option) if place.endswith(".py") else importlib.import_module(place)
    except OptionError:
        raise
    except (Exception, SystemExit) as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == place]
        where = f" (line {lines[-1]})" if lines else ""
        what = f"{place} cannot be imported: {type(error).__name__}: {error}{where}"
        raise OptionError(what, option=option) from error


def import_named() -> None:
    """Imports what the variable `GESSO_IMPORT` names, each once.

    Raises:
        OptionError: there is no such file or module, or it fails.
    """
    for place in filter(None, os.environ.get(IMPORT, "").split(os.pathsep)):
        if place not in _begun:
            _begun.add(place)
            try:
                imported(place, "import")
            except BaseException:
                _begun.discard(place)
                raise


_begun: set[str] = set()
"""What `import_named` has imported, or is importing: what registers a strategy asks for it again."""


class _SourceLoader(SourceFileLoader):
    """Reads a file as it is now: bytecode beside it counts as its own by size and second, and writing some there is not
    asked for."""

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002 - the loader's own name for it
        return self.source_to_code(self.get_data(self.path), self.path)


def _file(path: Path, option: str) -> ModuleType:
    if not path.is_file():
        raise OptionError(f"there is no file {path}", option=option)
    # Its whole path: no other module is called so. Dataclasses look up the module that they are in.
    name = str(path.resolve())
    spec = importlib.util.spec_from_file_location(name, path, loader=_SourceLoader(name, str(path)))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    before = sys.modules.get(name)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        if before is not None:
            sys.modules[name] = before
        raise
    return module
