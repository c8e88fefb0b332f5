"""Asks for JSON of what texts of many kinds tell: the parts that people have in them, lists, pairs, log lines."""

from decimal import Decimal

from gesso.tasks.skills.extraction.keys import asked
from gesso.tasks.skills.extraction.missing import draw_missing
from gesso.tasks.skills.extraction.placing import among_others, placed
from gesso.tasks.skills.extraction.rows import draw_rows, draw_values
from gesso.tasks.skills.extraction.telling import by_letters, dumps, is_measured, named, pick, tell
from gesso.tasks.skills.extraction.values import Value
from gesso.tasks.skills.extraction.whole import draw_whole
from gesso.tasks.skills.patterns import read_phrasings
from gesso.tasks.skills.slots import Slots

_TOLD = read_phrasings("record_extraction", "told")
ASK = read_phrasings("record_extraction", "ask")
_SENTENCE_ASK = read_phrasings("extraction", "ask")
_NUMBERS = read_phrasings("record_extraction", "numbers")
_NOTES = read_phrasings("record_extraction", "notes")
_ONE_KEY = read_phrasings("record_extraction", "one key")
_PAIRS = read_phrasings("record_extraction", "pairs")
_ASK_PAIRS = read_phrasings("record_extraction", "ask pairs")
PHRASINGS = {
    "told": _TOLD, "ask": ASK, "numbers": _NUMBERS, "notes": _NOTES, "one key": _ONE_KEY,
    "pairs": _PAIRS, "ask pairs": _ASK_PAIRS,
}  # fmt: skip
_ALL_SHARE, _OLD_ASK_SHARE, _NOTE_SHARE, _NUMBER_NOTE_SHARE, _AROUND_SHARE = 0.55, 0.3, 0.12, 0.12, 0.12
_MISSING_SHARE, _WHOLE_SHARE = 0.03, 0.15
_FORMS, _FORM_WEIGHTS = ("record", "pairs", "rows", "values"), (0.75, 0.11, 0.07, 0.07)


def draw_record(slots: Slots) -> tuple[str, str]:
    """Draws a message and what answers it: an object most often."""
    rng = slots.rng
    form = rng.choices(_FORMS, _FORM_WEIGHTS)[0]
    if form == "pairs":
        return _pairs(slots)
    if form == "rows":
        return draw_rows(slots)
    text, facts = tell(slots, pick(slots, _TOLD))
    if rng.random() < _AROUND_SHARE:
        text = among_others(slots, text)
    found = list(named(rng, facts).items())
    if rng.random() >= _ALL_SHARE:
        found = rng.sample(found, rng.randint(min(2, len(found)), len(found)))
    elif rng.random() < 0.3:
        rng.shuffle(found)
    if rng.random() < 0.06:
        found = found[:1]
    answer = dict(found)
    keys = list(answer)
    unclear = any(isinstance(value, list) or is_measured(text, key, value) for key, value in found)
    if form == "values" and len(keys) > 1 and not unclear:
        return draw_values(slots, text, answer)
    if len(keys) == 1 and isinstance(answer[keys[0]], list):
        shape = f'{{"{keys[0]}": {rng.choice(("[...]", "[]"))}}}'
        ask = asked(slots, _ONE_KEY, keys, key=keys[0], shape=shape)
    else:
        if rng.random() < _MISSING_SHARE:
            return draw_missing(slots, text, answer, {name for fact in facts for name in fact.names})
        if rng.random() < _WHOLE_SHARE:
            return draw_whole(slots, keys, text), dumps(answer)
        ask = asked(slots, _SENTENCE_ASK if rng.random() < _OLD_ASK_SHARE else ASK, keys)
    ask = _with_note(slots, ask, answer)
    return placed(slots, ask, text), dumps(answer)


def _with_note(slots: Slots, ask: str, answer: dict[str, Value]) -> str:
    """Adds a sentence on the form of the answer now and then."""
    rng = slots.rng
    numbers = [key for key, value in answer.items() if isinstance(value, int | Decimal)]
    note = ""
    if numbers and rng.random() < _NUMBER_NOTE_SHARE:
        note = pick(slots, _NUMBERS).format(key=rng.choice(numbers))
        note = note[0].upper() + note[1:] if rng.random() < 0.6 else note
    elif rng.random() < _NOTE_SHARE:
        note = pick(slots, _NOTES)
    if not note or "\n" in ask:
        return ask
    return f"~{ask.removeprefix('~')}{'.' if ask[-1] not in '.?!:' else ''} {note}"


def _pairs(slots: Slots) -> tuple[str, str]:
    """Two or three things or people of a text as keys, and what it says about each as values."""
    pattern, names = pick(slots, _PAIRS).split(" # ")
    text, facts = tell(slots, pattern)
    pairs = by_letters(facts)
    if slots.rng.random() < 0.2:
        slots.rng.shuffle(pairs)
    answer = dict(pairs)
    ask = asked(slots, _ASK_PAIRS, list(answer), values=slots.rng.choice(names.split("/")))
    return placed(slots, ask, text), dumps(answer)
