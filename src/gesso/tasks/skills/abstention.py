"""Asks what is outside the skills: facts, opinions, long texts, other languages, near misses; the answer says so
plainly."""

from gesso.tasks.base import Example
from gesso.tasks.skills.lexicon import words_of
from gesso.tasks.skills.skill import REFUSAL, Skill, abstains
from gesso.tasks.skills.slots import Phrasings, Slots

_FACTS = Phrasings(
    (
        "What is the capital of {place}?", "Who [wrote|painted|invented|discovered|founded] the {thing}?",
        "When was {name} born?",
        "Who is {name}?", "Where is {place}?", "How [tall|old|big|far|deep] is the {thing}?",
        "Why is the {thing} {quality}?",
        "What is a {thing}?", "What does {thing} mean?", "Who won the {thing} in {year}?", "What happened in {year}?",
        "How many people live in {place}?", "What is the population of {place}?", "Who is the president of {place}?",
        "Which river flows through {place}?", "Tell me about {place}.", "Tell me about {name}.", "Explain {thing}.",
        "How does a {thing} work?", "What causes {thing}?", "Is {place} bigger than {other}?",
        "What is the largest {thing} in the world?",
        "When did the {thing} begin?", "Define {thing}.", "What is the meaning of {thing}?",
        "How do you make {thing}?",
        "What time is it[| in {place}]?", "What is the weather [today|tomorrow|in {place}]?", "Who are you?",
        "What is your name?",
        "What is the boiling point of {thing}?", "What colour is a {thing}?", "How long does a {thing} live?",
        "What language do they speak in {place}?", "Which animal is the fastest?", "What is the speed of light?",
        "Who was the first person on the {thing}?", "What is the chemical formula of {thing}?",
    ),
    (
        "In which country is {place}?", "Name the inventor of the {thing}.", "Give me some facts about {thing}.",
        "Do you know {name}?",
        "Since when does {place} exist?", "What is {thing} made of?", "Whose idea was the {thing}?",
    ),
)  # fmt: skip
_OPINIONS = Phrasings(
    (
        "What do you think [of|about] {thing}?", "Do you like {thing}?", "Should I buy a {thing}?",
        "Which is better, {thing} or {other}?",
        "What is your favourite {thing}?", "Are you happy?", "How are you?", "Is {thing} good for me?",
        "Can you recommend a {thing}?",
        "What should I [do|eat|wear|read] [today|tomorrow|tonight]?", "Is it right to {thing}?",
        "Do you believe in {thing}?",
        "Will {name} win?", "Give me advice on {thing}.", "What would you do with a {thing}?",
        "Am I right about {thing}?",
        "Is {place} worth a visit?", "How do I become a {thing}?", "Do you love me?", "Are you a human?",
        "Hello", "Hi[| there]", "Good [morning|evening]", "[Thanks|Thank you]", "I am [sad|bored|tired].",
        "Hello, {name} here.",
    ),
    ("Would you rather have {thing} or {other}?", "How do you feel about {thing}?", "What's the best {thing} to get?"),
)  # fmt: skip
_LONG = Phrasings(
    (
        "Write [an essay|a story|a poem|a letter|a speech|a song|an article|a novel] about {thing}.",
        "Tell me a [joke|story][| about {thing}].",
        "Write a [letter|mail|message] to {name} about the {thing}.", "Summarize the [book|film|history] {thing}.",
        "Write a blog post on {thing}.",
        "Describe a {thing} in detail.", "Make a plan for my trip to {place}.", "Write a review of {thing}.",
        "Invent a story with {name}.",
        "Give me ten ideas for {thing}.", "Write a web server in Python.", "Write a program that plays {thing}.",
        "Write a game in Python.",
        "Build a website for my {thing}.", "Write a compiler.", "Explain this code.",
        "Write unit tests for my project.",
        "Draft a contract with {name}.", "Write a recipe for {thing}.",
        "Continue this story: {name} went to {place} and",
        "Write a Python script that downloads {thing}.", "Write a class for a {thing} in Java.",
        "Write a SQL query for {thing}.",
    ),
    (
        "Compose some verses on {thing}.", "Make up a fairy tale with a {thing}.", "I need a long text on {thing}.",
        "Program a chess engine.",
    ),
)  # fmt: skip
_LANGUAGES = Phrasings(
    (
        "Translate {thing} [to|into] [German|French|Spanish|Italian|Latin|Japanese|Russian].",
        "How do you say {thing} in [French|German|Spanish|Dutch]?",
        "Was ist die Hauptstadt von {place}?", "Wie geht es dir?", "Wer ist {name}?",
        "Sortiere diese Wörter: {thing}, {other}",
        "Quelle est la capitale de {place} ?", "Comment vas-tu ?", "Qui est {name} ?",
        "Trie ces mots : {thing}, {other}",
        "¿Cuál es la capital de {place}?", "¿Cómo estás?", "¿Quién es {name}?",
        "Ordena estas palabras: {thing}, {other}",
        "Qual è la capitale di {place}?", "Come stai?", "Chi è {name}?", "Schreibe ein Gedicht über {thing}.",
        "Écris un poème sur {thing}.",
        "Escribe un poema sobre {thing}.", "Wie spät ist es?", "Hoe gaat het?", "Vad heter du?",
        "What is the German word for {thing}?",
        "Wo liegt {place}?", "Kannst du mir mit {thing} helfen?", "Dónde está {place}?", "Où est {place} ?",
        "Erkläre {thing}.",
    ),
    (
        "Ich möchte etwas über {thing} wissen.", "Parle-moi de {thing}.", "Háblame de {thing}.",
        "Put {thing} into Portuguese.", "Wie heißt du?",
    ),
)  # fmt: skip
_NEAR = Phrasings(
    (
        "Sort {thing}, {other} and {third} by [meaning|importance|weight|price|popularity].",
        "Which of {thing}, {other} and {third} is the [best|heaviest|oldest]?",
        "What is the square root of {n}?", "What is {n} divided by {m}?", "What is {n} / {m}?",
        "What is the logarithm of {n}?",
        "What is the sine of {n}?", "What is {n} to the power of {m}?", "What is {m} percent of {n}?",
        "Convert {n} euros to dollars.",
        "Convert {n} degrees Celsius to Fahrenheit.", "How many {thing} weigh {n} kilograms?",
        "Count the people in {place}.",
        "Count the stars.", "Replace my {thing}.", "Reverse the decision about {thing}.",
        "Remove the {thing} from my house.",
        "What is the opposite of {thing}?", "Give me a synonym of {thing}.", "What rhymes with {thing}?",
        "Complete the proverb about {thing}.",
        "Correct my spelling.", "Extract the {thing} from the picture.", "Convert this video to audio.",
        "What date is Easter in {year}?",
        "What day of the week was {name} born?", "Is {n} a prime number?", "Factor {n}.",
        "Solve the equation for {thing}.",
        "Plot {n} against {m}.", "How do I sort a list in Rust?", "What does JSON stand for?", "What is YAML?",
        "Who invented CSV?",
        "Write the {thing} function in Haskell.", "What is the next number after infinity?",
        "Call {name} on the phone.", "Send {name} a message.",
        "Set a timer.", "Book a table in {place}.", "Play some {thing} music.", "Open the {thing}.",
        "Turn off the {thing}.",
    ),
    (
        "Arrange {thing}, {other} and {third} by size.", "Take the derivative of {thing}.",
        "What is the cube root of {n}?", "Explain why {n} is even.",
        "Order me a {thing}.", "How many letters are there in the works of {name}?", "Change {n} pounds into yen.",
    ),
)  # fmt: skip
_CLOSE = Phrasings(
    (
        "Convert {n} km to kg.", "Convert {n} litres to metres.", "How many seconds are {n} grams?",
        "Convert {n} miles to kilometers.", "Convert {n} pounds to kilograms.", "What is {n}/{m} + {m}/{n}?",
        "Write a [JavaScript|Rust|Java|C|Go|Haskell|Lisp|Ruby] function {id} that returns its argument plus {n}.",
        "Define {id} in [JavaScript|Rust|Java|C++|Perl] returning its argument times {m}.",
        "Convert this CSV to [XML|TOML|HTML|LaTeX]:\n{thing},{other}\n{n},{m}",
        "Turn this into [XML|TOML|HTML|binary]: {{\"{thing}\": {n}}}",
        "Write in [Morse code|Braille|runes|italics]: {thing} {other}",
        "Sort by [length|meaning|sound|age|beauty]: {thing}, {other}, {third}",
        "Write {n} in [Roman numerals|hexadecimal|binary].",
        "Write the date {n}.{m} in the [Hebrew|Chinese|Mayan] calendar.", "Count from {n} to infinity.",
        "Count to a million.",
        "Replace every word with [its synonym|its opposite|a better one]: {thing} {other}",
        "Encrypt: {thing} {other} {third}",
        "Reverse the meaning of: {thing} is {quality}",
        "Remove all [verbs|nouns|boring words]: {thing} {other} {third}",
        "Extract the [feelings|irony|hidden message]: {thing} and {other}", "Give me the [hash|checksum] of {thing}.",
        "What is {n} + {m} - {n} * {m} / 7?", "How many [vowels|syllables] does {thing} have?",
        "Spell {thing} in [Greek|Cyrillic] letters.",
    ),
    (
        "Write a [PHP|Swift] function {id} that returns its argument.",
        "Change this JSON into [INI|SQL]: {{\"{thing}\": {n}}}",
        "Sort by [colour|taste]: {thing}, {other}, {third}", "Write {n} in base {m}.", "How many grams is an hour?",
        "Remove every [adjective|lie]: {thing} {other}",
    ),
)  # fmt: skip
_PASTED = Phrasings(
    (
        "Summarize[| this| the text]", "Sum this up in a sentence", "~What is the main idea of this text",
        "Shorten this text",
        "Explain this text", "Rewrite this more politely", "Improve this text", "~What does the author mean",
        "Continue the text",
        "Find the mistakes in this text", "Make this sound more formal", "Write a summary", "Turn this into a poem",
        "Paraphrase this", "~What do you learn from this",
    ),
    ("Give me the gist of this", "Reword this nicely", "~What is the moral of this"),
)  # fmt: skip
_KINDS = {
    "facts": _FACTS,
    "opinions": _OPINIONS,
    "long": _LONG,
    "languages": _LANGUAGES,
    "near": _NEAR,
    "close": _CLOSE,
    "pasted": _PASTED,
}
_PLACES = words_of("""
    France Germany Italy Spain Poland Norway Sweden Egypt Kenya Brazil Chile Peru Canada Mexico China Japan India
    Turkey Greece Ireland Iceland Portugal Denmark Finland Austria Hungary Cuba Iran Iraq Nepal
""")


