"""Provides the words that slots are filled with, and says which of them are held out of training.

Words come from a dictionary list that ships in the package (its notices in `words.COPYRIGHT`) and from syllables put
together at random. Whether a word may be trained on depends on the word alone.
"""

import lzma
import random
import zlib
from functools import cache
from importlib import resources

from gesso.tasks.words import CITIES, NAME_NOUNS, NAME_VERBS, NUMBER_WORDS, OPPOSITES, POOL, TEMPLATE_WORDS, words_of

HELD_OUT_WORDS = 16
"""One word in this many is held out."""

_KNOWN = frozenset(
    word.lower()
    for pool in (CITIES, NAME_NOUNS, NAME_VERBS, NUMBER_WORDS, POOL, TEMPLATE_WORDS, *OPPOSITES)
    for word in pool
)
"""Words of the tasks with fixed pools, which are trained on beside the skills."""
_ONSETS = (*"bcdfghjklmnprstvwz", "br", "ch", "cl", "cr", "dr", "fl", "fr", "gl", "gr", "kl", "pl", "pr", "qu", "sh",
           "sk", "sl", "sp", "st", "th", "tr", "")  # fmt: skip
_VOWELS = (*"aaeeiioouy", "ai", "ea", "ou", "oo")
_CODAS = (*"lmnrstxdk", "", "", "", "", "", "nd", "ng", "rk", "st", "sh", "ll")
_ACCENTED = "àáâãäåæçèéêëìíîïñòóôõöøùúûüýāăąćčďđēęěğīłńňőřśşšťūůűźżž"
_MARKED = (
    "<{}>", "#{}", "@{}", "${}", "({})", "[{}]", "{}!", "{}?", "{}%", "{}*", "{}+", "{}@{}", "{}&{}", "{}+{}",
    "{}={}", "{}/{}", "{}|{}", "{}-{}", "{}.{}", "{}^{}", "{}<{}", "{}>{}", "{}_{}",
)  # fmt: skip
_SCRIPTS = (
    (0x3B1, 0x3C9), (0x430, 0x44F), (0x5D0, 0x5EA), (0x627, 0x648), (0x905, 0x939), (0xE01, 0xE2E), (0x3042, 0x3093),
    (0x30A2, 0x30F3), (0x4E00, 0x9FA5), (0xAC00, 0xD7A3), (0x1F300, 0x1F64F), (0x2190, 0x21FF), (0xA1, 0xBF),
)  # fmt: skip
"""First and last letter of Greek, Cyrillic, Hebrew, Arabic, Devanagari, Thai, Hiragana, Katakana, Han and Hangul,
and of emoji, arrows and signs."""

SHORT_NAMES = tuple("abcdefghijkmnpqrstuvwxyz")
TYPICAL_NAMES = words_of("""
    add age amount args arr avg base base_url bigger both c1 c2 cfg char check city color config cost count counter
    cube cur data day default delta diff digits dist double dx dy elements end even f1 f2 factor fee file first
    first_name flag full_name func g1 get_name get_port greet half height hours id idx inc index info is_big is_empty
    is_even is_odd is_positive item items k1 k2 key last last_name left length letters level line lines list1 lo lst
    max_value mean message min_value minutes mix mode msg my_list n1 n2 name names negate new next_id node num num1
    num2 number numbers nums old p1 p2 pair path plus point port power price prices product q1 q2 q9 qty rate ratio
    ratio2 ratios remainder result rev right row s1 s2 same score scores sec sep shout sign size speed square start
    step sub sub3 t0 t1 table tax temp text title tmp to_int total total_cost triple txt url user user_id user_name v1
    v2 val value values var vec w1 weight width word words x0 x1 x2 xs y1 y2 year ys z1 zs
""")
"""What people call functions, arguments and columns, beside words."""
RESERVED = frozenset(
    words_of("""
    and as assert async await break class continue def del elif else except finally for from global if import
    in is lambda nonlocal not or pass raise return try while with yield abs bool dict int len list max min set str
    sum print type
""")
)
"""What an identifier must not be."""


@cache
def dictionary() -> tuple[str, ...]:
    """Returns the dictionary's words of three to eleven lower-case letters, in order."""
    packed = resources.files("gesso.tasks.skills").joinpath("words.txt.xz").read_bytes()
    return tuple(lzma.decompress(packed).decode("ascii").split())


def is_unseen(word: str) -> bool:
    """Says whether `word` is held out of training, in whatever case it is written."""
    word = word.lower()
    return zlib.crc32(b"word/" + word.encode()) % HELD_OUT_WORDS == 0 and word not in _KNOWN


@cache
def common_words() -> tuple[str, ...]:
    """Returns the lower-case words of three letters and more that have a token of their own, without those held out:
    what people write about most often is among them."""
    text = resources.files("gesso.tasks.skills").joinpath("words_whole.txt").read_text("ascii")
    words = dict.fromkeys(line.strip(" _") for line in text.split("\n"))
    return tuple(word for word in words if len(word) > 2 and word.isalpha() and word.islower() and not is_unseen(word))


@cache
def _side(unseen: bool) -> tuple[str, ...]:
    return tuple(word for word in dictionary() if is_unseen(word) == unseen)


def draw_word(rng: random.Random, *, unseen: bool) -> str:
    """Draws a word of the dictionary from one side of the split."""
    return rng.choice(_side(unseen))


def draw_pseudo_word(rng: random.Random, *, unseen: bool) -> str:
    """Draws one to three syllables that need not be a word, from one side of the split."""
    while True:
        count = rng.choices((1, 2, 3), (0.2, 0.55, 0.25))[0]
        word = "".join(rng.choice(_ONSETS) + rng.choice(_VOWELS) + rng.choice(_CODAS) for _ in range(count))
        if 2 < len(word) < 11 and is_unseen(word) == unseen:
            return word


def draw_foreign(rng: random.Random) -> str:
    """Draws a word of letters that training would not show otherwise: accented ones, those of another script, or signs
    at a dictionary word."""
    while True:
        word = _foreign(rng)
        if not is_unseen(word):
            return word


def _foreign(rng: random.Random) -> str:
    kind = rng.random()
    if kind < 0.4:
        letters = list(draw_word(rng, unseen=False))
        for place in rng.sample(range(len(letters)), rng.randint(1, 2)):
            letters[place] = rng.choice(_ACCENTED)
        return "".join(letters)
    if kind < 0.7:
        return rng.choice(_MARKED).format(draw_word(rng, unseen=False), draw_word(rng, unseen=False))
    first, last = rng.choice(_SCRIPTS)
    return "".join(chr(rng.randint(first, last)) for _ in range(rng.randint(1, 5)))
