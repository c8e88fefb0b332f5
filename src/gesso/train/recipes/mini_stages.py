"""Lists the tasks that `mini`'s runs draw, by canvas length: what each run was for stands under its stages."""

from collections.abc import Mapping

from gesso.train.task_data import Stage

_TASKS = ("json", "code", "arithmetic", "ordering", "editing", "counting", "revision", "revision-in-file")


def _stage(start: int, percent: Mapping[int, tuple[int, ...]]) -> Stage:
    """Returns a stage from the percentages of `_TASKS`, in their order, by canvas length."""
    return Stage(
        start,
        {
            width: {task: share / 100 for task, share in zip(_TASKS, shares, strict=False) if share}
            for width, shares in percent.items()
        },
    )


# json, code, arithmetic, ordering, editing, counting, revision, revision-in-file
FIRST = _stage(0, {32: (14, 22, 20, 18, 14, 12), 16: (10, 10, 20, 45, 15), 8: (0, 0, 65, 10, 25)})
SECOND = _stage(2250, {32: (20, 20, 5, 10, 5, 40), 16: (5, 5, 20, 30, 10, 30), 8: (0, 0, 90, 5, 5)})
"""Stage from step 2,250 on, by which JSON, code and editing are nearly learned; counting and arithmetic take the
longest."""

LONGER = _stage(0, {32: (14, 12, 4, 8, 7, 55), 16: (5, 5, 10, 45, 30, 5), 8: (0, 0, 92, 3, 5)})
LONGER_2 = _stage(1250, {32: (8, 6, 2, 6, 4, 74), 16: (4, 4, 8, 54, 22, 8), 8: (0, 0, 92, 3, 5)})
"""The second run: what the first left unlearned, and in the end mostly counting, which does not yet stop in time."""

ENDS = _stage(0, {32: (20, 14, 4, 8, 8, 46), 16: (3, 3, 4, 24, 22, 44), 8: (0, 0, 94, 3, 3)})
"""The third run: where a count ends, differences, duplicates."""

STOPS = _stage(0, {32: (10, 8, 2, 6, 7, 52, 15), 16: (2, 2, 3, 22, 23, 38, 10), 8: (0, 0, 95, 2, 3)})
"""The fourth run: more of the same, still mostly where a count ends, and changes to a given function."""

WIDER = _stage(0, {32: (8, 7, 2, 7, 8, 56, 12), 16: (2, 2, 4, 28, 28, 28, 8), 8: (0, 0, 95, 2, 3)})
"""The fifth run: the same skills with a window in which a whole count sees where it is to end."""

LAST = _stage(0, {32: (8, 7, 10, 8, 15, 36, 16), 16: (2, 2, 4, 26, 44, 15, 7), 8: (0, 0, 96, 2, 2)})
"""The sixth run: duplicates and arithmetic, which were short of their goals, and changes that start from the text."""

AROUND = _stage(0, {32: (8, 7, 8, 8, 14, 28, 9, 18), 16: (2, 2, 4, 24, 40, 10, 5, 13), 8: (0, 0, 96, 2, 2)})
"""The seventh run: changes to a part of a file, with the rest of it in the prompt."""

AROUND_2 = _stage(1200, {32: (6, 5, 6, 6, 12, 44, 7, 14), 16: (2, 2, 3, 20, 34, 25, 4, 10), 8: (0, 0, 96, 2, 2)})
"""Counting again, which had lost a little."""

SOONER = _stage(0, {32: (10, 5, 6, 10, 10, 38, 7, 14), 16: (4, 2, 4, 28, 36, 16, 3, 7), 8: (0, 0, 70, 15, 15)})
"""The eighth run: most of what takes more than one step."""
