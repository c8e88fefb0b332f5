"""Asks whether a plain sentence praises, blames or neither."""

from typing import ClassVar

from gesso.tasks.base import Example
from gesso.tasks.skills.lexicon import words_of
from gesso.tasks.skills.skill import Skill
from gesso.tasks.skills.slots import Phrasings, Slots

_ASK = Phrasings(
    (
        "~Is this [positive or negative|positive, negative or neutral]", "~Sentiment",
        "~What is the sentiment[| of this sentence]",
        "~Is this sentence positive or negative", "Classify the sentiment",
        "Classify the sentiment[ as positive, negative or neutral|]",
        "Say whether this is positive or negative", "Give the sentiment of this [sentence|review|comment]",
        "~Is the [review|comment|opinion] positive or negative", "Label the sentiment[| of this text]",
        "~Positive, negative or neutral",
        "~Does this sound positive or negative", "Rate this as positive, negative or neutral",
        "Determine the sentiment",
        "~What is the mood of this", "Tell me the sentiment of this",
    ),
    (
        "~Is this praise or blame: positive or negative", "Judge the sentiment of the text",
        "~How does this sound, positive, negative or neutral",
    ),
)  # fmt: skip
_GOOD = words_of("""
    good great excellent wonderful lovely fantastic superb amazing brilliant delightful perfect pleasant nice
    beautiful helpful fine charming outstanding impressive enjoyable
""")
_BAD = words_of("""
    bad terrible awful horrible poor dreadful disappointing useless nasty ugly boring annoying broken rude dirty
    worthless unpleasant sad weak miserable
""")
_SENTENCES = Phrasings(
    (
        "The {thing} was {adjective}.", "The {thing} is really {adjective}.", "What a {adjective} {thing}!",
        "I find the {thing} {adjective}.",
        "{name} says the {thing} is {adjective}.", "Our {thing} in {city} was {adjective}.",
        "It is a {adjective} {thing}.",
        "A truly {adjective} {thing}.", "We had a {adjective} {thing} yesterday.",
        "The {thing} and the {other} are {adjective}.",
        "My new {thing} turned out to be {adjective}.", "This {adjective} {thing} cost {number} euros.",
    ),
    (
        "Everybody thought the {thing} was {adjective}.", "Honestly, the {thing} felt {adjective}.",
        "{adjective} {thing}, {name} wrote.",
    ),
)  # fmt: skip
_VERBS = Phrasings(
    (
        "I {verb} the {thing}.",
        "I {verb} this {thing}.",
        "{name} and I {verb} the {thing}.",
        "We {verb} the {thing} in {city}.",
        "I really {verb} my {thing}.",
    ),
    ("They all {verb} that {thing}.", "You can tell I {verb} the {thing}."),
)
_LIKED = ("love", "like", "enjoy", "adore", "recommend", "admire")
_DISLIKED = ("hate", "dislike", "regret", "despise", "detest", "cannot stand")
_PLAIN = Phrasings(
    (
        "The {thing} is in {city}.", "The {thing} weighs {number} grams.", "{name} bought a {thing}.",
        "There are {number} {thing} in the box.",
        "The {thing} stands beside the {other}.", "{name} lives in {city}.", "The {thing} costs {number} euros.",
        "A {thing} has arrived.",
        "The {thing} opens at noon.", "{name} carries the {thing} to {city}.",
    ),
    ("The {thing} belongs to {name}.", "It takes {number} minutes to {city}."),
)  # fmt: skip


class Sentiment(Skill):
    """Asks such as `Is this positive or negative: The grelt was dreadful.` -> `negative`."""

    name = "sentiment"
    phrasings: ClassVar = {"ask": _ASK, "sentence": _SENTENCES, "verb": _VERBS, "plain": _PLAIN}

    def draw(self, slots: Slots) -> Example:
        """Draws a sentence about anything; its adjective or verb decides, or there is none."""
        rng = slots.rng
        answer = rng.choice(("positive", "negative", "neutral"))
        values: dict[str, object] = {
            "thing": slots.word(), "other": slots.word(), "name": slots.first_name(), "city": slots.city(),
            "number": slots.number(3),
        }  # fmt: skip
        if answer == "neutral":
            text = slots.choice(_PLAIN, **values)
        elif rng.random() < 0.3:
            text = slots.choice(_VERBS, verb=rng.choice(_LIKED if answer == "positive" else _DISLIKED), **values)
        else:
            adjective, turned = rng.choice(_GOOD if answer == "positive" else _BAD), rng.random() < 0.15
            text = slots.choice(_SENTENCES, adjective=f"not {adjective}" if turned else adjective, **values)
            if turned and f" a not {adjective}" not in text and "What a" not in text:
                answer = "negative" if answer == "positive" else "positive"
            else:
                text = text.replace(f"not {adjective}", adjective)
        ask = slots.choice(_ASK)
        if answer == "neutral" and "neutral" not in ask and " or " in ask:
            ask = "~Is this positive, negative or neutral"
        prompt = (
            slots.frame(ask, text)
            if rng.random() < 0.5
            else f"{ask.removeprefix('~')}{rng.choice((': ', '? ', chr(10)))}{text}"
        )
        return Example(self.name, prompt, answer, kind=slots.kind(answer))

    def grade(self, example: Example, text: str) -> bool:
        """Accepts the label, in whatever case, with or without a mark."""
        return text.strip().rstrip(".").lower() == example.answer
