"""Draws texts that praise, blame or do neither: a sentence about anything, or a review of a few words or clauses."""

import re

from gesso.tasks.skills.articles import with_articles
from gesso.tasks.skills.labelled_texts import draw_thing
from gesso.tasks.skills.patterns import read_phrasings
from gesso.tasks.skills.slots import Slots
from gesso.tasks.words import words_of

_GOOD = words_of("""
    good great excellent wonderful lovely fantastic superb amazing brilliant delightful perfect pleasant nice
    beautiful helpful fine charming outstanding impressive enjoyable admirable adorable attractive awesome
    breathtaking clever comfortable convincing cosy cute delicious elegant exciting exquisite fabulous fascinating
    flawless fresh friendly fun funny generous gorgeous graceful gripping handy heavenly hilarious ideal incredible
    inspiring magical magnificent marvellous memorable neat polite precious refreshing relaxing reliable remarkable
    satisfying sensational smart smooth spectacular splendid stunning stylish super sweet tasty terrific thrilling
    tidy touching useful valuable welcoming witty
    amusing accurate affordable efficient fair faultless first-class generous glorious genius honest joyful kind
    likeable luxurious patient peaceful playful quick recommendable roomy skilful sparkling spotless sturdy terrific
    thoughtful top-notch trustworthy unbeatable unforgettable warm well-made worthwhile
""")
_BAD = words_of("""
    bad terrible awful horrible poor dreadful disappointing useless nasty ugly boring annoying broken rude dirty
    worthless unpleasant sad weak miserable abysmal appalling atrocious clumsy creepy crude cruel dangerous defective
    depressing disastrous disgusting dishonest dismal dull embarrassing faulty filthy flawed foul frustrating ghastly
    gloomy gross grubby hideous hopeless horrific hostile inferior insulting irritating lame lousy mediocre messy noisy
    obnoxious offensive overpriced painful pathetic pointless repulsive ridiculous rotten ruined scary shabby shameful
    shoddy silly sloppy slow smelly stale stupid tasteless tedious tiresome tragic uncomfortable unfair unfriendly
    unhelpful unreliable upsetting vile wasteful
    amateurish arrogant bland careless chaotic cramped damaged dangerous deplorable disgraceful dodgy flimsy greasy
    greedy heartless impolite incompetent inedible leaky mouldy neglected noxious pricey rubbish second-rate
    soggy sour subpar tacky terrifying third-rate unacceptable unbearable uninspired unsafe unusable watery
""")
_SENTENCES = read_phrasings("sentiment", "sentences")
_VERBS = read_phrasings("sentiment", "verbs")
_LIKED = ("love", "like", "enjoy", "adore", "recommend", "admire", "appreciate", "treasure", "praise", "cherish")
_DISLIKED = (
    "hate", "dislike", "regret", "despise", "detest", "cannot stand", "loathe", "cannot bear", "resent",
    "complain about",
)  # fmt: skip
_TELLING = frozenset((*_GOOD, *_BAD, *_LIKED, *_DISLIKED, "positive", "negative", "neutral", "lies"))
"""Words that no thing is called by."""
_PLAIN = read_phrasings("sentiment", "plain")
_TOLD = {
    "positive": read_phrasings("sentiment", "good"),
    "negative": read_phrasings("sentiment", "bad"),
    "neutral": read_phrasings("sentiment", "neither"),
}
"""Texts that say it without an adjective to go by."""
_CLAUSES = {
    "positive": read_phrasings("sentiment", "good clauses"),
    "negative": read_phrasings("sentiment", "bad clauses"),
}
_TURNS = {
    "positive": read_phrasings("sentiment", "good turns"),
    "negative": read_phrasings("sentiment", "bad turns"),
}
"""Clauses behind one of the other mood, which they overrule."""
_BRIEF = read_phrasings("sentiment", "brief")
_MILD = words_of("""
    boring dull bad rude dirty noisy slow uncomfortable disappointing overpriced ugly flimsy unfriendly messy clumsy
    tedious shabby greasy bland stale lame tiresome silly stupid unpleasant useless annoying cramped difficult sour
""")
"""What praise may deny."""
_DENIED = {
    "positive": ("not at all", "anything but", "far from", "by no means", "not the least bit"),
    "negative": ("not", "not", "not", "not at all", "anything but", "far from", "not exactly", "by no means", "hardly"),
}
PHRASINGS = {
    "sentence": _SENTENCES, "verb": _VERBS, "plain": _PLAIN, "brief": _BRIEF, **_TOLD,
    **{f"{mood} clauses": clauses for mood, clauses in _CLAUSES.items()},
    **{f"{mood} turns": turns for mood, turns in _TURNS.items()},
}  # fmt: skip
_TOLD_SHARE, _CLAUSES_SHARE, _BRIEF_SHARE, _TURNS_SHARE = 0.5, 0.26, 0.07, 0.07
_DENIED_SHARES = {"positive": 0.08, "negative": 0.17}
_LEAD_SHARE, _SMALL_SHARE = 0.06, 0.1
_JOINS = (". ", ". ", ", ", ", ", "! ", " and ", "; ", " - ")
_UNTURNED = re.compile(
    r"\b(?:an?|more|most|as|so|such|how|very|this|that|did|totally|just) not |: not |What an?\b|n't |hardly |\b[Nn]o ",
    re.IGNORECASE,
)
"""Sentences in which "not" before the adjective would be wrong, or leave in doubt what is meant."""


