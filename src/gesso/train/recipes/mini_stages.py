"""Lists the tasks that `mini`'s runs draw, by canvas length: what each run was for stands under its stages."""

from gesso.train.task_data import Stage

FIRST = Stage(
    0,
    {
        32: {"json": 0.14, "code": 0.22, "arithmetic": 0.20, "ordering": 0.18, "editing": 0.14, "counting": 0.12},
        16: {"json": 0.10, "code": 0.10, "arithmetic": 0.20, "ordering": 0.45, "editing": 0.15},
        8: {"arithmetic": 0.65, "ordering": 0.10, "editing": 0.25},
    },
)
SECOND = Stage(
    2250,
    {
        32: {"json": 0.20, "code": 0.20, "arithmetic": 0.05, "ordering": 0.10, "editing": 0.05, "counting": 0.40},
        16: {"json": 0.05, "code": 0.05, "arithmetic": 0.20, "ordering": 0.30, "editing": 0.10, "counting": 0.30},
        8: {"arithmetic": 0.90, "ordering": 0.05, "editing": 0.05},
    },
)
"""By step 2,250 JSON, code and editing are nearly learned; counting and arithmetic take the longest."""

LONGER = Stage(
    0,
    {
        32: {"json": 0.14, "code": 0.12, "arithmetic": 0.04, "ordering": 0.08, "editing": 0.07, "counting": 0.55},
        16: {"json": 0.05, "code": 0.05, "arithmetic": 0.10, "ordering": 0.45, "editing": 0.30, "counting": 0.05},
        8: {"arithmetic": 0.92, "ordering": 0.03, "editing": 0.05},
    },
)
LONGER_2 = Stage(
    1250,
    {
        32: {"json": 0.08, "code": 0.06, "arithmetic": 0.02, "ordering": 0.06, "editing": 0.04, "counting": 0.74},
        16: {"json": 0.04, "code": 0.04, "arithmetic": 0.08, "ordering": 0.54, "editing": 0.22, "counting": 0.08},
        8: {"arithmetic": 0.92, "ordering": 0.03, "editing": 0.05},
    },
)
"""The second run: what the first left unlearned, and in the end mostly counting, which does not yet stop in time."""

ENDS = Stage(
    0,
    {
        32: {"json": 0.20, "code": 0.14, "arithmetic": 0.04, "ordering": 0.08, "editing": 0.08, "counting": 0.46},
        16: {"json": 0.03, "code": 0.03, "arithmetic": 0.04, "ordering": 0.24, "editing": 0.22, "counting": 0.44},
        8: {"arithmetic": 0.94, "ordering": 0.03, "editing": 0.03},
    },
)
"""The third run: where a count ends, differences, duplicates."""

STOPS = Stage(
    0,
    {
        32: {
            "json": 0.10, "code": 0.08, "arithmetic": 0.02, "ordering": 0.06, "editing": 0.07, "counting": 0.52,
            "revision": 0.15,
        },
        16: {
            "json": 0.02, "code": 0.02, "arithmetic": 0.03, "ordering": 0.22, "editing": 0.23, "counting": 0.38,
            "revision": 0.10,
        },
        8: {"arithmetic": 0.95, "ordering": 0.02, "editing": 0.03},
    },
)  # fmt: skip
"""The fourth run: more of the same, still mostly where a count ends, and changes to a given function."""

WIDER = Stage(
    0,
    {
        32: {
            "json": 0.08, "code": 0.07, "arithmetic": 0.02, "ordering": 0.07, "editing": 0.08, "counting": 0.56,
            "revision": 0.12,
        },
        16: {
            "json": 0.02, "code": 0.02, "arithmetic": 0.04, "ordering": 0.28, "editing": 0.28, "counting": 0.28,
            "revision": 0.08,
        },
        8: {"arithmetic": 0.95, "ordering": 0.02, "editing": 0.03},
    },
)  # fmt: skip
"""The fifth run: the same skills with a window in which a whole count sees where it is to end."""

LAST = Stage(
    0,
    {
        32: {
            "json": 0.08, "code": 0.07, "arithmetic": 0.10, "ordering": 0.08, "editing": 0.15, "counting": 0.36,
            "revision": 0.16,
        },
        16: {
            "json": 0.02, "code": 0.02, "arithmetic": 0.04, "ordering": 0.26, "editing": 0.44, "counting": 0.15,
            "revision": 0.07,
        },
        8: {"arithmetic": 0.96, "ordering": 0.02, "editing": 0.02},
    },
)  # fmt: skip
"""The sixth run: duplicates and arithmetic, which were short of their goals, and changes that start from the text."""

AROUND = Stage(
    0,
    {
        32: {
            "json": 0.08, "code": 0.07, "arithmetic": 0.08, "ordering": 0.08, "editing": 0.14, "counting": 0.28,
            "revision": 0.09, "revision-in-file": 0.18,
        },
        16: {
            "json": 0.02, "code": 0.02, "arithmetic": 0.04, "ordering": 0.24, "editing": 0.40, "counting": 0.10,
            "revision": 0.05, "revision-in-file": 0.13,
        },
        8: {"arithmetic": 0.96, "ordering": 0.02, "editing": 0.02},
    },
)  # fmt: skip
"""The seventh run: changes to a part of a file, with the rest of it in the prompt."""
AROUND_2 = Stage(
    1200,
    {
        32: {
            "json": 0.06, "code": 0.05, "arithmetic": 0.06, "ordering": 0.06, "editing": 0.12, "counting": 0.44,
            "revision": 0.07, "revision-in-file": 0.14,
        },
        16: {
            "json": 0.02, "code": 0.02, "arithmetic": 0.03, "ordering": 0.20, "editing": 0.34, "counting": 0.25,
            "revision": 0.04, "revision-in-file": 0.10,
        },
        8: {"arithmetic": 0.96, "ordering": 0.02, "editing": 0.02},
    },
)  # fmt: skip
"""Counting again, which had lost a little."""
