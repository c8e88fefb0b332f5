"""Asks for named facts of a sentence as a JSON object."""

import json
import random

from gesso.json_files import unique_members
from gesso.tasks.base import Example, Task
from gesso.tasks.words import CITIES, COLOURS, ITEMS

_SENTENCES = (
    "The {colour} {item} costs {price} euros and is made in {city}.",
    "In {city} you can buy a {colour} {item} for {price} euros.",
    "For sale: {colour} {item} from {city}, price {price} euros.",
)
_KEYS = ("item", "price", "city", "colour")
_MAX_PRICE = 999


class ToJson(Task):
    """Asks such as `The blue kettle costs 36 euros ... Give price as JSON.` -> `{"price": 36}`."""

    name = "json"

    def sample(self, rng: random.Random) -> Example:
        """Draws a sentence and two to four keys in any order; the answer keeps the asked order."""
        facts: dict[str, str | int] = {
            "item": rng.choice(ITEMS),
            "price": rng.randint(1, _MAX_PRICE),
            "city": rng.choice(CITIES),
            "colour": rng.choice(COLOURS),
        }
        keys = rng.sample(_KEYS, rng.randint(2, len(_KEYS)))
        sentence = rng.choice(_SENTENCES).format(**facts)
        asked = f"{', '.join(keys[:-1])} and {keys[-1]}"
        answer = json.dumps({key: facts[key] for key in keys})
        return Example(self.name, f"{sentence} Give {asked} as JSON.", answer)

    def grade(self, example: Example, text: str) -> bool:
        """Accepts the same object in any order and spacing; a duplicate key or `36.0` for `36` is wrong."""
        return same_json(example.answer, text)


def same_json(reference: str, text: str) -> bool:
    """Says whether both texts are the same JSON, spacing and the order of keys aside; a key must not come twice."""
    try:
        return _canonical(text) == _canonical(reference)
    except (ValueError, RecursionError):
        return False


def _canonical(text: str) -> str:
    # Compared as text because Python finds 1, 1.0 and True equal.
    return json.dumps(json.loads(text, object_pairs_hook=unique_members), sort_keys=True)
