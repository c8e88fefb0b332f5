"""The public functions do what their jobs do, run to the end."""

import inspect
from typing import get_args

import pytest

import gesso
from gesso.control import choose, edit, fill, search
from gesso.control.fill_result import FillResult
from gesso.control.job import run_job
from gesso.engine.engine import Engine
from gesso.errors import OptionError


@pytest.fixture(scope="module")
def engine() -> Engine:
    return gesso.load("mini", offline=True)


def test_a_fill_is_what_its_job_finds(engine: Engine) -> None:
    document = "def add_seven(x):\n    return {{ }}"
    ask = "Write a Python function add_seven that returns its argument plus 7."
    found = gesso.fill(engine, document, ask, seed=3)
    assert isinstance(found, FillResult)
    assert found.text == run_job(engine, fill.fill(engine, document, ask, seed=3)).text
    assert found.text.startswith("def add_seven(x):\n    return ")
    assert gesso.fill(engine=engine, document=document, instruction=ask, seed=3).text == found.text


@pytest.mark.parametrize("name", ["fill", "edit", "choose", "search"])
def test_it_takes_and_tells_what_its_job_takes(name: str) -> None:
    job = getattr({"fill": fill, "edit": edit, "choose": choose, "search": search}[name], name)
    public = getattr(gesso, name)
    assert public.__doc__ == job.__doc__
    ours, theirs = inspect.signature(public), inspect.signature(job)
    assert ours.parameters == theirs.parameters
    assert ours.return_annotation is get_args(theirs.return_annotation)[-1]


def test_what_the_job_refuses_is_refused(engine: Engine) -> None:
    with pytest.raises(OptionError):
        gesso.choose(engine, "What is 481 + 296?", [])
    with pytest.raises(OptionError, match=r"^engine must be what gesso.load returns, got 'mini'") as refused:
        gesso.fill("mini", "{{ }}")  # type: ignore[arg-type]
    assert refused.value.option == "engine"
    with pytest.raises(TypeError, match="engine"):
        gesso.fill()  # type: ignore[call-arg]
