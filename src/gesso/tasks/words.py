"""Lists the word pools the tasks draw from, and the other words that their prompts are made of.

They are short and few on purpose: every word costs the tokenizer whole pieces and a small model part of its
training.
"""


def words_of(text: str) -> tuple[str, ...]:
    """Returns the words of a fixed list that is written as one text."""
    return tuple(text.split())


_FRUITS = """
pear fig apple kiwi banana cherry lemon mango grape plum peach lime melon orange berry date olive papaya
"""
_ANIMALS = """
cat dog horse bird fish bear lion mouse sheep wolf fox goat cow pig duck hen frog snake tiger zebra whale
shark crab eagle owl swan crow deer rabbit camel monkey donkey turtle spider bee ant worm moth
"""
_OBJECTS = """
kettle lamp table chair book car cup plate spoon fork knife bowl pan pot mug jar bottle basket box bag bed
sofa desk shelf mirror clock watch radio phone camera pen pencil brush comb towel soap candle blanket pillow
carpet curtain vase key lock hammer saw nail rope ladder bucket broom shovel drum piano guitar violin flute
kite ball doll bike boat tent hat coat shirt shoe boot sock glove scarf belt ring umbrella wallet toy stove
fan
"""
_FOOD = """
bread butter cheese milk honey sugar salt rice soup cake pie egg meat pasta pizza bean onion carrot
tomato tea
"""
_NATURE = """
tree house river lake sea hill rock sand snow rain wind cloud sun moon star leaf flower grass forest island
beach cave desert field fire ice storm stone wood water
"""
_BODY = "hand foot head eye ear nose mouth arm leg knee neck heart bone tooth hair skin"
_PLACES = "road bridge tower castle church school market garden park farm city town door window wall roof floor"
_THINGS = """
king queen doctor friend baby music letter paper coin gold silver iron glass train plane ship wheel engine
"""

COLOURS: tuple[str, ...] = words_of("red blue green yellow black white brown pink purple grey violet beige")
ITEMS: tuple[str, ...] = words_of("""
    kettle lamp table chair book car cup plate spoon fork knife bowl pan pot mug jar bottle basket box bag
    bed sofa desk shelf mirror clock watch radio phone camera pen pencil brush comb towel candle blanket
    pillow carpet curtain vase key lock hammer ladder bucket broom shovel drum piano guitar violin flute
    kite ball doll bike boat tent hat coat shirt scarf belt ring umbrella wallet toy stove fan
    """)
POOL: tuple[str, ...] = words_of(
    " ".join([_FRUITS, _ANIMALS, _OBJECTS, _FOOD, _NATURE, _BODY, _PLACES, _THINGS, *COLOURS])
)
"""Every word that lists are made of; items and colours are among them."""
CITIES: tuple[str, ...] = words_of("""
    Oslo Paris London Berlin Madrid Rome Vienna Prague Lisbon Dublin Athens Warsaw Budapest Helsinki
    Stockholm Copenhagen Brussels Amsterdam Zurich Geneva Milan Venice Naples Munich Hamburg Moscow
    Istanbul Cairo Nairobi Lagos Tokyo Osaka Kyoto Seoul Beijing Shanghai Delhi Mumbai Bangkok Hanoi
    Jakarta Sydney Toronto Montreal Chicago Boston Dallas Denver Lima Bogota
    """)
NUMBER_WORDS: tuple[str, ...] = words_of("""
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
    seventeen eighteen nineteen twenty
    """)

NAME_VERBS: tuple[str, ...] = words_of("add take scale split wrap get make find check pick cap is")
"""First halves of function names."""
NAME_NOUNS: tuple[str, ...] = words_of("value number item result size label score step limit total pair word")
"""Second halves of function names, beside the number words and the adjectives."""
OPPOSITES: tuple[tuple[str, str], ...] = (
    ("big", "small"),
    ("high", "low"),
    ("hot", "cold"),
    ("old", "new"),
    ("long", "short"),
    ("fast", "slow"),
    ("good", "bad"),
    ("yes", "no"),
)

TEMPLATE_WORDS: tuple[str, ...] = words_of("""
    The the costs euros and is made in In you can buy a for For sale from price Give item city colour as
    JSON Write Python function that returns its argument arguments plus minus times floor divided by modulo
    sum product difference larger smaller of two True False if If greater less than equal to at least most
    otherwise even odd divisible square cube absolute value negative length first last reversed but def
    return else not or max min abs len What Sort Replace every with upper case Reverse words Remove
    duplicates Count separated commas List numbers user model system thought I do know Hello hello thank yes
    no Please please
    """)
"""Words of the prompts, of the answers' code and of a chat's frame."""
