"""Carries what a follower cannot load to the leader, who says it as one process alone would."""

from dataclasses import dataclass

from gesso.errors import UserError


@dataclass(frozen=True, slots=True)
class Refusal:
    """Holds an error of the user's as a message of a rank."""

    kind: type[UserError]
    text: str
    option: str | None
    hint: str | None

    @classmethod
    def of(cls, error: UserError) -> "Refusal":
        """Returns the message that says an error."""
        return cls(type(error), str(error), error.option, error.hint)

    @property
    def error(self) -> UserError:
        """Returns the error that the message says."""
        return self.kind(self.text, option=self.option, hint=self.hint)
