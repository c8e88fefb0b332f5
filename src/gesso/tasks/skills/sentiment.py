"""Asks whether a plain sentence praises, blames or neither."""

import re
from typing import ClassVar

from gesso.tasks.base import Example
from gesso.tasks.skills.layouts import Layout
from gesso.tasks.skills.patterns import read_phrasings
from gesso.tasks.skills.skill import Skill, is_label
from gesso.tasks.skills.slots import Slots
from gesso.tasks.words import words_of

_ASK = read_phrasings("sentiment", "ask")
_GOOD = words_of("""
    good great excellent wonderful lovely fantastic superb amazing brilliant delightful perfect pleasant nice
    beautiful helpful fine charming outstanding impressive enjoyable admirable adorable attractive awesome
    breathtaking clever comfortable convincing cosy cute delicious elegant exciting exquisite fabulous fascinating
    flawless fresh friendly fun funny generous gorgeous graceful gripping handy heavenly hilarious ideal incredible
    inspiring magical magnificent marvellous memorable neat polite precious refreshing relaxing reliable remarkable
    satisfying sensational smart smooth spectacular splendid stunning stylish super sweet tasty terrific thrilling
    tidy touching useful valuable welcoming witty
""")
_BAD = words_of("""
    bad terrible awful horrible poor dreadful disappointing useless nasty ugly boring annoying broken rude dirty
    worthless unpleasant sad weak miserable abysmal appalling atrocious clumsy creepy crude cruel dangerous defective
    depressing disastrous disgusting dishonest dismal dull embarrassing faulty filthy flawed foul frustrating ghastly
    gloomy gross grubby hideous hopeless horrific hostile inferior insulting irritating lame lousy mediocre messy noisy
    obnoxious offensive overpriced painful pathetic pointless repulsive ridiculous rotten ruined scary shabby shameful
    shoddy silly sloppy slow smelly stale stupid tasteless tedious tiresome tragic uncomfortable unfair unfriendly
    unhelpful unreliable upsetting vile wasteful
""")
_SENTENCES = read_phrasings("sentiment", "sentences")
_VERBS = read_phrasings("sentiment", "verbs")
_LIKED = ("love", "like", "enjoy", "adore", "recommend", "admire", "appreciate", "treasure", "praise", "cherish")
_DISLIKED = (
    "hate", "dislike", "regret", "despise", "detest", "cannot stand", "loathe", "cannot bear", "resent",
    "complain about",
)  # fmt: skip
_PLAIN = read_phrasings("sentiment", "plain")
_LABELS = read_phrasings("sentiment", "labels")
_YES = read_phrasings("sentiment", "yes")
_TOLD = {
    "positive": read_phrasings("sentiment", "good"),
    "negative": read_phrasings("sentiment", "bad"),
    "neutral": read_phrasings("sentiment", "neither"),
}
"""Texts that say it without an adjective to go by."""
_OTHER_LABELS = (("good", "bad"), ("happy", "unhappy"), ("praise", "complaint"), ("like", "dislike"),
                 ("satisfied", "dissatisfied"), ("favourable", "unfavourable"), ("pos", "neg"),
                 ("Positive", "Negative"), ("POSITIVE", "NEGATIVE"))  # fmt: skip
_OR = Layout(", ", last=" or ")
_CHOICES = (_OR, _OR, Layout(", "), Layout("/"), Layout(" / "))
_TOLD_SHARE, _LABELS_SHARE, _YES_SHARE = 0.4, 0.25, 0.1
_UNTURNED = re.compile(
    r"\b(?:an?|more|most|as|so|such|how|very|this|that|did|totally|just) not |: not |What an?\b|n't |hardly |\b[Nn]o ",
    re.IGNORECASE,
)
"""Sentences in which "not" before the adjective would be wrong, or leave in doubt what is meant."""


class Sentiment(Skill):
    """Asks such as `Is this positive or negative: The grelt was dreadful.` -> `negative`."""

    name = "sentiment"
    phrasings: ClassVar = {
        "ask": _ASK, "sentence": _SENTENCES, "verb": _VERBS, "plain": _PLAIN, "labels": _LABELS, "yes": _YES, **_TOLD
    }  # fmt: skip

    def draw(self, slots: Slots) -> Example:
        """Draws a sentence about anything; its adjective or verb decides, or there is none."""
        rng = slots.rng
        answer = rng.choice(("positive", "negative", "neutral"))
        values: dict[str, object] = {
            "thing": slots.word(), "other": slots.word(), "name": slots.first_name(), "city": slots.city(),
            "number": slots.number(3),
        }  # fmt: skip
        if rng.random() < _TOLD_SHARE:
            text = slots.choice(_TOLD[answer], **values)
        elif answer == "neutral":
            text = slots.choice(_PLAIN, **values)
        elif rng.random() < 0.3:
            text = slots.choice(_VERBS, verb=rng.choice(_LIKED if answer == "positive" else _DISLIKED), **values)
        else:
            adjective = rng.choice(_GOOD if answer == "positive" else _BAD)
            turned = answer == "positive" and rng.random() < 0.2
            text = slots.choice(_SENTENCES, adjective=f"not {adjective}" if turned else adjective, **values)
            if turned and not _UNTURNED.search(text):
                answer = "negative"
            else:
                text = text.replace(f"not {adjective}", adjective)
        asked = rng.random()
        if asked < _LABELS_SHARE:
            return self._labelled(slots, text, answer)
        if asked < _LABELS_SHARE + _YES_SHARE and answer != "neutral":
            label = rng.choice(("positive", "negative"))
            said = "yes" if label == answer else "no"
            return Example(
                self.name, _placed(slots, slots.choice(_YES, label=label), text), said, kind=slots.kind("yes")
            )
        ask = slots.choice(_ASK)
        if answer == "neutral" and "neutral" not in ask and " or " in ask:
            ask = "~Is this positive, negative or neutral"
        prompt = (
            slots.frame(ask, text)
            if rng.random() < 0.5
            else f"{ask.removeprefix('~').rstrip('?:')}{rng.choice((': ', ': ', chr(10)))}{text}"
        )
        return Example(self.name, prompt, answer, kind=slots.kind(answer))

    def _labelled(self, slots: Slots, text: str, answer: str) -> Example:
        """Labels to choose from that the request names: other words for both, or all three."""
        rng = slots.rng
        if answer == "neutral":
            labels = ["positive", "negative", "neutral"]
        else:
            pair = rng.choice((("positive", "negative"), *_OTHER_LABELS))
            answer = pair[answer == "negative"]
            labels = [*pair, "neutral"] if pair == ("positive", "negative") and rng.random() < 0.4 else list(pair)
        if rng.random() < 0.3:
            labels.reverse()
        listed = rng.choice(_CHOICES).write(labels)
        return Example(
            self.name, _placed(slots, slots.choice(_LABELS, labels=listed), text), answer, kind=slots.kind("labels")
        )

    def grade(self, example: Example, text: str) -> bool:
        """Accepts the label, in whatever case, with or without a mark."""
        return is_label(text, example.answer)


def _placed(slots: Slots, ask: str, text: str) -> str:
    """The request with the text before or behind it, now and then in quotes."""
    if '"' not in text and slots.rng.random() < 0.15:
        text = f'"{text}"'
    return slots.frame(ask, text)
