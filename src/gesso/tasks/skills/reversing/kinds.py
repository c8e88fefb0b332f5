"""Draws what is reversed beside words of a list and letters of a word: the letters of each word, of codes, numbers and
phrases, lines of text, rows of numbers, and what stands in code."""

from gesso.tasks.skills.entries import OF_WORDS
from gesso.tasks.skills.layouts import COMMAS, LINES, SPACES, TIGHT, Layout
from gesso.tasks.skills.patterns import read_phrasings
from gesso.tasks.skills.placing import placed_request
from gesso.tasks.skills.slots import Slots
from gesso.tasks.skills.things import draw_code

MORE_SECTIONS = {
    name: read_phrasings("reversing", name)
    for name in ("each", "codes", "digits", "phrases", "lines", "list code", "text code", "runs")
}
_WORDS = read_phrasings("reversing", "words")
_OF_TEXT = r"\bsentence\b|\bphrase\b|\bnumbers\b|\bvalues\b|\bfigures\b"
_TURN = "[::-1]"
"""Stands in a value, as its brackets would be a choice in a pattern."""
_EACH = (SPACES, SPACES, SPACES, COMMAS, COMMAS, LINES, LINES, Layout("; "), Layout(" / "), Layout("\n", item="- {}"))


def each_word(slots: Slots) -> tuple[str, str]:
    """Turns the letters of every word, and leaves the words where they are."""
    rng = slots.rng
    layout = rng.choice(_EACH)
    if layout == SPACES and rng.random() < 0.3:
        given = [word.lower() for word in slots.plain_sentence()][: rng.randint(3, 6)]
    else:
        given = slots.words(rng.choices((2, 3, 4, 5), (0.3, 0.35, 0.25, 0.1))[0])
        if rng.random() < 0.1:
            given = [word.capitalize() for word in given]
    prompt = placed_request(
        slots, MORE_SECTIONS["each"], layout.write(given), count=len(given), loose=layout == SPACES,
        joint=layout.separator,
    )  # fmt: skip
    return prompt, layout.answer([word[::-1] for word in given])


def code_letters(slots: Slots) -> tuple[str, str]:
    """Turns the characters of a code, an identifier or an address; its signs keep none of their places."""
    code = draw_code(slots)
    return placed_request(slots, MORE_SECTIONS["codes"], code), code[::-1]


def digits(slots: Slots) -> tuple[str, str]:
    """Turns the digits of a number."""
    rng = slots.rng
    number = str(slots.number(rng.choice((3, 5, 7))) * 10 + rng.randint(0, 9) + 10)
    return placed_request(slots, MORE_SECTIONS["digits"], number), number[::-1]


def phrase_letters(slots: Slots) -> tuple[str, str]:
    """Turns all characters of a few words, spaces among them."""
    rng = slots.rng
    form = rng.random()
    if form < 0.45:
        phrase = " ".join(slots.words(rng.choices((2, 3), (0.75, 0.25))[0]))
    elif form < 0.65:
        phrase = f"{slots.stem()} {slots.number(3)}"
    elif form < 0.85:
        phrase = " ".join(word.capitalize() for word in slots.words(2))
    else:
        phrase = " ".join(slots.plain_sentence()[: rng.randint(3, 4)])
    return placed_request(slots, MORE_SECTIONS["phrases"], phrase, loose=True), phrase[::-1]


def lines(slots: Slots) -> tuple[str, str]:
    """Turns the order of lines of text; what is in them stays."""
    rng = slots.rng
    layout = LINES if rng.random() < 0.8 else Layout("\n\n")
    count = rng.randint(2, 4)
    if rng.random() < 0.3:
        given = [slots.prose() for _ in range(2)]
    else:
        given = [" ".join(slots.plain_sentence()[: rng.choice((2, 3, 4, 5, 7))]) for _ in range(count)]
    prompt = placed_request(slots, MORE_SECTIONS["lines"], layout.write(given), count=count)
    return prompt, layout.answer(given[::-1])


def text_code(slots: Slots) -> tuple[str, str]:
    """Draws a text in Python, or another language, that is turned."""
    rng = slots.rng
    text = rng.choice((slots.word(), slots.word(), " ".join(slots.words(2)), slots.identifier()))
    quoted = rng.choice(("'{}'", '"{}"')).format(text)
    prompt = slots.choice(MORE_SECTIONS["text code"], text=quoted, name=slots.identifier(1), turn=_TURN)
    return prompt, text[::-1]


def list_code(slots: Slots) -> tuple[str, str]:
    """Draws a list in Python, or another language, that is turned."""
    rng = slots.rng
    if rng.random() < 0.5:
        given = [str(number) for number in slots.numbers(rng.randint(3, 6), rng.choice((1, 2, 3)))]
    else:
        quote = rng.choice(("'", '"'))
        given = [f"{quote}{word}{quote}" for word in slots.words(rng.randint(2, 5))]
    joint = "," if rng.random() < 0.25 else ", "
    text = f"[{joint.join(given)}]"
    prompt = slots.choice(MORE_SECTIONS["list code"], list=text, name=slots.identifier(1), turn=_TURN)
    return prompt, f"[{joint.join(given[::-1])}]"


def runs(slots: Slots) -> tuple[str, str]:
    """Turns a row of numbers in equal steps, which counts down then, or of letters."""
    rng = slots.rng
    layout = rng.choice((SPACES, SPACES, SPACES, COMMAS, COMMAS, COMMAS, TIGHT, LINES, Layout(" - "), Layout("; ")))
    count = rng.randint(3, 10)
    if rng.random() < 0.15:
        first = ord(rng.choice("aA")) + rng.randint(0, 26 - count)
        given = [chr(first + place) for place in range(count)]
    else:
        first, step = rng.choice((1, 1, 1, 0, rng.randint(2, 30))), rng.choice((1, 1, 1, 1, 2, 5, 10))
        first = step if step > 2 else first
        given = [str(first + step * place) for place in range(count)]
    of_runs = given[0].isdigit() and rng.random() < 0.5
    section, without = (MORE_SECTIONS["runs"], "") if of_runs else (_WORDS, f"{OF_WORDS}|word|{_OF_TEXT}")
    prompt = placed_request(slots, section, layout.write(given), count=count, without=without, joint=layout.separator)
    return prompt, layout.answer(given[::-1])


MORE_KINDS = {
    "runs": runs,
    "letters of each": each_word,
    "letters of codes": code_letters,
    "letters of numbers": digits,
    "letters of phrases": phrase_letters,
    "lines": lines,
    "letters in code": text_code,
    "code": list_code,
}
