"""Data stand beside requests as people put them."""

import re

import pytest

from gesso.tasks import TASKS
from tasks.drawing import drawn


@pytest.mark.parametrize("name", ["sorting", "duplicates", "reversing"])
def test_an_introduction_is_followed_by_what_it_introduces(name: str) -> None:
    """No request comes between "My notes say" and what they say."""
    opened = re.compile(
        r"(?:My notes say|[Ww]rote on the \w+ card|[Mm]y list (?:is|reads)|[Mm]y (?:entry|line) reads)(.)"
    )
    marks = [found[1] for e in drawn(TASKS[name], 3000, evaluation=True) for found in opened.finditer(e.prompt)]
    assert len(marks) > 8
    assert "." not in marks


def test_an_aside_ends_before_the_data_begin() -> None:
    """Else its last words could be the first of the data."""
    said = re.compile(r"(?:is urgent|small talk|the details|is waiting(?! for)|in a hurry)(..)")
    behind: list[str] = []
    for name in ("sorting", "duplicates", "reversing"):
        prompts = [e.prompt for e in drawn(TASKS[name], 4000) + drawn(TASKS[name], 4000, evaluation=True)]
        behind += [found[1] for prompt in prompts for found in said.finditer(prompt)]
    assert len(behind) > 10
    assert not [signs for signs in behind if re.fullmatch(r" \w", signs)]
