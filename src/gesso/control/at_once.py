"""Defines `gesso.fill`, `gesso.edit`, `gesso.choose` and `gesso.search`: each makes its job and runs it to its end."""

import functools
import inspect
from collections.abc import Callable
from typing import ParamSpec, TypeVar, get_args

from gesso.control import choose as _choose
from gesso.control import edit as _edit
from gesso.control import fill as _fill
from gesso.control import search as _search
from gesso.control.job import Job, run_job
from gesso.engine.engine import Engine
from gesso.errors import OptionError

P = ParamSpec("P")
T = TypeVar("T")


def at_once(make: Callable[P, Job[T]]) -> Callable[P, T]:
    """Returns a function that takes what `make` takes, and returns what the job that it makes is for."""
    signature = inspect.signature(make)

    @functools.wraps(make)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        engine = signature.bind(*args, **kwargs).arguments["engine"]
        if not isinstance(engine, Engine):
            raise OptionError.no_engine(engine)
        return run_job(engine, make(*args, **kwargs))

    run.__module__ = __name__
    result = get_args(signature.return_annotation)[-1]
    run.__signature__ = signature.replace(return_annotation=result)  # type: ignore[attr-defined]
    return run


fill = at_once(_fill.fill)
edit = at_once(_edit.edit)
choose = at_once(_choose.choose)
search = at_once(_search.search)
