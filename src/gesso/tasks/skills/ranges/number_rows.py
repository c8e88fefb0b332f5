"""Draws rows of numbers: by tens, down in steps, with a point, as Python counts, after another, padded, in words."""

from collections.abc import Callable
from decimal import Decimal

from gesso.tasks.skills.layouts import COMMAS, LINES, SPACES, Layout
from gesso.tasks.skills.numerals import as_said, spell
from gesso.tasks.skills.patterns import Phrasings, read_phrasings
from gesso.tasks.skills.ranges.rows import Row, draw_border
from gesso.tasks.skills.slots import Slots

NUMBER_PHRASINGS: dict[str, Phrasings] = {
    name: read_phrasings(file, name)
    for file, names in (
        ("ranges", ("by", "steps down", "decimals", "python", "after", "padded", "in digits", "in words")),
        ("ranges_kinds", ("either", "doubling")),
    )
    for name in names
}
_BRACKETS = Layout(", ", whole="[{}]")
_LAYOUTS = {"brackets": _BRACKETS, "commas": COMMAS, "spaces": SPACES, "lines": LINES}
_BY = {
    2: ("twos", "second"), 3: ("threes", "third"), 4: ("fours", "fourth"), 5: ("fives", "fifth"), 6: ("sixes", "sixth"),
    7: ("sevens", "seventh"), 8: ("eights", "eighth"), 9: ("nines", "ninth"), 10: ("tens", "tenth"),
    20: ("twenties", "twentieth"), 50: ("fifties", "fiftieth"), 100: ("hundreds", "hundredth"),
}  # fmt: skip
_BY_STEPS = (2, 2, 3, 3, 4, 5, 5, 5, 6, 7, 8, 9, 10, 10, 10, 20, 50, 100, 100)
_DECIMAL_STEPS = ("0.1", "0.1", "0.2", "0.25", "0.25", "0.3", "0.5", "0.5", "0.5", "0.05", "0.01", "0.75", "1.5", "2.5")
_DOWN_SHARE, _SAME_SHARE = 0.65, 0.08


def _row(start: int, step: int, count: int) -> list[int]:
    return [start + i * step for i in range(count)]


def _length(slots: Slots, most: int = 11) -> int:
    return slots.rng.randint(3, most)


def _by(slots: Slots) -> Row:
    step, rng = slots.rng.choice(_BY_STEPS), slots.rng
    start = step * rng.randint(0, 12) if rng.random() < 0.75 else rng.randint(1, 99)
    up = list(map(str, _row(start, step, _length(slots))))
    name, nth = _BY[step]
    if rng.random() < 0.2:
        name = f"{step}s"
    if step == 2 and rng.random() < 0.4:
        nth = "other"
    values: dict[str, object] = {"a": up[0], "b": up[-1], "by": name, "nth": nth}
    return Row(NUMBER_PHRASINGS["by"], up, values, {"up": (up, None), "down": (up[::-1], None)})


def _steps_down(slots: Slots) -> Row:
    rng = slots.rng
    step = rng.choice((2, 3, 4, 5, 5, 6, 7, 8, 9, 10, 10, 15, 20, 25, 50, 100, 100, 200, 250, 500))
    start = step * rng.randint(0, 5) if rng.random() < 0.6 else rng.randint(-step * 2, 200)
    down = list(map(str, _row(start, step, _length(slots, 10))))[::-1]
    return Row(NUMBER_PHRASINGS["steps down"], down, {"a": down[0], "b": down[-1], "s": step})


def _decimals(slots: Slots) -> Row:
    rng = slots.rng
    step = Decimal(rng.choice(_DECIMAL_STEPS))
    start = rng.choice((Decimal(0), Decimal(1), Decimal(rng.randint(-3, 20)), step * rng.randint(-4, 30)))
    pointed = rng.random() < 0.4
    up = [_decimal(start + i * step, pointed=pointed) for i in range(_length(slots, 9))]
    values: dict[str, object] = {"s": str(step), "a": up[0], "b": up[-1]}
    return Row(NUMBER_PHRASINGS["decimals"], up, values, {"up": (up, None), "down": (up[::-1], None)})


def _decimal(number: Decimal, *, pointed: bool) -> str:
    """Writes a number without zeros at its end, but for one behind the point where all have a point."""
    text = f"{number.normalize() + 0:f}"
    return f"{text}.0" if pointed and "." not in text else text


