"""Makes the changes of a small Python function that an instruction may ask for, each with its instruction."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from gesso.tasks.code import NUMBER, lone_numbers
from gesso.tasks.skills.functions.forms import Function, draw_literal
from gesso.tasks.skills.lexicon import RESERVED
from gesso.tasks.skills.patterns import Phrasings, read_phrasings
from gesso.tasks.skills.slots import Slots

_OPERATORS = {
    "+": ("add", "plus", "sum"), "-": ("subtract", "minus", "difference"), "*": ("multiply", "times", "product"),
    "/": ("divide", "divided by", "quotient"),
}  # fmt: skip
"""What each does, and is called."""
SIGN = re.compile(r" ([-+*/]) ")
"""An operator between two operands."""
_INVERSE = {">": "<=", "<=": ">", "<": ">=", ">=": "<", "==": "!=", "!=": "=="}
COMPARISON = re.compile(r" (>=|<=|==|!=|>|<) ")
_DECIMAL = re.compile(r"(?<![\w.])\d+\.\d+(?![\w.])")
_TEXT = re.compile(r'"([^"]+)"')
_CALLS = {"min": "max", "max": "min", "upper": "lower", "lower": "upper", "sum": "max", "sorted": "list", "len": "sum",
          "abs": "int", "int": "float", "str": "repr", "strip": "lower", "startswith": "endswith",
          "endswith": "startswith"}  # fmt: skip
_CALL = re.compile(rf"\b({'|'.join(_CALLS)})\(")
_NO_NUMBER = re.compile(
    r'["\[\]<>=]|return -|return \([^()]*,|'
    r"\b(and|or|not|in|is|if|True|False|None|sorted|str|list|split|upper|lower|strip|title|capitalize|isdigit|"
    r"join|startswith|endswith|count)\b"
)
_LOGIC = re.compile(r" (and|or) ")
_ORDINALS = ("first", "second", "third", "fourth", "fifth")
_TYPES = ("int", "float", "str", "list", "bool")
_SENTENCES = ("Returns the {}.", "Return {} and {}.", "The {} of the {}.", "Compute the {}", "{} for {}.", "The {} {}.",
              "Returns True for {}.", "See {}.", "Greets {}.")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Change:
    """Holds how a change is asked for, which functions allow it, and how it is made."""

    phrasings: Phrasings
    allows: Callable[[Function], bool]
    apply: Callable[[Slots, Function, Phrasings], tuple[str, str]]
    weight: float = 1.0

    def make(self, slots: Slots, function: Function) -> tuple[str, str]:
        """Returns an instruction, and the function as it is to be."""
        return self.apply(slots, function, self.phrasings)


def possible_changes(function: Function) -> list[str]:
    """Lists the kinds of changes that a function allows."""
    return [kind for kind, change in KINDS.items() if change.allows(function)]


def _inverted(slots: Slots, function: Function, ask: Phrasings) -> tuple[str, str]:
    answer = COMPARISON.sub(lambda found: f" {_INVERSE[found[1]]} ", function.source, count=1)
    return slots.choice(ask), answer


def _other_operator(slots: Slots, function: Function, ask: Phrasings) -> tuple[str, str]:
    found = SIGN.search(function.source)
    assert found is not None
    old, new = found[1], slots.rng.choice([sign for sign in _OPERATORS if sign != found[1]])
    return operator_request(slots, ask, old, new), SIGN.sub(f" {new} ", function.source)


def operator_request(slots: Slots, ask: Phrasings, old: str, new: str) -> str:
    """Draws the request for another operator, which it names by its sign or in words."""
    nouns = {sign: slots.rng.choice((sign, _OPERATORS[sign][1])) for sign in (old, new)}
    return slots.choice(
        ask, verb=_OPERATORS[new][0], old=_OPERATORS[old][0], sign=nouns[new], oldsign=nouns[old],
        noun=_OPERATORS[new][2], oldnoun=_OPERATORS[old][2],
    )  # fmt: skip


def _other_number(slots: Slots, function: Function, ask: Phrasings) -> tuple[str, str]:
    source, rng = function.source, slots.rng
    old = rng.choice(_changeable(source))
    new = old
    whole = "[" in source
    while new == old:
        decimal = not whole and ("." in old or rng.random() < 0.1)
        new = f"{rng.randint(0, 99)}.{rng.randint(1, 99)}" if decimal else str(slots.number(1 if whole else 4))
    text = slots.choice(ask, old=old, new=new)
    # With other numbers there it must say which.
    while len(_numbers(source)) > 1 and not re.search(rf"(?<!\d){re.escape(old)}(?!\d)", text):
        text = slots.choice(ask, old=old, new=new)
    return text, re.sub(rf"(?<![\w.]){re.escape(old)}(?![\w.])", new, source)


def _renamed(slots: Slots, function: Function, ask: Phrasings) -> tuple[str, str]:
    new = _free(slots, function)
    answer = function.source.replace(f"def {function.name}(", f"def {new}(", 1)
    return slots.choice(ask, old=function.name, new=new), answer


def _other_argument(slots: Slots, function: Function, ask: Phrasings) -> tuple[str, str]:
    old, new = slots.rng.choice(function.parameters), _free(slots, function, parts=1)
    text = slots.choice(ask, old=old, new=new)
    # With several arguments it must say which.
    while len(function.parameters) > 1 and not re.search(rf"(?<!\w){old}(?!\w)", text):
        text = slots.choice(ask, old=old, new=new)
    return text, _with_names(function, {old: new})


def _both_arguments(slots: Slots, function: Function, ask: Phrasings) -> tuple[str, str]:
    a, b = function.parameters[:2]
    c = _free(slots, function, parts=1)
    d = c
    while d == c:
        d = _free(slots, function, parts=1)
    return slots.choice(ask, a=a, b=b, c=c, d=d), _with_names(function, {a: c, b: d})


def _documented(slots: Slots, function: Function, ask: Phrasings) -> tuple[str, str]:
    words = slots.words(2)
    text = slots.rng.choice(_SENTENCES).format(*words)
    text = text[0].upper() + text[1:]
    return slots.choice(ask, text=text), _with_lines(function, f'"""{text}"""')


def _with_default(slots: Slots, function: Function, ask: Phrasings) -> tuple[str, str]:
    old, value = function.parameters[-1], draw_literal(slots)
    head = function.head.removesuffix(f"{old})") + f"{old}={value})"
    return slots.choice(ask, old=old, value=value), function.source.replace(function.head, head, 1)


def _one_more(slots: Slots, function: Function, ask: Phrasings) -> tuple[str, str]:
    new = _free(slots, function, parts=1)
    head = f"{function.name}({', '.join((*function.parameters, new))})"
    place = _ORDINALS[len(function.parameters)]
    return slots.choice(ask, new=new, nth=place), function.source.replace(function.head, head, 1)


def _one_less(slots: Slots, function: Function, ask: Phrasings) -> tuple[str, str]:
    spare = slots.rng.choice(_spare(function))
    head = f"{function.name}({', '.join(p for p in function.parameters if p != spare)})"
    return slots.choice(ask, old=spare), function.source.replace(function.head, head, 1)


def _other_text(slots: Slots, function: Function, ask: Phrasings) -> tuple[str, str]:
    inside = slots.rng.choice([text for text in _TEXT.findall(function.source) if text.strip()])
    old = inside.rstrip(" ,:!") or inside
    new = slots.word()
    if old[0].isupper():
        new = new.capitalize()
    return slots.choice(ask, old=old, new=new), function.source.replace(f'"{inside}"', f'"{inside.replace(old, new)}"')


def _other_call(slots: Slots, function: Function, ask: Phrasings) -> tuple[str, str]:
    found = _CALL.search(function.body)
    assert found is not None
    old, new = found[1], _CALLS[found[1]]
    return slots.choice(ask, old=old, new=new), function.source.replace(f"{old}(", f"{new}(")


def _other_literal(slots: Slots, function: Function, ask: Phrasings) -> tuple[str, str]:
    old = new = function.body.removeprefix("return ")
    while new == old:
        new = {"True": "False", "False": "True"}.get(old) or draw_literal(slots)
    return slots.choice(ask, old=old, new=new), function.source.replace(f"return {old}", f"return {new}")


def _printed(slots: Slots, function: Function, ask: Phrasings) -> tuple[str, str]:
    code = function.body.removeprefix("return ")
    return slots.choice(ask), function.source.replace(f"return {code}", f"print({code})")


def _swapped(slots: Slots, function: Function, ask: Phrasings) -> tuple[str, str]:
    head = f"{function.name}({', '.join(function.parameters[::-1])})"
    return slots.choice(ask), function.source.replace(function.head, head, 1)


def _negated(slots: Slots, function: Function, ask: Phrasings) -> tuple[str, str]:
    code = function.body.removeprefix("return ")
    return slots.choice(ask), function.source.replace(f"return {code}", f"return -{_bracketed(code)}")


def _increased(slots: Slots, function: Function, ask: Phrasings) -> tuple[str, str]:
    number = slots.rng.choice((1, 1, slots.number(3) + 2))
    return slots.choice(ask, n=number), f"{function.source} + {number}"


def _hinted(slots: Slots, function: Function, ask: Phrasings) -> tuple[str, str]:
    kind = slots.rng.choice(_TYPES)
    head = f"{function.name}({', '.join(f'{p}: {kind}' for p in function.parameters)}) -> {kind}"
    return slots.choice(ask, type=kind), function.source.replace(function.head, head, 1)


def _other_logic(slots: Slots, function: Function, ask: Phrasings) -> tuple[str, str]:
    found = _LOGIC.search(function.body)
    assert found is not None
    old, new = found[1], "or" if found[1] == "and" else "and"
    return slots.choice(ask, old=old, new=new), function.source.replace(f" {old} ", f" {new} ")


def _free(slots: Slots, function: Function, parts: int | None = None) -> str:
    """A name that the function does not have."""
    taken = {function.name, *function.parameters, *RESERVED, *re.findall(r"\w+", function.body)}
    while (name := slots.identifier(parts)) in taken:
        pass
    return name


def _with_names(function: Function, names: dict[str, str]) -> str:
    """The function with other names of arguments; texts in quotes and attributes stay."""
    head, tail = function.source.split("(", 1)
    old = "|".join(map(re.escape, names))
    return f"{head}(" + re.sub(rf'(?<!["\w.])({old})(?!["\w])', lambda found: names[found[1]], tail)


def _with_lines(function: Function, line: str) -> str:
    return f"def {function.head}:\n    {line}\n    {function.body}"


def _spare(function: Function) -> list[str]:
    """The parameters that the body does not use, of several."""
    used = re.findall(r"\w+", function.body)
    return [p for p in function.parameters if p not in used] if len(function.parameters) > 1 else []


def _bracketed(code: str) -> str:
    return code if re.fullmatch(r"[\w.]+(\([^()]*\))?", code) else f"({code})"


def _numbers(source: str) -> list[str]:
    return NUMBER.findall(source) + _DECIMAL.findall(source)


def _lone_decimals(source: str) -> list[str]:
    found = _DECIMAL.findall(source)
    return [number for number in found if found.count(number) == 1]


def _changeable(source: str) -> list[str]:
    """Numbers that stand in the source once, without a sign before them: the new one would have to tell of it."""
    return [number for number in lone_numbers(source) + _lone_decimals(source) if f"-{number}" not in source]


def _single(function: Function) -> bool:
    """Whether the body is one returned expression."""
    return function.body.startswith("return ") and "\n" not in function.body


def sums(function: Function) -> bool:
    """Says whether the returned expression is a number, which can be added to or negated."""
    return _single(function) and not _NO_NUMBER.search(function.body)


def _change(
    name: str, allows: Callable[[Function], bool], apply: Callable[..., tuple[str, str]], weight: float
) -> Change:
    return Change(read_phrasings("changes", name), allows, apply, weight)


KINDS: dict[str, Change] = {
    "rename": _change("rename", lambda f: True, _renamed, 1.3),
    "argument": _change("argument", lambda f: bool(f.parameters), _other_argument, 1.3),
    "number": _change("number", lambda f: bool(_changeable(f.source)), _other_number, 2.5),
    "condition": _change("invert", lambda f: bool(COMPARISON.search(f.source)), _inverted, 1.3),
    "operator": _change(
        "operator", lambda f: len(SIGN.findall(f.source)) == 1 and '"' not in f.source, _other_operator, 2.6
    ),
    "both": _change("both", lambda f: len(f.parameters) > 1, _both_arguments, 1.0),
    "docstring": _change("docstring", lambda f: True, _documented, 0.5),
    "default": _change("default", lambda f: bool(f.parameters), _with_default, 0.45),
    "one more": _change("add_parameter", lambda f: True, _one_more, 0.4),
    "one less": _change("drop_parameter", lambda f: bool(_spare(f)), _one_less, 2.0),
    "text": _change("text", lambda f: bool(_TEXT.search(f.source.replace('" "', ""))), _other_text, 2.0),
    "call": _change("call", lambda f: len(_CALL.findall(f.body)) == 1, _other_call, 1.3),
    "literal": _change("literal", lambda f: not f.parameters, _other_literal, 3.0),
    "print": _change("print", _single, _printed, 0.35),
    "swap": _change("swap", lambda f: len(f.parameters) == 2, _swapped, 0.7),
    "negate": _change("negate", sums, _negated, 0.8),
    "plus": _change("plus", lambda f: sums(f) and bool(f.parameters), _increased, 0.5),
    "hints": _change("hints", lambda f: bool(f.parameters), _hinted, 0.3),
    "logic": _change("logic", lambda f: len(_LOGIC.findall(f.body)) == 1, _other_logic, 2.0),
}
"""The changes by kind, and how often each is asked for where several are possible."""
