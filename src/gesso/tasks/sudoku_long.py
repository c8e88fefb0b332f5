"""Draws Sudoku puzzles that take long chains: dug straight to their number of clues, and such that singles take long.

Blanks given back to a base (`gesso.tasks.sudoku`) make a puzzle of 30 clues and more easy. One that is dug to as many
is not always: of those of 30 to 32 clues three in five take seven rounds of singles or more, or a guess, where it is
three in ten of those that were given back.
"""

import random

from gesso.tasks.base import Example
from gesso.tasks.sudoku import Sudoku, grid_text
from gesso.tasks.sudoku_solver import dig, draw_solution, singles

CLUES = range(26, 42)
ROUNDS = 7
"""Rounds of singles from which on a puzzle counts as long; most are filled in two to six."""


class LongSudoku(Sudoku):
    """Asks a puzzle that singles do not fill within six rounds -> its solution."""

    def sample(self, rng: random.Random) -> Example:
        """Digs puzzles of 26 to 41 clues until one is long; some five are dug for one."""
        while True:
            solution = draw_solution(rng)
            puzzle = dig(solution, rng.choice(CLUES), rng)
            if puzzle is None:
                continue
            rounds, open_cells = singles(puzzle)
            if rounds >= ROUNDS or open_cells:
                return Example(self.name, grid_text(puzzle), grid_text(solution))
