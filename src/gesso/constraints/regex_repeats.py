"""Reads how often something may be repeated in a regular expression."""

from gesso.constraints.regex_characters import Characters

MAX_REPEAT = 10_000
"""Turns of one counted repetition, at most."""


class Repeats(Characters):
    """Holds a pattern whose quantifiers are read."""

    def quantifier(self) -> tuple[int, int | None] | None:
        """Returns the fewest and the most times, or None where nothing is repeated here."""
        if self.take("*"):
            return 0, None
        if self.take("+"):
            return 1, None
        if self.take("?"):
            return 0, 1
        begin = self.at
        if not self.take("{"):
            return None
        least = self.number()
        most = least
        if self.take(","):
            most = self.number()
            if least is None and most is not None and self.sees("}"):
                raise self.refuse("{,n} means different things in different dialects, write {0,n}", begin)
        elif least is None:
            self.at = begin
            return None
        if least is None or not self.take("}"):
            self.at = begin
            return None
        if most is not None and most < least:
            raise self.refuse("a repetition whose most is less than its least", begin)
        if max(least, most or 0) > MAX_REPEAT:
            raise self.refuse(f"a repetition of more than {MAX_REPEAT}", begin)
        return least, most

    def number(self) -> int | None:
        """Returns a whole number, of its digits the first nine behind leading zeros."""
        begin = self.at
        while self.at < len(self.pattern) and self.pattern[self.at] in "0123456789":
            self.at += 1
        return int(self.pattern[begin : self.at].lstrip("0")[:9] or "0") if self.at > begin else None
