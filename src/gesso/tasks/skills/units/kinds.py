"""Lists the units that quantities are given in, by what they measure."""

from dataclasses import dataclass

from gesso.tasks.skills.patterns import Phrasings, read_phrasings


@dataclass(frozen=True, slots=True)
class Unit:
    """Holds the names of a unit, short, British and American, and how many of the smallest of its kind it is."""

    names: tuple[str, str, str]
    size: int
    one: str = ""
    """The name of one, where it is not the others without their s."""

    @property
    def singulars(self) -> tuple[str, str, str]:
        """Returns the names of one, in the same order."""
        short, *long = self.names
        british, american = (self.one or name.removesuffix("s") for name in long)
        return british if short == self.names[1] else short, british, american


@dataclass(frozen=True, slots=True)
class Kind:
    """Holds units of the same kind, the smallest first, and what sentences tell of them."""

    units: tuple[Unit, ...]
    facts: str
    share: float
    decimal: bool = False
    """Whether they are powers of ten apart."""
    sign: str = ""
    """The sign that stands before an amount of the largest, as that of money does."""


def _kind(*units: tuple[str, int]) -> tuple[Unit, ...]:
    """Reads units from `short/British/American[/one]`, with their sizes."""
    found = []
    for names, size in units:
        short, british, american, *one = names.split("/")
        found.append(Unit((short, british, american), size, *one))
    return tuple(found)


_LENGTH = _kind(
    ("mm/millimetres/millimeters", 1), ("cm/centimetres/centimeters", 10), ("m/metres/meters", 1000),
    ("km/kilometres/kilometers", 10**6),
)  # fmt: skip
_WEIGHT = _kind(
    ("mg/milligrams/milligrams", 1), ("g/grams/grams", 1000), ("kg/kilograms/kilos", 10**6), ("t/tons/tonnes", 10**9)
)
_VOLUME = _kind(
    ("ml/millilitres/milliliters", 1), ("cl/centilitres/centiliters", 10), ("dl/decilitres/deciliters", 100),
    ("l/litres/liters", 1000),
)  # fmt: skip
_BYTES = _kind(
    ("bytes/bytes/bytes", 1), ("kB/kilobytes/kilobytes", 10**3), ("MB/megabytes/megabytes", 10**6),
    ("GB/gigabytes/gigabytes", 10**9), ("TB/terabytes/terabytes", 10**12),
)  # fmt: skip
_TIME = _kind(
    ("s/seconds/seconds", 1), ("min/minutes/minutes", 60), ("h/hours/hours", 3600), ("days/days/days", 86400),
    ("weeks/weeks/weeks", 604800),
)  # fmt: skip
_BINARY = _kind(
    ("bytes/bytes/bytes", 1), ("KiB/kibibytes/kibibytes", 1024), ("MiB/mebibytes/mebibytes", 1024**2),
    ("GiB/gibibytes/gibibytes", 1024**3),
)  # fmt: skip
_AGES = _kind(
    ("years/years/years", 1), ("decades/decades/decades", 10), ("centuries/centuries/centuries/century", 100)
)  # fmt: skip
_FEET = _kind(("inches/inches/inches/inch", 1), ("feet/feet/feet/foot", 12), ("yards/yards/yards", 36))
KINDS = (
    Kind(_LENGTH, "length", 0.17, decimal=True),
    Kind(_WEIGHT, "weight", 0.12, decimal=True),
    Kind(_VOLUME, "volume", 0.1, decimal=True),
    Kind(_BYTES, "bytes", 0.09, decimal=True),
    Kind(_kind(("ms/milliseconds/milliseconds", 1), ("s/seconds/seconds", 1000)), "time", 0.04, decimal=True),
    Kind(_kind(("cents/cents/cents", 1), ("euros/euros/euros", 100)), "money", 0.035, decimal=True, sign="\u20ac"),
    Kind(_kind(("cents/cents/cents", 1), ("dollars/dollars/dollars", 100)), "money", 0.04, decimal=True, sign="$"),
    Kind(_kind(("pence/pence/pence/penny", 1), ("pounds/pounds/pounds", 100)), "money", 0.025, decimal=True,
         sign="\u00a3"),
    Kind(_TIME, "time", 0.235),
    Kind(_kind(("months/months/months", 1), ("years/years/years", 12)), "time", 0.03),
    Kind(_AGES, "time", 0.01),
    Kind(_FEET, "length", 0.035),
    Kind(_kind(("oz/ounces/ounces", 1), ("lb/pounds/pounds", 16)), "weight", 0.01),
    Kind(_kind(("pints/pints/pints", 1), ("quarts/quarts/quarts", 2), ("gallons/gallons/gallons", 8)), "volume", 0.01),
    Kind(_kind(("bits/bits/bits", 1), ("bytes/bytes/bytes", 8)), "bytes", 0.025),
    Kind(_BINARY, "bytes", 0.05),
    Kind(_kind(("pieces/pieces/items", 1), ("dozen/dozen/dozen/dozen", 12)), "count", 0.012),
    Kind(_kind(("eggs/eggs/eggs", 1), ("dozen/dozen/dozen/dozen", 12)), "count", 0.013),
)  # fmt: skip
COUNTED = ("bytes", "bits", "pieces", "eggs", "cents", "pence")
"""Units that are counted one by one: nobody has half a cent or a third of an egg."""
FACTS: dict[str, Phrasings] = {
    name: read_phrasings("units", name) for name in ("length", "weight", "volume", "bytes", "time", "money", "count")
}
"""Sentences that give a quantity."""


def spellings(unit: str) -> set[str]:
    """Returns all names of a unit, of one and of many."""
    same = [one for kind in KINDS for one in kind.units if unit in (*one.names, *one.singulars)]
    return {name for one in same for name in (*one.names, *one.singulars)}