def draw_text(slots: Slots, mood: str, *, short: bool = False) -> str:
    """Draws a text that is positive, negative or neutral; with `short`, one of a few words most often."""
    rng = slots.rng
    drawn = rng.random()
    if mood != "neutral" and (drawn < _BRIEF_SHARE or (short and drawn < 0.5)):
        text = slots.choice(_BRIEF, adjective=rng.choice(_GOOD if mood == "positive" else _BAD), **_values(slots))
    elif mood != "neutral" and not short and drawn < _BRIEF_SHARE + _TURNS_SHARE:
        text = _turned(slots, mood)
    elif mood != "neutral" and drawn < _BRIEF_SHARE + _TURNS_SHARE + _CLAUSES_SHARE:
        text = _review(slots, mood, 1 if short else rng.choices((1, 2, 3), (0.3, 0.45, 0.25))[0])
    else:
        text = _sentence(slots, mood)
    if mood != "neutral" and not short and rng.random() < _LEAD_SHARE:
        lead = _sentence(slots, "neutral").rstrip(".")
        text = f"{lead}{'' if lead[-1] in '?!' else '.'} {text}"
    text = with_articles(text)
    if rng.random() < _SMALL_SHARE:
        text = text.lower() if rng.random() < 0.6 else text.rstrip(".")
    return text


def _sentence(slots: Slots, mood: str) -> str:
    """A sentence of which an adjective or verb decides, or which tells what happened."""
    rng, values = slots.rng, _values(slots)
    if rng.random() < _TOLD_SHARE:
        return slots.choice(_TOLD[mood], **values)
    if mood == "neutral":
        return slots.choice(_PLAIN, **values)
    if rng.random() < 0.3:
        return slots.choice(_VERBS, verb=rng.choice(_LIKED if mood == "positive" else _DISLIKED), **values)
    if rng.random() < _DENIED_SHARES[mood]:
        adjective = rng.choice(_GOOD if mood == "negative" else _MILD)
        text = slots.choice(_SENTENCES, adjective=f"not {adjective}", **values)
        if not _UNTURNED.search(text):
            return text.replace(f"not {adjective}", f"{rng.choice(_DENIED[mood])} {adjective}")
    adjective = rng.choice(_GOOD if mood == "positive" else _BAD)
    return slots.choice(_SENTENCES, adjective=adjective, **values)


def _review(slots: Slots, mood: str, count: int) -> str:
    """Clauses of one mood, one after the other."""
    rng = slots.rng
    clauses: dict[str, None] = {}
    while len(clauses) < count:
        clauses[slots.choice(_CLAUSES[mood], **_values(slots))] = None
    join = rng.choice(_JOINS if count == 2 else _JOINS[:5])
    parts = list(clauses)
    if join in (". ", "! ") and rng.random() < 0.8:
        parts = [part[0].upper() + part[1:] for part in parts]
    text = join.join(parts)
    if rng.random() < 0.75:
        text = text[0].upper() + text[1:]
    return text + rng.choice((".", ".", "!" if join != ". " else ".", ""))


def _turned(slots: Slots, mood: str) -> str:
    """A clause of the mood behind one that makes expect the other."""
    clause = slots.choice(_CLAUSES[mood], **_values(slots))
    text = slots.choice(_TURNS[mood], clause=clause, **_values(slots))
    if slots.rng.random() < 0.75:
        text = text[0].upper() + text[1:]
    return text + slots.rng.choice((".", ".", "!", ""))


def _values(slots: Slots) -> dict[str, object]:
    return {
        "thing": _thing(slots), "other": _thing(slots), "name": slots.first_name(), "city": slots.city(),
        "number": slots.number(3),
    }  # fmt: skip


def _thing(slots: Slots) -> str:
    """A thing whose name neither praises nor blames."""
    while (word := draw_thing(slots)) in _TELLING:
        pass
    return word
