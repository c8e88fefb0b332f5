"""Asks to write the dates of lists, sentences, tables and code in another form."""

import datetime
import json
from collections.abc import Callable

from gesso.tasks.skills.dates.draws import draw_date
from gesso.tasks.skills.dates.forms import DateForm, draw_form
from gesso.tasks.skills.layouts import Layout
from gesso.tasks.skills.patterns import read_phrasings
from gesso.tasks.skills.slots import Slots

_SEVERAL = read_phrasings("dates", "several")
_SEVERAL_ISO = read_phrasings("dates", "several iso")
_INSIDE = read_phrasings("dates", "inside")
_INSIDE_ISO = read_phrasings("dates", "inside iso")
_FOUND = read_phrasings("dates", "found")
_SENTENCES = read_phrasings("dates", "sentences")
_SPANS = read_phrasings("dates", "spans")
TEXTS = {
    "several": _SEVERAL, "several iso": _SEVERAL_ISO, "inside": _INSIDE, "inside iso": _INSIDE_ISO, "found": _FOUND,
    "sentences": _SENTENCES, "spans": _SPANS,
}  # fmt: skip
_WITHIN = r"\w \{data\}[ ,]|\{data\}[.:]"
"""Places within a request, where a sentence without quotes has no end that is seen, or a mark too many."""
_LAYOUTS = (
    (Layout("\n"), 0.34), (Layout("; "), 0.24), (Layout(", "), 0.2), (Layout("\n", item="- {}"), 0.07),
    (Layout(" | "), 0.05), (Layout("\n", item="* {}"), 0.03), (Layout(" / "), 0.02), (Layout("\n\n"), 0.01),
    (Layout(", ", last=" and "), 0.04),
)  # fmt: skip
_KEYS = ("date", "date", "due", "start", "end", "born", "created", "updated", "birthday", "expires", "deadline", "when")


def several_dates(slots: Slots) -> tuple[str, str, str]:
    """Asks for two to five dates at once, of one form or of many, which come back as they are laid out."""
    rng = slots.rng
    layout = rng.choices([layout for layout, _ in _LAYOUTS], [share for _, share in _LAYOUTS])[0]
    dates = [draw_date(rng) for _ in range(rng.choices((2, 3, 4, 5), (0.3, 0.4, 0.2, 0.1))[0])]
    mixed = rng.random() < 0.25
    one = draw_form(rng, given=True)
    while True:
        olds = [draw_form(rng, given=True, date=date) if mixed else one for date in dates]
        new = draw_form(rng)
        forms = [*olds, new]
        clear = "," not in layout.separator or not any("," in form.pattern for form in forms)
        if layout.separator == " / ":
            clear = not any("/" in form.pattern for form in forms)
        if clear and not any(old.pattern == new.pattern for old in olds):
            break
        one = draw_form(rng, given=True)
    given = layout.write([old.write(date) for old, date in zip(olds, dates, strict=True)])
    asks = _SEVERAL_ISO if new.is_iso and rng.random() < 0.4 else _SEVERAL
    prompt = slots.request(asks, given, form=new.name(rng))
    return prompt, layout.answer([new.write(date) for date in dates]), "several"


def dates_inside(slots: Slots) -> tuple[str, str, str]:
    """Asks for a text in which the date has another form, or for the date of a text in a form."""
    rng = slots.rng
    draw = rng.choices((_sentence, _span, _json, _pair, _row, _code), (0.42, 0.1, 0.16, 0.1, 0.12, 0.1))[0]
    one = draw_date(rng)
    other = one + datetime.timedelta(rng.randint(1, 60))
    write, comma = draw(slots)
    old = draw_form(rng, given=True)
    new = draw_form(rng)
    while new.pattern == old.pattern or (not comma and "," in old.pattern + new.pattern):
        old, new = draw_form(rng, given=True), draw_form(rng)
    if draw is not _span and rng.random() < 0.22:
        prompt = slots.request(_FOUND, write(old, one, other), form=new.name(rng))
        return prompt, new.write(one), "found"
    quote = '"{}"' if draw is _sentence and rng.random() < 0.4 else "{}"
    dates = "dates" if draw is _span else "date"
    asks = _INSIDE_ISO if new.is_iso and rng.random() < 0.4 else _INSIDE
    without = _WITHIN if draw in (_sentence, _span) and quote == "{}" else ""
    prompt = slots.request(asks, quote.format(write(old, one, other)), without=without, form=new.name(rng), date=dates)
    return prompt, quote.format(write(new, one, other)), "inside"


_Writer = tuple[Callable[[DateForm, datetime.date, datetime.date], str], bool]
"""Writes the text with the dates in a form; and whether the form may have a comma."""


def _sentence(slots: Slots) -> _Writer:
    text = _worded(slots, spans=False)
    return lambda form, one, _: text.replace("<one>", form.write(one)), True


def _span(slots: Slots) -> _Writer:
    text = _worded(slots, spans=True)
    return lambda form, one, other: text.replace("<one>", form.write(one)).replace("<two>", form.write(other)), True


def _worded(slots: Slots, *, spans: bool) -> str:
    names = {"name": slots.first_name(), "other": slots.first_name(), "city": slots.city(), "word": slots.word()}
    text = slots.choice(
        _SPANS if spans else _SENTENCES, a="<one>", b="<two>", date="<one>", n=slots.number(2) + 2, **names
    )
    return text if text[:1] == "<" or slots.rng.random() < 0.9 else text[:1].lower() + text[1:]


def _json(slots: Slots) -> _Writer:
    rng = slots.rng
    values: dict[str, object] = {rng.choice(_KEYS): "<one>"}
    if rng.random() < 0.55:
        key, value = slots.identifier(1), rng.choice((slots.word(), slots.first_name(), slots.number(3)))
        values = {key: value, **values} if rng.random() < 0.6 else {**values, key: value}
    text = json.dumps(values, indent=2 if rng.random() < 0.15 else None)
    return lambda form, one, _: text.replace("<one>", form.write(one)), True


def _pair(slots: Slots) -> _Writer:
    rng = slots.rng
    key = rng.choice((rng.choice(_KEYS), rng.choice(_KEYS).capitalize(), slots.word(), slots.identifier()))
    text = rng.choice(("{}: <one>", "{}: <one>", "{}=<one>", "{} = <one>", "{} -> <one>", "- {}: <one>", "{} (<one>)"))
    return lambda form, one, _: text.format(key).replace("<one>", form.write(one)), True


def _row(slots: Slots) -> _Writer:
    rng = slots.rng
    cells = [rng.choice((slots.word(), slots.first_name(), slots.city(), str(slots.number(3)))) for _ in range(2)]
    cells.insert(rng.randrange(3), "<one>")
    cells = cells[: rng.choice((2, 3, 3))]
    if "<one>" not in cells:
        cells[rng.randrange(2)] = "<one>"
    comma = rng.random() < 0.4
    text = ",".join(cells) if comma else rng.choice(("| {} |", "{}")).format(" | ".join(cells))
    return lambda form, one, _: text.replace("<one>", form.write(one)), not comma


def _code(slots: Slots) -> _Writer:
    name, word = slots.identifier(), slots.word()
    text = slots.rng.choice((
        f'{name} = "<one>"', f"{name} = '<one>'", f'const {name} = "<one>";', f'{name}("<one>")', f"# <one>: {word}",
        f"[<one>] {word} {name}", f"<one> {word}", f"<{name}><one></{name}>", f"// {word}, <one>",
        f"{name.upper()}=<one>",
    ))  # fmt: skip
    return lambda form, one, _: text.replace("<one>", form.write(one)), True
