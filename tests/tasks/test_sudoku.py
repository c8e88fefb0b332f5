"""Sudoku: one solution each by another solver's count, bands, repeatable draws, grading, speed."""

import random
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gesso.errors import DataError, OptionError
from gesso.tasks import Example, build_tokenizer, evaluation_set, held_out, sudoku
from gesso.tasks.sudoku import BANDS, Grid, Sudoku, clue_band, count_solutions, parse_grid, solve
from gesso.tasks.sudoku_long import CLUES, ROUNDS, LongSudoku
from gesso.tasks.sudoku_solver import dig, draw_solution, singles

SEEDS = st.integers(0, 2**32)
ROOT = Path(__file__).parents[2]


def allowed(grid: list[int], cell: int) -> set[int]:
    row, column = divmod(cell, 9)
    seen = {grid[9 * row + i] for i in range(9)} | {grid[9 * i + column] for i in range(9)}
    corner = 27 * (row // 3) + 3 * (column // 3)
    seen |= {grid[corner + 9 * i + j] for i in range(3) for j in range(3)}
    return set(range(1, 10)) - seen


def slow_count(grid: list[int], limit: int) -> int:
    """Solutions by trying every digit of the blank with fewest; no propagation."""
    blanks = [cell for cell in range(81) if grid[cell] == 0]
    if not blanks:
        return 1
    cell = min(blanks, key=lambda blank: len(allowed(grid, blank)))
    found = 0
    for digit in allowed(grid, cell):
        grid[cell] = digit
        found += slow_count(grid, limit - found)
        if found >= limit:
            break
    grid[cell] = 0
    return found


def is_solved(grid: Grid) -> bool:
    return all(digit in allowed([*grid[:cell], 0, *grid[cell + 1 :]], cell) for cell, digit in enumerate(grid))


def clues_of(example: Example) -> int:
    return 81 - example.prompt.count("0")


@pytest.fixture(scope="module")
def task() -> Sudoku:
    """A bank of few bases, so that it is dug quickly."""
    return Sudoku(bases=5)


@given(SEEDS)
@settings(max_examples=30)
def test_a_puzzle_has_one_solution_and_it_is_the_answer(task: Sudoku, seed: int) -> None:
    example = task.sample(random.Random(seed))
    puzzle, answer = parse_grid(example.prompt), parse_grid(example.answer)
    assert slow_count(list(puzzle), 2) == 1
    assert count_solutions(puzzle) == 1
    assert solve(puzzle) == answer
    assert is_solved(answer)
    assert all(clue in (0, digit) for clue, digit in zip(puzzle, answer, strict=True))
    assert 24 <= clues_of(example) <= 50


@given(SEEDS)
@settings(max_examples=20)
def test_a_draw_follows_from_the_generator_alone(task: Sudoku, seed: int) -> None:
    first = task.sample(random.Random(seed))
    task.sample(random.Random(seed + 1))
    assert Sudoku(bases=5).sample(random.Random(seed)) == first


def test_a_draw_does_not_depend_on_what_is_cached(task: Sudoku) -> None:
    drawn = [task.sample(random.Random(seed)) for seed in range(10)]
    sudoku._bank.cache_clear()
    assert [task.sample(random.Random(seed)) for seed in reversed(range(10))] == drawn[::-1]


def test_one_base_makes_many_puzzles() -> None:
    rng = random.Random(3)
    drawn = [Sudoku(bases=1).sample(rng) for _ in range(200)]
    assert len({example.prompt for example in drawn}) == len({example.answer for example in drawn}) == 200
    filled = Counter(cell for example in drawn for cell, digit in enumerate(parse_grid(example.prompt)) if digit)
    assert min(filled.values()) > 50


def test_a_new_base_for_every_puzzle() -> None:
    example = Sudoku({30: 1.0}, bases=None).sample(random.Random(2))
    assert clues_of(example) == 30
    assert count_solutions(parse_grid(example.prompt)) == 1


def test_clue_weights(task: Sudoku) -> None:
    rng = random.Random(4)
    assert {clues_of(task.sample(rng)) for _ in range(600)} == set(range(24, 51))
    mixed = Sudoku({24: 3.0, 41: 1.0, 80: 0.0}, bases=5)
    counts = Counter(clues_of(mixed.sample(rng)) for _ in range(600))
    assert set(counts) == {24, 41}
    assert counts[41] / 600 == pytest.approx(0.25, abs=0.06)


@pytest.mark.parametrize("weights", [{}, {30: 0.0}, {30: -1.0, 31: 2.0}, {23: 1.0}, {81: 1.0}])
def test_bad_clue_weights_are_refused(weights: Mapping[int, float]) -> None:
    with pytest.raises(OptionError, match=r"clue"):
        Sudoku(weights)


def test_an_empty_bank_is_refused() -> None:
    with pytest.raises(OptionError, match="bases"):
        Sudoku(bases=0)


def test_an_evaluation_set_mixes_new_bases_by_band(task: Sudoku) -> None:
    found = evaluation_set(task, 50, seed=0)
    assert Counter(task.group(example) for example in found) == {"easy": 17, "medium": 17, "hard": 16}
    assert all(held_out(example.prompt) and clues_of(example) >= 24 for example in found)
    assert all(count_solutions(parse_grid(example.prompt)) == 1 for example in found)
    assert evaluation_set(task, 8, seed=0) == found[:8]
    assert evaluation_set(task, 8, seed=1) != found[:8]


def test_500_evaluation_puzzles_are_170_170_and_160(task: Sudoku, monkeypatch: pytest.MonkeyPatch) -> None:
    base = sudoku._draw_base(random.Random(0))
    monkeypatch.setattr(sudoku, "_draw_base", lambda rng: base)
    found = evaluation_set(task, 500, seed=0)
    assert Counter(task.group(example) for example in found) == {"easy": 170, "medium": 170, "hard": 160}
    assert {clues_of(example) for example in found} == set(range(24, 51))
    bands: Counter[str] = Counter()
    for n, example in enumerate(found, start=1):
        bands[task.group(example)] += 1
        assert all(
            abs(bands[band] - share * n) < 1 for band, share in (("easy", 0.34), ("medium", 0.34), ("hard", 0.32))
        )


@pytest.mark.parametrize(("clues", "band"), [(24, "hard"), (29, "hard"), (30, "medium"), (39, "medium"), (40, "easy")])
def test_bands(clues: int, band: str) -> None:
    assert clue_band(clues) == band
    assert clues in BANDS[band]


@given(SEEDS, st.integers(0, 4))
@settings(max_examples=20)
def test_solutions_are_counted_as_another_solver_counts_them(task: Sudoku, seed: int, fewer: int) -> None:
    rng = random.Random(seed)
    puzzle = list(parse_grid(Sudoku({30: 1.0}, bases=5).sample(rng).prompt))
    for cell in rng.sample([cell for cell in range(81) if puzzle[cell]], fewer):
        puzzle[cell] = 0
    assert count_solutions(puzzle, limit=5) == slow_count(puzzle, 5)


@given(SEEDS)
@settings(max_examples=40)
def test_a_wrong_clue_leaves_no_solution_or_others(task: Sudoku, seed: int) -> None:
    rng = random.Random(seed)
    example = task.sample(rng)
    puzzle, answer = list(parse_grid(example.prompt)), parse_grid(example.answer)
    cell = rng.randrange(81)
    puzzle[cell] = answer[cell] % 9 + 1
    rest = [*puzzle[:cell], 0, *puzzle[cell + 1 :]]
    expected = slow_count(puzzle, 2) if puzzle[cell] in allowed(rest, cell) else 0
    assert count_solutions(puzzle) == expected
    assert (solve(puzzle) is None) == (expected == 0)


def test_grids_without_and_with_many_solutions() -> None:
    empty = [0] * 81
    assert count_solutions(empty) == 2
    assert count_solutions(empty, limit=30) == 30
    assert count_solutions(empty, limit=0) == 0
    solution = solve(empty)
    assert solution is not None
    assert is_solved(solution)
    assert count_solutions([1, 1, *empty[2:]]) == 0
    assert solve([1, 1, *empty[2:]]) is None
    assert count_solutions([1, *solution[1:8], 1, *solution[9:]]) == 0


@given(SEEDS)
@settings(max_examples=20)
def test_a_dug_puzzle_keeps_its_solution_or_is_given_up(seed: int) -> None:
    rng = random.Random(seed)
    solution = draw_solution(rng)
    assert is_solved(solution)
    puzzle = dig(solution, 30, rng)
    assert puzzle is not None
    assert puzzle.count(0) == 51
    assert solve(puzzle) == solution
    assert slow_count(list(puzzle), 2) == 1
    assert dig(solution, 16, rng) is None


@given(SEEDS)
@settings(max_examples=30)
def test_only_the_solution_is_right(task: Sudoku, seed: int) -> None:
    rng = random.Random(seed)
    example = task.sample(rng)
    assert task.grade(example, f"\n{example.answer} \n")
    digits = list(example.answer)
    place = rng.choice([place for place, digit in enumerate(digits) if digit != "\n"])
    digits[place] = str(int(digits[place]) % 9 + 1)
    for text in ("", example.prompt, "".join(digits), example.answer[:-1], example.answer.replace("\n", "")):
        assert not task.grade(example, text)


def test_counts_of_an_answer(task: Sudoku) -> None:
    example = Sudoku({30: 1.0}, bases=5).sample(random.Random(1))
    assert task.counts(example, example.answer + "\n") == {"blanks right": (51, 51), "clues kept": (30, 30)}
    assert task.counts(example, example.prompt) == {"blanks right": (0, 51), "clues kept": (30, 30)}
    assert task.counts(example, example.answer[:-1]) == {"blanks right": (0, 51), "clues kept": (0, 30)}
    changed = [str(int(digit) % 9 + 1) if digit != "\n" else digit for digit in example.answer]
    assert task.counts(example, "".join(changed)) == {"blanks right": (0, 51), "clues kept": (0, 30)}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0" * 81,
        "\n".join(["0" * 9] * 8),
        "\n".join(["0" * 9] * 10),
        "\n\n".join(["0" * 9] * 9),
        "\n".join(["0" * 9] * 8 + ["00000000"]),
        "\n".join(["0" * 9] * 8 + ["00000000."]),
        "\n".join(["0" * 9] * 8 + ["00000000²"]),
        "\n".join(["0" * 9] * 8 + ["00000000٣"]),
    ],
)
def test_what_is_no_grid_is_refused(text: str) -> None:
    with pytest.raises(DataError, match="nine lines"):
        parse_grid(text)


