"""Asks for the solution of a Sudoku: nine lines of nine digits with 0 for a blank -> the same grid filled in. Every
puzzle has one solution.

A puzzle starts from a *base*: a random solution and a puzzle of 24 clues dug from it. Giving some of its blanks back
makes a puzzle of any higher count, which still has that one solution; relabelling the digits, transposing, and
exchanging bands, stacks, and lines within them turns it into any of 10^12 others. Digging takes some ten milliseconds
and the rest a tenth of one, so training puzzles come from a fixed bank of bases, each dug when it is first drawn: base
number n is the same in every process, and a puzzle follows from the random generator alone. Evaluation puzzles have
bases of their own.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from gesso.errors import DataError, OptionError
from gesso.tasks.base import Augmented, Example, Task, held_out
from gesso.tasks.sudoku_solver import Grid, count_solutions, dig, draw_solution, solve

__all__ = ["BANDS", "MIN_CLUES", "Grid", "Sudoku", "clue_band", "count_solutions", "parse_grid", "solve"]

MIN_CLUES = 24
"""Clues of a base, so the fewest a puzzle has."""
BANDS: Mapping[str, range] = {"easy": range(40, 51), "medium": range(30, 40), "hard": range(MIN_CLUES, 30)}
"""Clues of evaluation puzzles, uniform within a band."""
_BAND_SHARES = {"easy": 170, "medium": 170, "hard": 160}
_CYCLE = sum(_BAND_SHARES.values())
_UNIFORM = dict.fromkeys(range(MIN_CLUES, BANDS["easy"].stop), 1.0)


def _clue_weights(**shares: float) -> Mapping[int, float]:
    return {clues: share / len(BANDS[band]) for band, share in shares.items() for clues in BANDS[band]}


SPARSE = _clue_weights(easy=0.15, medium=0.4, hard=0.45)
"""Weights of numbers of clues for a model that knows the game: mostly the puzzles it cannot solve yet."""
HARD = _clue_weights(easy=0.1, medium=0.3, hard=0.6)
"""And for one that solves all but the hard ones."""
_DIGITS = "123456789"
UNITS: tuple[tuple[int, ...], ...] = (
    *(tuple(range(9 * row, 9 * row + 9)) for row in range(9)),
    *(tuple(range(column, 81, 9)) for column in range(9)),
    *(
        tuple(27 * band + 3 * stack + 9 * row + column for row in range(3) for column in range(3))
        for band in range(3)
        for stack in range(3)
    ),
)
"""Cells of every row, column and box."""


class Sudoku(Task):
    """Asks a puzzle -> its solution."""

    name = "sudoku"

    def __init__(self, clue_weights: Mapping[int, float] | None = None, bases: int | None = 4096) -> None:
        """
        Args:
            clue_weights: weight of each number of clues among training puzzles; uniform over 24 to 50 without it.
            bases: size of the bank that training puzzles come from; None digs a new base for each.

        Raises:
            OptionError: a number of clues outside 24 to 80, a weight below 0, all weights zero, or `bases` below 1.
        """
        weights = dict(_UNIFORM if clue_weights is None else clue_weights)
        wrong = [clues for clues in weights if not MIN_CLUES <= clues <= 80]
        if wrong:
            raise OptionError(f"a Sudoku puzzle has {MIN_CLUES} to 80 clues, got {wrong[0]}", option="clues")
        if not weights or min(weights.values()) < 0 or sum(weights.values()) <= 0:
            raise OptionError("clue_weights needs weights of at least 0 and one above 0", option="clue_weights")
        if bases is not None and bases < 1:
            raise OptionError(f"bases must be at least 1, got {bases}", option="bases")
        self._clues = list(weights)
        self._weights = list(weights.values())
        self._bases = bases

    def sample(self, rng: random.Random) -> Example:
        """Draws a number of clues by weight, a base of the bank, and one of the base's puzzles."""
        clues = rng.choices(self._clues, self._weights)[0]
        puzzle, solution = _draw_base(rng) if self._bases is None else _bank(rng.randrange(self._bases))
        return self._example(*_shuffled(_with_clues(puzzle, solution, clues, rng), solution, rng))

    def sample_evaluation(self, rng: random.Random, index: int) -> Example:
        """Draws a puzzle from a base of its own; 500 hold 170 easy, 170 medium and 160 hard ones, mixed evenly.

        Its digits are relabelled until its prompt is held out: drawing again would mean digging again.
        """
        clues = rng.choice(BANDS[_band_cycle()[index % _CYCLE]])
        puzzle, solution = _draw_base(rng)
        puzzle = _with_clues(puzzle, solution, clues, rng)
        while True:
            example = self._example(*_relabelled(puzzle, solution, rng))
            if held_out(example.prompt):
                return example

    def score(self, prompt: str, text: str) -> float:
        """Checks the rules: 1 for a grid that keeps the clues and has every digit once in each row, column and box.

        Else the share of these 27 units that are right, times the share of clues that are kept, which is below 1; 0
        where `text` is no grid.
        """
        puzzle = parse_grid(prompt)
        try:
            given = parse_grid(text)
        except DataError:
            return 0.0
        whole = sum(len({given[cell] for cell in unit} - {0}) == 9 for unit in UNITS)
        clues = [found == clue for clue, found in zip(puzzle, given, strict=True) if clue]
        return whole / len(UNITS) * (sum(clues) / len(clues) if clues else 1.0)

    def augment(self, prompt: str, rng: random.Random) -> Augmented:
        """Transposes, exchanges bands, stacks and lines within them, and relabels the digits, at random."""
        symmetry = _Symmetry.draw(rng)

        def restore(text: str) -> str:
            try:
                given = parse_grid(text)
            except DataError:
                return text
            return _lines(symmetry.undo("".join(map(str, given))))

        return Augmented(_lines(symmetry.apply("".join(map(str, parse_grid(prompt))))), restore)

    def group(self, example: Example) -> str:
        """Returns the band of the puzzle."""
        return clue_band(81 - parse_grid(example.prompt).count(0))

    def counts(self, example: Example, text: str) -> Mapping[str, tuple[int, int]]:
        """Counts blanks filled right, and clues that are kept; none where `text` is no grid."""
        puzzle, solution = parse_grid(example.prompt), parse_grid(example.answer)
        try:
            given = parse_grid(text)
        except DataError:
            given = (0,) * 81
        cells = list(zip(puzzle, solution, given, strict=True))
        blanks = puzzle.count(0)
        return {
            "blanks right": (sum(right == found for clue, right, found in cells if clue == 0), blanks),
            "clues kept": (sum(clue == found for clue, _, found in cells if clue != 0), 81 - blanks),
        }

    def _example(self, puzzle: str, solution: str) -> Example:
        return Example(self.name, _lines(puzzle), _lines(solution))


