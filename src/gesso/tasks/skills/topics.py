"""Asks which of the topics that the request names a plain sentence is about."""

from typing import ClassVar

from gesso.tasks.base import Example
from gesso.tasks.skills.skill import Skill
from gesso.tasks.skills.slots import Slots, read_phrasings
from gesso.tasks.words import words_of

_ASK = read_phrasings("topics", "ask")
_WORDS = {
    "sports": words_of("""
        match goal team coach stadium referee player league tennis football race medal tournament athlete ball
        basketball baseball boxing champion championship cricket cycling defender fitness golf gym gymnast hockey
        judo jogging karate kick marathon midfielder opponent playoff racket relay rugby runner skating skiing
        soccer sprint striker surfing swimmer training trophy umpire volleyball whistle winner workout wrestler yoga
        skateboard javelin fencing rowing archery
    """),
    "weather": words_of("""
        rain snow storm sunshine clouds wind frost thunder temperature fog hail heat breeze blizzard climate cyclone
        drizzle drought flood forecast gale gust heatwave humidity hurricane lightning mist monsoon puddle rainbow
        raincoat shower sleet slush snowfall snowflake summer sun thaw thermometer thunderstorm tornado typhoon
        umbrella warmth winter barometer downpour sunset icicle
    """),
    "food": words_of("""
        soup recipe kitchen bread cheese restaurant cook dinner spices salad dessert flour apple bacon bakery banana
        beans beef biscuit breakfast broth burger butter cafe cake carrot cereal chef chicken chocolate coffee
        cookie cream curry dish egg fork garlic grape ham honey jam juice ketchup lemon lunch meal meat menu milk
        mushroom noodles oil olive onion oven pancake pasta pastry pepper pie pizza plate pork potato pudding rice
        salt sandwich sauce sausage snack spoon stew steak sugar supper sushi tea toast tomato vanilla vegetable
        waiter yoghurt
    """),
    "music": words_of("""
        song concert guitar piano singer orchestra melody album drums violin choir rhythm accordion anthem aria
        ballad band banjo cello chord chorus clarinet composer conductor disco drummer duet flute harmony harp hymn
        jazz lullaby lyrics microphone musician opera overture playlist quartet rap reggae saxophone soloist sonata
        soprano soundtrack symphony tempo trombone trumpet tuba tune ukulele vinyl waltz
    """),
    "travel": words_of("""
        flight hotel luggage airport passport train holiday tourist suitcase journey ticket border abroad adventure
        airline backpack beach boat bus cabin camping campsite compass cruise customs departure destination embassy
        expedition ferry globe guidebook harbour hostel island itinerary landmark lighthouse map motel museum
        mountains passenger pilgrimage platform pyramid railway reservation resort road route safari sightseeing
        souvenir station stopover taxi tour tram trip vacation visa voyage traveller
    """),
    "money": words_of("""
        bank loan price tax salary account budget invoice interest coin debt payment allowance auction banker
        bankruptcy bargain bill bond broker cash cashier cent cheque cost credit currency deposit discount dollar
        economy euro expense fee finance fortune fund income inflation insurance inheritance investment investor
        lottery millionaire mortgage pension pound profit receipt refund rent revenue saving savings shareholder
        stock transfer treasury wage wallet wealth
    """),
    "health": words_of("""
        doctor hospital fever medicine nurse pain vaccine clinic illness surgery cough patient ache allergy
        ambulance antibiotic appointment asthma bandage blood bone bruise cancer cure dentist diabetes diagnosis
        diet disease dose drug emergency flu fracture headache infection inflammation injection injury kidney lung
        massage migraine muscle ointment pharmacy physician pill plaster pneumonia pregnancy prescription pulse rash
        recovery sneeze stomach surgeon symptom syringe tablet therapy throat tooth toothache treatment virus
        vitamin wound x-ray
    """),
    "school": words_of("""
        teacher pupil exam homework classroom lesson student grade textbook university lecture essay algebra
        alphabet assignment biology blackboard campus chalk chemistry classmate college curriculum dictionary
        diploma eraser examination exercise faculty geography geometry graduate graduation grammar headmaster
        history kindergarten learning library mathematics notebook pencil physics playground principal professor
        quiz ruler scholar scholarship schoolbag schoolyard semester seminar thesis tuition tutor undergraduate
    """),
    "computers": words_of("""
        software keyboard program server browser file screen password network laptop code processor algorithm
        antivirus backup battery bug byte cable chip click compiler computer cursor data database desktop developer
        disk display download driver email firewall folder gigabyte hacker hardware icon internet login malware
        megabyte modem monitor pixel plugin printer programmer ram reboot router script spreadsheet startup
        touchscreen typo update upload url usb username website wifi webcam
    """),
    "animals": words_of("""
        dog cat horse bird fish zoo lion elephant rabbit cow sheep tiger ant ape bat beak bear beaver bee beetle
        butterfly camel cheetah chick claw cobra crab crocodile crow deer dolphin donkey dragonfly duck eagle
        feather ferret fox frog fur giraffe goat goose gorilla hamster hawk hedgehog hen herd hippo hive insect
        jaguar kangaroo kennel kitten koala lamb leopard lizard mammal monkey moth nest octopus ostrich otter owl ox
        panda parrot paw peacock penguin pet pig pigeon pony puppy rat raven rhino seal shark snail snake spider
        squirrel stork swan tortoise turtle veterinarian wasp whale whiskers wolf worm zebra
    """),
}
_SENTENCES = read_phrasings("topics", "sentences")
_PLAIN = {topic: read_phrasings("topic_sentences", topic) for topic in _WORDS}
_PLAIN_SHARE = 0.45


class Topics(Skill):
    """Asks such as `Is this about sports or food? Grelmo asked for the soup and a recipe.` -> `food`."""

    name = "topics"
    phrasings: ClassVar = {"ask": _ASK, "sentence": _SENTENCES, **_PLAIN}

    def draw(self, slots: Slots) -> Example:
        """Draws a sentence with two words of a topic, or a plain one, and two to four topics to choose from."""
        rng = slots.rng
        labels = rng.sample(sorted(_WORDS), rng.randint(2, 4))
        answer = rng.choice(labels)
        values = {"name": slots.first_name(), "city": slots.city(), "noun": slots.word(), "number": slots.number(3)}
        if rng.random() < _PLAIN_SHARE:
            text = slots.choice(_PLAIN[answer], **values)
        else:
            a, b = rng.sample(_WORDS[answer], 2)
            text = slots.choice(_SENTENCES, a=a, b=b, **values)
        listed = ", ".join(labels[:-1]) + (" or " if rng.random() < 0.7 else ", ") + labels[-1]
        ask = slots.choice(_ASK, labels=listed)
        gap = rng.choice((" ", "\n", "\n\n"))
        prompt = f"{ask}{gap}{text}" if rng.random() < 0.6 else f"{text}{gap}{ask}"
        return Example(self.name, prompt, answer, kind=slots.kind(str(len(labels))))

    def grade(self, example: Example, text: str) -> bool:
        """Accepts the topic, in whatever case, with or without a mark."""
        return text.strip().rstrip(".").lower() == example.answer