def test_a_prompt_is_the_puzzle_and_every_cell_and_line_break_a_token(task: Sudoku) -> None:
    example = task.sample(random.Random(0))
    for text in (example.prompt, example.answer):
        assert [len(line) for line in text.split("\n")] == [9] * 9
        assert len(build_tokenizer().encode(text).ids) == 89


def test_the_example_in_the_repository() -> None:
    prompt = (ROOT / "examples" / "puzzle.txt").read_text("utf-8").strip()
    puzzle = parse_grid(prompt)
    assert held_out(prompt)
    assert clue_band(81 - puzzle.count(0)) == "medium"
    assert slow_count(list(puzzle), 2) == 1


def test_drawing_is_fast(task: Sudoku) -> None:
    """Generous: a machine at rest draws some 10,000 puzzles and digs some 80 bases a second."""
    rng = random.Random(0)
    started = time.process_time()
    for _ in range(600):
        task.sample(rng)
    assert time.process_time() - started < 2
    started = time.process_time()
    for index in range(20):
        task.sample_evaluation(rng, index)
    assert time.process_time() - started < 4


@given(SEEDS)
@settings(max_examples=30, deadline=None)
def test_another_form_of_a_puzzle_has_the_same_solution_turned(seed: int) -> None:
    rng = random.Random(seed)
    task = Sudoku(bases=2)
    example = task.sample(rng)
    form = task.augment(example.prompt, rng)
    assert parse_grid(form.prompt).count(0) == parse_grid(example.prompt).count(0)
    solution = solve(parse_grid(form.prompt))
    assert solution is not None
    text = "\n".join("".join(map(str, solution[start : start + 9])) for start in range(0, 81, 9))
    assert task.score(form.prompt, text) == 1
    assert form.restore(text) == form.restore(f" {text}\n") == example.answer
    assert form.restore("no grid") == "no grid"


