"""Keeps the tokens of long texts, which many examples are pieces of: encoded anew for each of its pieces, a book would
take as long as all of it."""

from gesso.train.data_records import Record, Text

KEPT_TOKENS = 1 << 24
"""Tokens that are kept at most, 64 MB, beside those of the newest text."""


class LongTexts:
    """Keeps texts of more than one piece, by the places of their lines; those that were added first go first."""

    def __init__(self, most: int = KEPT_TOKENS) -> None:
        self._most, self._tokens = most, 0
        self._texts: dict[tuple[int, int], Text] = {}

    def get(self, place: tuple[int, int]) -> Text | None:
        """Returns the text of a line, where it is kept.

        Args:
            place: the number of its file, and where it begins there.
        """
        return self._texts.get(place)

    def add(self, place: tuple[int, int], record: Record) -> None:
        """Keeps what was read of a line, where it is a long text."""
        if isinstance(record, Text) and len(record.parts) > 1:
            self._texts[place] = record
            self._tokens += len(record.ids)
            while self._tokens > self._most and len(self._texts) > 1:
                self._tokens -= len(self._texts.pop(next(iter(self._texts))).ids)
