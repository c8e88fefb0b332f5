"""Lists the skills with open slots, in the order in which they are reported."""

from gesso.tasks.skills.abstention import Abstention
from gesso.tasks.skills.calls import Calls
from gesso.tasks.skills.casing.skill import Casing
from gesso.tasks.skills.changes.skill import Changes
from gesso.tasks.skills.contexts import Contexts
from gesso.tasks.skills.conversion.skill import Conversion
from gesso.tasks.skills.dates.skill import Dates
from gesso.tasks.skills.dialogues import Dialogues
from gesso.tasks.skills.duplicates.skill import Duplicates
from gesso.tasks.skills.extraction.skill import Extraction
from gesso.tasks.skills.filling import Filling
from gesso.tasks.skills.functions.skill import Functions
from gesso.tasks.skills.ranges.skill import Ranges
from gesso.tasks.skills.replacing.skill import Replacing
from gesso.tasks.skills.results import Results
from gesso.tasks.skills.reversing.skill import Reversing
from gesso.tasks.skills.sentiment.skill import Sentiment
from gesso.tasks.skills.skill import Skill
from gesso.tasks.skills.sorting.skill import Sorting
from gesso.tasks.skills.sums.skill import Sums
from gesso.tasks.skills.topics import Topics
from gesso.tasks.skills.units.skill import Units

_PLAIN = (
    Sorting(), Duplicates(), Reversing(), Casing(), Replacing(), Extraction(), Conversion(), Dates(), Units(),
    Sums(), Ranges(), Functions(), Changes(),
)  # fmt: skip
_TOLD = (Sentiment(), Topics(), Dialogues())
SKILLS: tuple[Skill, ...] = (
    *_PLAIN, Filling(), Calls(), Results(), *_TOLD, Contexts((*_PLAIN, *_TOLD, Abstention())), Abstention(),
)  # fmt: skip