def parse_grid(text: str) -> Grid:
    """Reads nine lines of nine digits, 0 for a blank, surrounding white space aside.

    Raises:
        DataError: the text is something else.
    """
    lines = text.strip().split("\n")
    if len(lines) != 9 or any(len(line) != 9 or not (line.isascii() and line.isdigit()) for line in lines):
        raise DataError("a Sudoku grid is nine lines of nine digits, 0 for a blank")
    return tuple(int(digit) for line in lines for digit in line)


def grid_text(grid: Grid) -> str:
    """Writes nine lines of nine digits."""
    return _lines("".join(map(str, grid)))


def clue_band(clues: int) -> str:
    """Names the band: `easy` from 40 clues on, `medium` from 30 on, else `hard`."""
    return next((band for band in ("easy", "medium") if clues >= BANDS[band].start), "hard")


@cache
def _band_cycle() -> tuple[str, ...]:
    """The bands of 500 evaluation puzzles: at every place the one that is furthest behind its share."""
    drawn = dict.fromkeys(_BAND_SHARES, 0)
    bands = []
    for place in range(1, _CYCLE + 1):
        behind = max(drawn, key=lambda band: _BAND_SHARES[band] * place - drawn[band] * _CYCLE)
        drawn[behind] += 1
        bands.append(behind)
    return tuple(bands)


@cache
def _bank(number: int) -> tuple[str, str]:
    return _draw_base(random.Random(f"sudoku base {number}"))


def _draw_base(rng: random.Random) -> tuple[str, str]:
    """Draws a puzzle of 24 clues and its solution, each as 81 digits; some two solutions are tried for one."""
    while True:
        solution = draw_solution(rng)
        puzzle = dig(solution, MIN_CLUES, rng)
        if puzzle is not None:
            return "".join(map(str, puzzle)), "".join(map(str, solution))


def _with_clues(puzzle: str, solution: str, clues: int, rng: random.Random) -> str:
    """`puzzle` with blanks filled in at random until it has `clues` clues."""
    cells = list(puzzle)
    blanks = [cell for cell in range(81) if puzzle[cell] == "0"]
    for cell in rng.sample(blanks, len(blanks) - (81 - clues)):
        cells[cell] = solution[cell]
    return "".join(cells)


def _shuffled(puzzle: str, solution: str, rng: random.Random) -> tuple[str, str]:
    """The pair after one random symmetry of the game."""
    symmetry = _Symmetry.draw(rng)
    return symmetry.apply(puzzle), symmetry.apply(solution)


@dataclass(frozen=True, slots=True)
class _Symmetry:
    """A way to turn a grid into another of the same game, and back."""

    order: Sequence[int]
    """The cell that each cell's digit comes from."""
    labels: str
    """What 1 to 9 become."""

    @classmethod
    def draw(cls, rng: random.Random) -> "_Symmetry":
        rows, columns = _line_order(rng), _line_order(rng)
        steps = (9, 1) if rng.random() < 0.5 else (1, 9)
        order = [steps[0] * row + steps[1] * column for row in rows for column in columns]
        return cls(order, _labels(rng))

    def apply(self, cells: str) -> str:
        return "".join([cells[cell] for cell in self.order]).translate(str.maketrans(_DIGITS, self.labels))

    def undo(self, cells: str) -> str:
        before = dict(zip(self.order, cells.translate(str.maketrans(self.labels, _DIGITS)), strict=True))
        return "".join(before[cell] for cell in range(81))


def _line_order(rng: random.Random) -> list[int]:
    """Nine lines in an order that keeps the three of a band together."""
    return [3 * band + line for band in rng.sample(range(3), 3) for line in rng.sample(range(3), 3)]


def _relabelled(puzzle: str, solution: str, rng: random.Random) -> tuple[str, str]:
    labels = str.maketrans(_DIGITS, _labels(rng))
    return puzzle.translate(labels), solution.translate(labels)


def _labels(rng: random.Random) -> str:
    return "".join(rng.sample(_DIGITS, 9))


def _lines(cells: str) -> str:
    return "\n".join(cells[start : start + 9] for start in range(0, 81, 9))
