"""The skills with open slots, in the order in which they are told of."""

from gesso.tasks.skills.casing import Casing
from gesso.tasks.skills.duplicates import Duplicates
from gesso.tasks.skills.replacing import Replacing
from gesso.tasks.skills.reversing import Reversing
from gesso.tasks.skills.skill import Skill
from gesso.tasks.skills.sorting import Sorting

SKILLS: tuple[Skill, ...] = (Sorting(), Duplicates(), Reversing(), Casing(), Replacing())
