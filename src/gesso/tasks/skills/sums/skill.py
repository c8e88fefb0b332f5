"""Asks to add, subtract and multiply numbers of up to four digits, in signs or in words."""

import dataclasses
import random
import re
from collections.abc import Callable
from typing import ClassVar

from gesso.tasks.base import Example
from gesso.tasks.skills.layouts import draw_layout
from gesso.tasks.skills.numerals import as_said, spell
from gesso.tasks.skills.patterns import read_phrasings, with_small_letter
from gesso.tasks.skills.skill import Skill
from gesso.tasks.skills.slots import Slots
from gesso.tasks.skills.sums.expressions import draw_expression
from gesso.tasks.skills.sums.kinds import KINDS, PHRASINGS
from gesso.tasks.skills.sums.numbers import draw_factors, draw_small, draw_terms

_SIGNS = read_phrasings("sums", "signs")
_PLUS = read_phrasings("sums", "plus")
_MINUS = read_phrasings("sums", "minus")
_TIMES = read_phrasings("sums", "times")
_SEVERAL = read_phrasings("sums", "several")
_FACTOR = read_phrasings("sums", "factor")
_STORY = read_phrasings("sums", "story")
_TOGETHER = read_phrasings("sums", "together")
_THREE = read_phrasings("sums", "three")
_TOLD = read_phrasings("sums", "told")
_FACTORS = {
    "double": 2, "triple": 3, "twice": 2, "three times": 3, "half of": 1, "half": 1, "four times": 4, "five times": 5,
    "ten times": 10,
}  # fmt: skip
_WORDS = {"+": _PLUS, "-": _MINUS, "*": _TIMES}
_SIGN_WEIGHTS = (0.4, 0.4, 0.2)
_TRAINED_SIGN_WEIGHTS = (0.34, 0.41, 0.25)
"""Products are learned last."""
_SPELLED, _TRAINED_SPELLED = 0.15, 0.3
"""Shares of numbers below 1,000 that are written in words; they are learned later than digits."""
_OTHERS = {
    "several": 0.06, "factor": 0.025, "story": 0.03, "longer": 0.02, "together": 0.085, "expression": 0.075,
    **{kind: share for kind, (share, _) in KINDS.items()},
}  # fmt: skip
_OTHER_SHARE = 0.65
"""Share of sums of several numbers, multiples, stories, expressions with several signs, and what else is asked."""
_TYPICAL_SHARE = 0.5
"""Share of two numbers that are such as people ask about; the others are of every length alike."""
_UPRIGHT = 0.55
"""Share of differences below zero that are turned round: most of those that people ask for are above it."""
_SHOWN = {"*": ("*", "*", "x", "\u00d7"), "-": (*"-" * 12, "\u2212", "\u2013")}
"""What a sign may look like."""
_COMMA_SHARE = 0.2
"""Numbers of four digits in signs with a comma behind the thousands."""
_TOLD_SHARE = 0.12
_CODE = re.compile(r"[`;<>$_]|print|eval|[:=]\s*$|\n")
"""Requests that take no word on how to answer behind them."""
_AS_TYPED = re.compile(r"df\.|x = |print|int\(|mean\(|avg\(|statistics|sqrt|SELECT")
"""Code, which keeps the letters that it begins with."""
_ROUND = 0.15
"""Numbers in training that end in zeros, as those that people ask about often do."""
_BELOW_ZERO = re.compile(r"minus|subtract|\bsub\b|\bless\b|take away|deduct|degrees", re.IGNORECASE)
"""Wordings of a difference that may be negative."""
_ONE_OF_MANY = re.compile(
    r"\b(?:0|1|zero|one) (?!plus|minus|times|less|is\b|has|was|class|equals|gives|makes|comes|gets|goes|takes"
    r"|becomes|this|pls|results|adds)(?:[a-z]+s|get|are|were|people|children|sheep|men|women)\b"
)
"""One or none of a thing that the sentence has several of."""