def test_forms_differ_and_a_seed_gives_one() -> None:
    task = Sudoku(bases=1)
    prompt = task.sample(random.Random(1)).prompt
    forms = {task.augment(prompt, random.Random(seed)).prompt for seed in range(20)}
    assert len(forms) == 20
    assert task.augment(prompt, random.Random(3)).prompt == task.augment(prompt, random.Random(3)).prompt
    with pytest.raises(DataError):
        task.augment("12", random.Random(1))


def slow_singles(grid: list[int]) -> tuple[int, int]:
    """Rounds of naked and hidden singles, cell by cell and unit by unit."""
    rounds = 0
    while True:
        options = {cell: allowed(grid, cell) for cell in range(81) if not grid[cell]}
        found = {cell: min(digits) for cell, digits in options.items() if len(digits) == 1}
        for unit in sudoku.UNITS:
            for digit in range(1, 10):
                places = [cell for cell in unit if cell in options and digit in options[cell]]
                if len(places) == 1:
                    found[places[0]] = digit
        if not found:
            return rounds, len(options)
        rounds += 1
        for cell, digit in found.items():
            grid[cell] = digit


@given(SEEDS)
@settings(max_examples=20, deadline=None)
def test_rounds_of_singles_are_those_of_a_slow_count(seed: int) -> None:
    rng = random.Random(seed)
    puzzle = dig(draw_solution(rng), rng.randrange(26, 40), rng)
    if puzzle is not None:
        assert singles(puzzle) == slow_singles(list(puzzle))


@given(SEEDS)
@settings(max_examples=20, deadline=None)
def test_long_puzzles_are_long_and_have_one_solution(seed: int) -> None:
    example = LongSudoku().sample(random.Random(seed))
    puzzle = parse_grid(example.prompt)
    rounds, blanks = singles(puzzle)
    assert rounds >= ROUNDS or blanks > 0
    assert clues_of(example) in CLUES
    assert count_solutions(puzzle) == 1
    assert solve(puzzle) == parse_grid(example.answer)