def _python(slots: Slots) -> Row:
    rng = slots.rng
    step = rng.choice((1, 1, 1, 2, 2, 3, 4, 5, 10, 20, 100, -1, -1, -2, -3, -5, -10))
    start = rng.choice((0, 0, 1, rng.randint(0, 20), rng.randint(-5, 120)))
    count = rng.randint(2, 10)
    if step < 0:
        start += -step * count
    stop = start + step * count - (rng.randint(0, abs(step) - 1) * (1 if step > 0 else -1))
    numbers = list(range(start, stop, step))
    given = f"{start}, {stop}" if start or step != 1 or rng.random() < 0.3 else f"{stop}"
    given += f", {step}" if step != 1 or (", " in given and rng.random() < 0.08) else ""
    if rng.random() < 0.2:
        given = given.replace(" ", "")
    found = list(map(str, numbers))
    last = f"{start} {numbers[-1]}" if step == 1 else f"{start} {step} {numbers[-1]}"
    values: dict[str, object] = {"r": f"range({given})", "seq": f"seq {last}"}
    return Row(NUMBER_PHRASINGS["python"], found, values, {name: (found, layout) for name, layout in _LAYOUTS.items()})


def _after(slots: Slots) -> Row:
    rng = slots.rng
    start = rng.choice((rng.randint(1, 100), slots.number(4), 10 ** rng.randint(1, 5) - rng.randint(1, 4)))
    count = rng.randint(2, 9)
    number = spell(count) if rng.random() < 0.3 else str(count)
    after, before = _row(start + 1, 1, count), _row(start - 1, -1, count)
    flags: dict[str, tuple[list[str], Layout | None]] = {
        "after": (list(map(str, after)), None),
        "next": ([str(start + 1)], None),
        "between": (list(map(str, after)), None),
        "before": (list(map(str, before)), None),
    }
    return Row(
        NUMBER_PHRASINGS["after"], [], {"n": number, "a": start, "b": start + count + 1, "next": start + 1}, flags
    )


def _padded(slots: Slots) -> Row:
    rng = slots.rng
    width = rng.choice((2, 3, 3, 3, 4, 5))
    first = rng.choice((1, rng.randint(1, 12), rng.randint(6, 10), rng.randint(1, 10 ** (width - 1)), 96))
    numbers = _row(first, 1, rng.randint(3, 9))
    width = max(width, len(str(numbers[-1])))
    found = [f"{number:0{width}}" for number in numbers]
    plain: dict[str, object] = {"p": numbers[0], "q": numbers[-1], "w": rng.choice((width, spell(width)))}
    return Row(NUMBER_PHRASINGS["padded"], found, {"a": found[0], "b": found[-1], **plain})


def _in_digits(slots: Slots) -> Row:
    start = slots.rng.choice((slots.rng.randint(0, 20), slots.rng.randint(1, 95), slots.rng.randint(90, 900)))
    numbers = _row(start, 1, _length(slots, 9))
    found = list(map(str, numbers))
    values: dict[str, object] = {
        "a": as_said(spell(numbers[0]), slots.rng),
        "b": as_said(spell(numbers[-1]), slots.rng),
    }
    return Row(NUMBER_PHRASINGS["in digits"], found, values, {"up": (found, None), "down": (found[::-1], None)})


def _in_words(slots: Slots) -> Row:
    start = slots.rng.choice((1, slots.rng.randint(0, 12), slots.rng.randint(1, 60)))
    numbers = _row(start, 1, slots.rng.randint(2, 8))
    found = list(map(spell, numbers))
    values: dict[str, object] = {"a": numbers[0], "b": numbers[-1]}
    return Row(NUMBER_PHRASINGS["in words"], found, values, {"up": (found, None), "down": (found[::-1], None)})


def _either(slots: Slots) -> Row:
    """Whole numbers from one to another that is most often smaller, or now and then the same."""
    rng = slots.rng
    count = rng.randint(2, rng.choice((5, 8, 12)))
    first = rng.choice((rng.randint(0, 30), rng.randint(1, 100), slots.number(4), draw_border(rng, count)))
    if rng.random() < _SAME_SHARE:
        count = 1
    found = [str(first + i) for i in range(count)]
    if rng.random() < _DOWN_SHARE:
        found.reverse()
    return Row(NUMBER_PHRASINGS["either"], found, {"a": found[0], "b": found[-1]})


def _doubling(slots: Slots) -> Row:
    first, count = slots.rng.choice((1, 1, 2, 3, 4, 5, slots.rng.randint(2, 12))), slots.rng.randint(3, 7)
    found = [str(first * 2**i) for i in range(count)]
    return Row(NUMBER_PHRASINGS["doubling"], found, {"a": found[0], "b": found[-1], "n": count})


NUMBER_ROWS: dict[str, Callable[[Slots], Row]] = {
    "by": _by, "steps down": _steps_down, "decimals": _decimals, "python": _python, "after": _after,
    "padded": _padded, "in digits": _in_digits, "in words": _in_words, "either": _either, "doubling": _doubling,
}  # fmt: skip
"""What draws each kind."""