class Sums(Skill):
    """Asks such as `what is 4810 plus 296` -> `5106`; `Multiply 12 by seven.` -> `84`."""

    name = "sums"
    phrasings: ClassVar = {
        "signs": _SIGNS, "plus": _PLUS, "minus": _MINUS, "times": _TIMES, "several": _SEVERAL, "factor": _FACTOR,
        "story": _STORY, "together": _TOGETHER, "three": _THREE, "told": _TOLD, **PHRASINGS,
    }  # fmt: skip

    def draw(self, slots: Slots) -> Example:
        """Draws a sum; some say how the answer is wanted."""
        example = self._other(slots) if slots.rng.random() < _OTHER_SHARE else self._two(slots)
        if slots.rng.random() >= _TOLD_SHARE or _CODE.search(example.prompt):
            return example
        whole, bare = example.prompt.rstrip(), example.prompt.rstrip(".?! ")
        if whole[-1] not in ".?!":
            whole += "."
        return dataclasses.replace(example, prompt=slots.choice(_TOLD, ask=whole, bare=bare))

    def _two(self, slots: Slots) -> Example:
        """Draws a sum, a difference or a product of two numbers, in signs or in words."""
        rng = slots.rng
        sign = rng.choices("+-*", _SIGN_WEIGHTS if slots.unseen else _TRAINED_SIGN_WEIGHTS)[0]
        a, b = _two_numbers(slots, sign)
        answer = str(a + b if sign == "+" else a - b if sign == "-" else a * b)
        most = 10_000 if rng.random() < 0.3 else 1000
        spelled = a < most and b < most and rng.random() < (_SPELLED if slots.unseen else _TRAINED_SPELLED)
        shown = [as_said(spell(n), rng) if spelled else str(n) for n in (a, b)]
        if not spelled and rng.random() < 0.5:
            return Example(self.name, _in_signs(slots, a, sign, b), answer, kind=slots.kind(f"{sign} in signs"))
        before = rng.getstate()
        prompt = slots.question(_WORDS[sign], a=shown[0], b=shown[1], name=slots.first_name())
        if sign == "-" and a < b and not _BELOW_ZERO.search(prompt):
            # The same sentence with the larger number first: nobody eats more plums than there were.
            rng.setstate(before)
            prompt, answer = slots.question(_MINUS, a=shown[1], b=shown[0], name=slots.first_name()), str(b - a)
        if (spelled and prompt.startswith("=")) or (min(a, b) < 2 and _ONE_OF_MANY.search(prompt)):
            return self._two(slots)
        if spelled:
            prompt = prompt.replace(f"{shown[0]} {shown[1]}", f"{shown[0]}, {shown[1]}")
        if spelled and rng.random() < 0.3:
            prompt = prompt[0].upper() + prompt[1:]
        return Example(self.name, prompt, answer, kind=slots.kind(f"{sign} in words"))

    def _other(self, slots: Slots) -> Example:
        """Draws of several numbers, multiples, stories, expressions, or what is told step by step."""
        kind = slots.rng.choices(tuple(_OTHERS), tuple(_OTHERS.values()))[0]
        drawn = {
            "several": self._several, "factor": self._factor, "story": self._story, "longer": self._longer,
            "together": self._together, "expression": self._whole_expression,
        }.get(kind)  # fmt: skip
        if drawn:
            return drawn(slots)
        prompt, answer = KINDS[kind][1](slots, _writer(slots, 0.3 if kind in ("chain", "dozens") else 0.15))
        if _AS_TYPED.match(prompt):
            return Example(self.name, prompt, answer, kind=slots.kind(kind))
        if slots.rng.random() < 0.15:
            prompt = with_small_letter(prompt)
        elif slots.rng.random() < 0.4:
            prompt = prompt[0].upper() + prompt[1:]
        return Example(self.name, prompt, answer, kind=slots.kind(kind))

    def _whole_expression(self, slots: Slots) -> Example:
        expression, value = draw_expression(slots.rng)
        return Example(self.name, _shown(slots, expression), str(value), kind=slots.kind("expression"))

    def _together(self, slots: Slots) -> Example:
        """Three to five small numbers, in digits or in words, within a sentence or as a list."""
        rng = slots.rng
        numbers = [draw_small(rng, 1) for _ in range(rng.choice((3, 3, 3, 3, 4, 4, 5)))]
        if rng.random() < 0.25:
            expression = " + ".join(map(str, numbers))
            return Example(self.name, _shown(slots, expression), str(sum(numbers)), kind=slots.kind("together"))
        shown = list(map(_writer(slots, 0.2), numbers))
        if len(shown) == 3 and rng.random() < 0.4:
            first, second, third = shown
            text = slots.question(_THREE, a=first, b=second, c=third, name=slots.first_name(), other=slots.first_name())
        elif rng.random() < 0.4:
            text = slots.request(_SEVERAL, _written(rng, shown))
        else:
            data = {"plus": " plus ".join(shown), "and": f"{', '.join(shown[:-1])} and {shown[-1]}"}
            text = slots.question(
                _TOGETHER, **data, commas=", ".join(shown), lines="\n".join(shown), **_listed(numbers)
            )
        return Example(self.name, text, str(sum(numbers)), kind=slots.kind("together"))

    def _several(self, slots: Slots) -> Example:
        rng = slots.rng
        digits = rng.choice((2, 2, 3))
        numbers = [_number(slots, rng.randint(1, digits)) for _ in range(rng.choice((3, 3, 3, 4, 5)))]
        if rng.random() < 0.3:
            text = _expression(slots, " + ".join(map(str, numbers[:-1])), "+", numbers[-1])
        else:
            text = slots.request(_SEVERAL, _written(rng, list(map(str, numbers))))
        return Example(self.name, text, str(sum(numbers)), kind=slots.kind("several"))

    def _factor(self, slots: Slots) -> Example:
        word, times = slots.rng.choice(tuple(_FACTORS.items()))
        number = _number(slots, slots.rng.randint(1, 4)) if slots.rng.random() < 0.5 else draw_small(slots.rng, 1)
        answer = number // 2 if times == 1 else number * times
        number = answer * 2 if times == 1 else number
        return Example(
            self.name, slots.frame(slots.choice(_FACTOR, word=word, a=number)), str(answer), kind=slots.kind("factor")
        )

    def _story(self, slots: Slots) -> Example:
        """Something comes and something goes, in the order that the pattern begins with."""
        rng = slots.rng
        a, b, c = (_number(slots, rng.randint(1, 2)) for _ in range(3))
        text = slots.choice(_STORY, a=a, b=b, c=c, name=slots.first_name())
        signs, text = text[:2], text[2:].lstrip()
        if a < (b if signs == "-+" else c) or 0 in (a, b, c) or (1 in (a, b, c) and _ONE_OF_MANY.search(text)):
            return self._story(slots)
        answer = a + b - c if signs == "+-" else a - b + c
        return Example(self.name, text, str(answer), kind=slots.kind("story"))

    def _longer(self, slots: Slots) -> Example:
        rng = slots.rng
        a, b, c = (_number(slots, rng.randint(1, 2)) for _ in range(3))
        left, value, right = rng.choice((
            (f"{a} + {b} *", a + b * (c % 10), c % 10), (f"({a} + {b}) *", (a + b) * (c % 10), c % 10),
            (f"{a} * {b % 10} +", a * (b % 10) + c, c), (f"{a} + {b} -", a + b - c, c),
            (f"{a} * {b % 10} -", a * (b % 10) - c, c),
        ))  # fmt: skip
        left, sign = left.rsplit(" ", 1)
        return Example(self.name, _expression(slots, left, sign, right), str(value), kind=slots.kind("longer"))