class Abstention(Skill):
    """Asks such as `What is the capital of France?` -> one sentence that says that it cannot answer."""

    name = "abstention"
    phrasings = _KINDS

    def draw(self, slots: Slots) -> Example:
        """Draws a question of one of seven kinds."""
        rng = slots.rng
        kind = rng.choices(tuple(_KINDS), (0.24, 0.13, 0.14, 0.13, 0.17, 0.14, 0.05))[0]
        if kind == "pasted":
            text = " ".join(_sentence(slots) for _ in range(rng.randint(2, 5)))
            return Example(self.name, slots.request(_PASTED, text), REFUSAL, kind=slots.kind(kind))
        place = rng.choice(_PLACES) if rng.random() < 0.5 and not slots.unseen else slots.city()
        words = slots.words(3)
        prompt = slots.question(
            _KINDS[kind], place=place, name=slots.name(), thing=words[0], other=words[1], third=words[2],
            quality=slots.word(), id=slots.identifier(), year=rng.randint(1000, 2059), n=slots.number(4),
            m=max(2, slots.number(2)),
        )  # fmt: skip
        if rng.random() < 0.1:
            prompt = (
                f"{rng.choice(('Please tell me:', 'Hello,', 'Hi!', 'Question:', 'Tell me,', 'I wonder:'))} {prompt}"
            )
        return Example(self.name, prompt, REFUSAL, kind=slots.kind(kind))

    def grade(self, example: Example, text: str) -> bool:  # noqa: ARG002
        """Accepts the sentence that says so."""
        return abstains(text)


def _sentence(slots: Slots) -> str:
    words = slots.words(slots.rng.randint(3, 8))
    for place in range(1, len(words), 2):
        words[place] = slots.rng.choice(("the", "a", "and", "with", "of", "was", "in", "had", words[place]))
    return f"{' '.join(words).capitalize()}."
