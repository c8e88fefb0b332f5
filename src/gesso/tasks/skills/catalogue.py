"""Lists the skills with open slots, in the order in which they are reported."""

from gesso.tasks.skills.abstention import Abstention
from gesso.tasks.skills.calls import Calls
from gesso.tasks.skills.casing import Casing
from gesso.tasks.skills.changes import Changes
from gesso.tasks.skills.conversion import Conversion
from gesso.tasks.skills.dates import Dates
from gesso.tasks.skills.dialogues import Dialogues
from gesso.tasks.skills.duplicates import Duplicates
from gesso.tasks.skills.extraction import Extraction
from gesso.tasks.skills.filling import Filling
from gesso.tasks.skills.functions import Functions
from gesso.tasks.skills.ranges import Ranges
from gesso.tasks.skills.replacing import Replacing
from gesso.tasks.skills.reversing import Reversing
from gesso.tasks.skills.sentiment import Sentiment
from gesso.tasks.skills.skill import Skill
from gesso.tasks.skills.sorting import Sorting
from gesso.tasks.skills.sums import Sums
from gesso.tasks.skills.topics import Topics
from gesso.tasks.skills.units import Units

SKILLS: tuple[Skill, ...] = (
    Sorting(), Duplicates(), Reversing(), Casing(), Replacing(), Extraction(), Conversion(), Dates(), Units(),
    Sums(), Ranges(),
    Functions(), Changes(), Filling(), Calls(), Sentiment(), Topics(), Dialogues(), Abstention(),
)  # fmt: skip