def _in_signs(slots: Slots, a: int, sign: str, b: int) -> str:
    """A question with two numbers, now and then with a comma behind the thousands."""
    shown = slots.rng.choice(_SHOWN.get(sign, sign))
    if max(a, b) < 1000 or slots.rng.random() >= _COMMA_SHARE:
        return slots.question(_SIGNS, a=a, b=b, s=shown)
    while True:
        text = slots.question(_SIGNS, a=f"{a:,}", b=f"{b:,}", s=shown)
        if not _CODE.search(text):
            return text


def _written(rng: random.Random, numbers: list[str]) -> str:
    """Writes numbers as a list, between signs that are none of a calculation."""
    layout = draw_layout(rng)
    while layout.separator in (" - ", " / "):
        layout = draw_layout(rng)
    return layout.write(numbers)


def _listed(numbers: list[int]) -> dict[str, str]:
    """Writes numbers as lists that patterns cannot have in brackets of their own, and as bullets."""
    found = list(map(str, numbers))
    return {"list": f"[{', '.join(found)}]", "bullets": "\n".join(f"- {number}" for number in found)}


def _expression(slots: Slots, left: str, sign: str, right: object) -> str:
    """A question that has the whole expression in one piece."""
    while True:
        text = slots.question(_SIGNS, a=left, b=right, s=sign)
        if f"{left} {sign} {right}" in text or f"{left}{sign}{right}" in text:
            return text


def _shown(slots: Slots, expression: str) -> str:
    """A question with a whole expression, with spaces or without, and one of the signs of a product."""
    left, sign, right = expression.rsplit(" ", 2)
    text = _expression(slots, left, sign, right)
    tight = f"{left}{sign}{right}" in text or slots.rng.random() < 0.15
    shown = expression.replace(" ", "") if tight else expression
    shown = shown.replace("*", slots.rng.choice(_SHOWN["*"]))
    return text.replace(f"{left} {sign} {right}", shown).replace(f"{left}{sign}{right}", shown)


def _writer(slots: Slots, share: float) -> Callable[[int], str]:
    """What writes numbers in digits, or those below a hundred in words."""
    if slots.rng.random() >= share:
        return str
    return lambda number: as_said(spell(number), slots.rng) if number <= 100 else str(number)


def _two_numbers(slots: Slots, sign: str) -> tuple[int, int]:
    """Draws numbers of one to four digits; of a product, so that both have five digits together at most."""
    rng = slots.rng
    longest = rng.choices((1, 2, 3, 4), (0.1, 0.3, 0.35, 0.25))[0]
    if sign == "*":
        first, second = rng.choice(((1, 1), (2, 1), (2, 1), (1, 2), (1, 2), (2, 2), (3, 1), (1, 3), (4, 1)))
    else:
        first, second = longest, rng.randint(1, longest)
        if rng.random() < 0.5:
            second = longest
        if rng.random() < 0.25:
            first, second = second, first
    a, b = _number(slots, first), _number(slots, second)
    if rng.random() < _TYPICAL_SHARE:
        a, b = draw_factors(rng) if sign == "*" else draw_terms(rng)
        if rng.random() < (0.5 if sign == "+" else 0.1):
            a, b = b, a
    return (b, a) if sign == "-" and a < b and rng.random() < _UPRIGHT else (a, b)


def _number(slots: Slots, digits: int) -> int:
    number = slots.rng.randint(0 if digits == 1 else 10 ** (digits - 1), 10**digits - 1)
    if not slots.unseen and digits > 1 and slots.rng.random() < _ROUND:
        step: int = 10 ** slots.rng.randint(1, digits - 1)
        return number // step * step
    return number
