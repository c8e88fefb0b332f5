"""Weighs the tasks that the runs of `skills` learn from, each mixture by what was worst after the run before."""

from gesso.train.skill_data import Mixture

FIRST = Mixture(
    0,
    {
        "sorting": 0.06, "duplicates": 0.05, "reversing": 0.06, "casing": 0.06, "replacing": 0.07, "extraction": 0.09,
        "functions": 0.08, "changes": 0.05, "conversion": 0.05, "dates": 0.03, "units": 0.03, "sums": 0.06,
        "ranges": 0.04, "filling": 0.02, "calls": 0.04, "sentiment": 0.01, "topics": 0.015, "dialogues": 0.04,
        "abstention": 0.05,
        "json": 0.03, "code": 0.03, "arithmetic": 0.05, "ordering": 0.02, "editing": 0.04, "counting": 0.03,
        "revision": 0.015, "revision-in-file": 0.01,
    },
)  # fmt: skip
"""All skills, and the six tasks in the words of the model before."""
ALL = Mixture(
    1200,
    {
        **FIRST.weights,
        "sorting": 0.075, "reversing": 0.075, "casing": 0.05, "replacing": 0.08, "extraction": 0.08, "functions": 0.06,
        "changes": 0.045, "conversion": 0.055, "sums": 0.12, "ranges": 0.045, "filling": 0.03, "calls": 0.035,
        "topics": 0.02, "abstention": 0.04,
        "code": 0.015, "arithmetic": 0.06, "ordering": 0.03, "editing": 0.05, "counting": 0.015,
    },
)  # fmt: skip
"""The same with more of what is learned late."""
AGAIN = Mixture(
    0,
    {
        **ALL.weights,
        "sorting": 0.09, "duplicates": 0.07, "reversing": 0.06, "replacing": 0.10, "extraction": 0.10,
        "functions": 0.04, "changes": 0.05, "conversion": 0.07, "units": 0.04, "sums": 0.10, "ranges": 0.05,
        "filling": 0.02, "calls": 0.05, "sentiment": 0.02, "topics": 0.01, "dialogues": 0.06, "abstention": 0.03,
        "json": 0.01, "code": 0.01, "arithmetic": 0.03, "ordering": 0.01, "editing": 0.03, "counting": 0.01,
    },
)  # fmt: skip
"""The same with more of what was worst after the first run, and little of what was all right."""
THIRD = Mixture(
    0,
    {
        **AGAIN.weights,
        "sorting": 0.11, "duplicates": 0.08, "casing": 0.03, "replacing": 0.12, "extraction": 0.09, "functions": 0.02,
        "changes": 0.045, "dates": 0.03, "ranges": 0.05, "filling": 0.01, "calls": 0.04, "sentiment": 0.03,
        "dialogues": 0.075, "json": 0.005, "code": 0.005, "arithmetic": 0.04, "ordering": 0.025, "editing": 0.05,
        "revision": 0.005, "revision-in-file": 0.005,
    },
)  # fmt: skip
"""The same with more of what was worst after the second run."""
FOURTH = Mixture(
    0,
    {
        **THIRD.weights,
        "sorting": 0.12, "reversing": 0.07, "casing": 0.04, "replacing": 0.13, "extraction": 0.10, "sums": 0.11,
        "dates": 0.025, "units": 0.025, "ranges": 0.055, "calls": 0.035, "sentiment": 0.02,
    },
)  # fmt: skip
"""The same with more of what was worst after the third run."""
FIFTH = Mixture(
    0,
    {
        **FOURTH.weights,
        "sorting": 0.13, "reversing": 0.08, "casing": 0.045, "replacing": 0.14, "conversion": 0.04, "changes": 0.035,
        "dates": 0.035, "units": 0.045, "sums": 0.19, "ranges": 0.06, "sentiment": 0.015, "topics": 0.02,
        "dialogues": 0.07, "abstention": 0.035, "arithmetic": 0.05, "ordering": 0.015,
    },
)  # fmt: skip
"""The same with more of what was worst after the fourth run, and of answers so short that they count little."""
SIXTH = Mixture(
    0, {**FIFTH.weights, "ranges": 0.075, "filling": 0.04, "changes": 0.045, "ordering": 0.02, "counting": 0.015}
)
"""The same with more of what only a canvas is asked for, and of what was lost in the fifth run."""
SEVENTH = Mixture(
    0,
    {
        **SIXTH.weights,
        "sorting": 0.14, "duplicates": 0.09, "reversing": 0.085, "casing": 0.055, "replacing": 0.16,
        "extraction": 0.12, "topics": 0.03, "dialogues": 0.09, "filling": 0.01,
    },
)  # fmt: skip
"""The same with more of what was worst in what was bundled, in six layers."""
EIGHTH = Mixture(
    0,
    {
        **SEVENTH.weights,
        "reversing": 0.11, "casing": 0.06, "replacing": 0.20, "extraction": 0.15, "units": 0.055, "sums": 0.26,
        "topics": 0.035, "dialogues": 0.10, "editing": 0.06,
    },
)  # fmt: skip
"""The same with more of what was worst after the seventh run."""
NINTH = Mixture(
    0,
    {
        **EIGHTH.weights,
        "sorting": 0.16, "reversing": 0.15, "casing": 0.09, "duplicates": 0.10, "ranges": 0.09, "sums": 0.30,
        "sentiment": 0.10, "topics": 0.12, "dialogues": 0.12, "abstention": 0.045,
    },
)  # fmt: skip
"""The same with more of what was worst after the eighth run."""
TENTH = Mixture(
    0,
    {
        **NINTH.weights,
        "sorting": 0.24, "duplicates": 0.13, "reversing": 0.17, "replacing": 0.30, "extraction": 0.22,
        "changes": 0.085, "dialogues": 0.15, "topics": 0.13, "sums": 0.32,
    },
)  # fmt: skip
"""The same with more of what was worst after the ninth run."""
ELEVENTH = Mixture(
    0,
    {
        **TENTH.weights,
        "sorting": 0.27, "replacing": 0.32, "reversing": 0.18, "extraction": 0.42, "conversion": 0.03, "sums": 0.55,
        "functions": 0.02, "changes": 0.13, "sentiment": 0.11, "topics": 0.14, "dialogues": 0.19, "abstention": 0.07,
        "editing": 0.04, "arithmetic": 0.04,
    },
)  # fmt: skip
"""The same with still more of what was worst, in some 7,400 more patterns."""
TWELFTH = Mixture(
    0,
    {
        **ELEVENTH.weights,
        "duplicates": 0.16, "reversing": 0.20, "casing": 0.15, "replacing": 0.36, "extraction": 0.46, "dates": 0.07,
        "units": 0.06, "ranges": 0.14, "calls": 0.05, "functions": 0.045, "conversion": 0.045, "changes": 0.12,
        "arithmetic": 0.12, "ordering": 0.07, "editing": 0.09, "counting": 0.02,
    },
)  # fmt: skip
"""The same with more of what was below its goal, in steps that are large enough for some of everything."""
THIRTEENTH = Mixture(
    0,
    {
        **TWELFTH.weights,
        "extraction": 1.0, "replacing": 0.55, "sorting": 0.42, "sums": 0.45, "casing": 0.12, "duplicates": 0.12,
        "reversing": 0.16, "ordering": 0.09, "arithmetic": 0.14, "editing": 0.10, "dates": 0.06, "changes": 0.08,
        "dialogues": 0.14, "topics": 0.10, "sentiment": 0.08, "ranges": 0.12,
    },
)  # fmt: skip
"""The same with more of the three skills that were below their goals."""
FIFTEENTH = Mixture(
    0,
    {
        **{name: 0.35 * weight for name, weight in TWELFTH.weights.items()},
        "extraction": 1.0, "replacing": 1.0, "sorting": 0.6,
    },
)  # fmt: skip
"""The three skills that are below their goals, and a little of all the others so that they stay."""
SIXTEENTH = Mixture(
    0,
    {
        **TWELFTH.weights,
        "sorting": 0.6, "replacing": 0.85, "extraction": 1.3, "sums": 0.6, "casing": 0.2, "reversing": 0.22,
    },
)  # fmt: skip
"""The same as `TWELFTH` with half of it for the three skills that were below their goals."""
SEVENTEENTH = Mixture(
    0,
    {
        **{name: 0.6 * weight for name, weight in TWELFTH.weights.items()},
        "functions": 0.04, "conversion": 0.04, "calls": 0.05, "units": 0.05, "dates": 0.06, "extraction": 3.0,
    },
)  # fmt: skip
"""Three fifths for the last skill that is below its goal, and a little of all the others so that they stay."""
EIGHTEENTH = Mixture(
    0,
    {
        **SIXTEENTH.weights,
        "extraction": 2.6, "replacing": 0.75, "units": 0.12, "dates": 0.12,
    },
)  # fmt: skip
"""The same as `SIXTEENTH` with two fifths of it for the last skill that is below its goal."""
NINETEENTH = Mixture(
    0,
    {
        "sorting": 0.09, "duplicates": 0.055, "replacing": 0.11, "extraction": 0.13, "functions": 0.075,
        "changes": 0.09, "units": 0.06, "dates": 0.075, "sums": 0.09, "topics": 0.04, "reversing": 0.05,
        "casing": 0.055, "ranges": 0.045, "conversion": 0.045, "calls": 0.01, "sentiment": 0.04, "dialogues": 0.02,
        "abstention": 0.04, "filling": 0.004, "json": 0.001, "code": 0.001, "arithmetic": 0.008, "ordering": 0.006,
        "editing": 0.008, "counting": 0.002, "revision": 0.001, "revision-in-file": 0.001,
    },
)  # fmt: skip
"""Most for the skills that became wider, and a little of what a teacher keeps (`RETAINED`)."""
TWENTIETH = Mixture(
    0,
    {
        "sorting": 0.095, "duplicates": 0.07, "reversing": 0.07, "casing": 0.065, "replacing": 0.11,
        "extraction": 0.12, "functions": 0.03, "changes": 0.065, "conversion": 0.04, "dates": 0.07, "units": 0.065,
        "sums": 0.10, "ranges": 0.055, "calls": 0.012, "sentiment": 0.035, "topics": 0.05, "dialogues": 0.03,
        "abstention": 0.035, "filling": 0.01, "json": 0.002, "code": 0.002, "arithmetic": 0.03, "ordering": 0.012,
        "editing": 0.02, "counting": 0.004, "revision": 0.001, "revision-in-file": 0.001,
    },
)  # fmt: skip
"""The wider skills by what was worst after the run before, all of it learned anew."""
TWENTYFIRST = Mixture(
    0,
    {
        "sorting": 0.075, "duplicates": 0.05, "reversing": 0.05, "casing": 0.06, "replacing": 0.10,
        "extraction": 0.12, "functions": 0.02, "changes": 0.05, "conversion": 0.025, "dates": 0.11, "units": 0.085,
        "sums": 0.20, "ranges": 0.05, "calls": 0.008, "sentiment": 0.05, "topics": 0.08, "dialogues": 0.025,
        "abstention": 0.03, "filling": 0.008, "json": 0.0015, "code": 0.0015, "arithmetic": 0.03, "ordering": 0.01,
        "editing": 0.018, "counting": 0.003, "revision": 0.001, "revision-in-file": 0.001,
    },
)  # fmt: skip
"""The same with more of the skills whose answers are short: the loss is a mean over tokens, of which they have few."""
TWENTYSECOND = Mixture(
    0,
    {
        **TWENTYFIRST.weights,
        "sorting": 0.085, "duplicates": 0.055, "replacing": 0.115, "extraction": 0.145, "functions": 0.035,
        "changes": 0.055, "casing": 0.055, "dates": 0.10, "units": 0.075, "sums": 0.22, "sentiment": 0.10,
        "topics": 0.13, "abstention": 0.04,
    },
)  # fmt: skip
"""The same with more of what was worst after the run before."""
CANVASES = Mixture(0, {**TWELFTH.weights, "filling": 0.2})
"""The same as `TWELFTH` with more of what only a canvas is asked for."""
RETAINED = (
    "dialogues", "abstention", "json", "code", "arithmetic", "ordering", "editing", "counting", "revision",
    "revision-in-file",
)  # fmt: skip
"""Tasks that a run with a teacher learns from it."""
