"""Solves, fills and digs Sudoku grids: the search behind the task in `sudoku.py`.

A *placement* is a digit in a cell. There are 729 of them, and a set of placements is one integer: digit d (from 0)
in cell c (row by row, from 0) is bit 81 d + c. So a pass over all rows, or columns, or boxes, or cells, is nine
shifts of one integer, whatever the number of cells that are still open.

A search keeps two such sets: what is still possible, and what is already placed (and has struck out what it
rules out). `_propagate` places naked and hidden singles until none is left; `_solutions` branches where it stops.
"""

import random
from collections.abc import Iterator, Sequence

Grid = tuple[int, ...]
"""81 digits, row by row; 0 is a blank."""

_CELLS = (1 << 81) - 1
_EVERY_DIGIT = sum(1 << 81 * digit for digit in range(9))
_EVERYTHING = (1 << 729) - 1


def _cells(numbers: Sequence[int]) -> int:
    return sum(1 << number for number in numbers)


def _family(first: Sequence[int], shifts: Sequence[int]) -> tuple[int, tuple[int, ...], int]:
    """Units of one kind: the first cells of all nine, for every digit; the steps to their other cells; and the factor
    that spreads a bit of a first cell over its whole unit."""
    return _cells(first) * _EVERY_DIGIT, tuple(shifts), _cells(shifts)


_CORNERS = [27 * band + 3 * stack for band in range(3) for stack in range(3)]
_IN_BOX = [9 * row + column for row in range(3) for column in range(3)]
_FAMILIES = (
    (_CELLS, tuple(range(0, 729, 81)), _EVERY_DIGIT),  # a cell's unit is its nine digits
    _family(range(0, 81, 9), range(9)),
    _family(range(9), range(0, 81, 9)),
    _family(_CORNERS, _IN_BOX),
)


def _kept(placement: int) -> int:
    """What stays possible beside one placement, itself included."""
    digit, cell = divmod(placement, 81)
    row, column = divmod(cell, 9)
    box = 27 * (row // 3) + 3 * (column // 3)
    peers = (
        _cells(range(9 * row, 9 * row + 9)) | _cells(range(column, 81, 9)) | _cells([box + step for step in _IN_BOX])
    )
    struck = peers << 81 * digit | _EVERY_DIGIT << cell
    return _EVERYTHING & ~struck | 1 << placement


_KEPT = tuple(_kept(placement) for placement in range(729))


def _places(possible: int, family: tuple[int, tuple[int, ...], int]) -> tuple[int, int]:
    """The units of a family that have a place for something left, and those with several, as the first bit of each."""
    first, shifts, _ = family
    once = twice = 0
    for shift in shifts:
        here = possible >> shift & first
        twice |= once & here
        once |= here
    return once, twice


def _propagate(possible: int, placed: int) -> tuple[int, int] | None:
    """Places singles until there are no more; None where some unit has no place left for a digit."""
    found = True
    while found:
        found = False
        for family in _FAMILIES:
            once, twice = _places(possible, family)
            if once != family[0]:
                return None
            singles = (once & ~twice) * family[2] & possible & ~placed
            if singles:
                found = True
                placed |= singles
                while singles:
                    single = singles & -singles
                    possible &= _KEPT[single.bit_length() - 1]
                    singles ^= single
    return possible, placed


def _choices(possible: int, rng: random.Random | None) -> list[int]:
    """The placements of one open cell with fewest candidates (of the first such cell without `rng`)."""
    once = twice = thrice = often = 0
    for shift in range(0, 729, 81):
        here = possible >> shift & _CELLS
        often |= thrice & here
        thrice |= twice & here
        twice |= once & here
        once |= here
    fewest = twice & ~thrice or thrice & ~often or often
    if rng is not None:
        for _ in range(rng.randrange(fewest.bit_count())):
            fewest &= fewest - 1
    choices = list(_bits((fewest & -fewest) * _EVERY_DIGIT & possible))
    if rng is not None:
        rng.shuffle(choices)
    return choices


def _bits(placements: int) -> Iterator[int]:
    while placements:
        lowest = placements & -placements
        yield lowest.bit_length() - 1
        placements ^= lowest


def _solutions(possible: int, placed: int, rng: random.Random | None = None) -> Iterator[int]:
    """The sets of 81 placements that solve a state; in random order with `rng`."""
    open_states = [(possible, placed)]
    while open_states:
        state = _propagate(*open_states.pop())
        if state is None:
            continue
        possible, placed = state
        if placed.bit_count() == 81:
            yield placed
            continue
        open_states += [(possible & _KEPT[choice], placed | 1 << choice) for choice in _choices(possible, rng)]


def _state(grid: Sequence[int]) -> tuple[int, int]:
    """What a grid leaves possible, and its clues. Clues that contradict each other leave a unit without a place."""
    possible, placed = _EVERYTHING, 0
    for cell, digit in enumerate(grid):
        if digit:
            possible &= _KEPT[81 * (digit - 1) + cell]
            placed |= 1 << 81 * (digit - 1) + cell
    return possible, placed


def _grid(placements: int) -> Grid:
    grid = [0] * 81
    for placement in _bits(placements):
        grid[placement % 81] = placement // 81 + 1
    return tuple(grid)


def solve(grid: Sequence[int]) -> Grid | None:
    """Returns a solution of `grid` (81 digits, 0 for a blank), or None where it has none."""
    solution = next(_solutions(*_state(grid)), None)
    return None if solution is None else _grid(solution)


def count_solutions(grid: Sequence[int], limit: int = 2) -> int:
    """Returns the number of solutions of `grid`, or `limit` where there are at least as many."""
    solutions = _solutions(*_state(grid))
    return sum(1 for _, _ in zip(range(limit), solutions, strict=False))


def singles(grid: Sequence[int]) -> tuple[int, int]:
    """Returns in how many rounds naked and hidden singles fill `grid`, all that there are at a time, and how many
    blanks they leave."""
    possible, placed = _state(grid)
    rounds = 0
    while found := _all_singles(possible) & ~placed:
        rounds += 1
        placed |= found
        for single in _bits(found):
            possible &= _KEPT[single]
    return rounds, 81 - placed.bit_count()


def _all_singles(possible: int) -> int:
    """The placements that are the last of their cell, or of their digit in a row, column or box."""
    found = 0
    for family in _FAMILIES:
        once, twice = _places(possible, family)
        found |= (once & ~twice) * family[2] & possible
    return found


def draw_solution(rng: random.Random) -> Grid:
    """Draws a full grid: three boxes that share no line at random, the rest by a search in random order."""
    grid = [0] * 81
    for corner in (0, 30, 60):
        for step, digit in zip(_IN_BOX, rng.sample(range(1, 10), 9), strict=True):
            grid[corner + step] = digit
    return _grid(next(_solutions(*_state(grid), rng)))


def dig(solution: Grid, clues: int, rng: random.Random) -> Grid | None:
    """Blanks cells of `solution` in random order wherever the puzzle keeps one solution.

    Returns the puzzle once it is down to `clues` clues; None where every cell was tried before.
    """
    _, left = _state(solution)
    count = 81
    placements = list(_bits(left))
    rng.shuffle(placements)
    for placement in placements:
        if count == clues:
            break
        without = left & ~(1 << placement)
        possible = _EVERYTHING
        for clue in _bits(without):
            possible &= _KEPT[clue]
        # A second solution would have another digit here.
        if next(_solutions(possible & ~(1 << placement), without), None) is None:
            left, count = without, count - 1
    return _grid(left) if count == clues else None
