"""Lists the tasks with pictures, in the order in which they are reported."""

from gesso.tasks.sight.charts import Charts
from gesso.tasks.sight.picture_task import PictureTask
from gesso.tasks.sight.reading import Digits, Tables, Words
from gesso.tasks.sight.several import Clips, Comparisons
from gesso.tasks.sight.shapes import Colours, Counts, Positions

SIGHT: tuple[PictureTask, ...] = (
    Digits(), Colours(), Counts(), Words(), Positions(), Charts(), Tables(), Comparisons(), Clips(),
)  # fmt: skip
