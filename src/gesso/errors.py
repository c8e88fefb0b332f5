"""Defines all errors that gesso raises on purpose, as one tree:

GessoError
├── UserError            the caller can mend it: one line, exit code 2
│   ├── OptionError      an option or request field is impossible or contradicts another
│   │   └── ContextLengthError  a prompt and its answer are together longer than the context
│   ├── ConfigError      a config file has an unknown key or an impossible value
│   ├── CheckpointError  weights are missing, foreign, truncated or misshapen
│   ├── HubError         a model is not here and could not be fetched
│   ├── TextError        a prompt, chat template or tokenizer cannot be used
│   │   └── PromptLengthError   it is longer than the context
│   ├── ImageError       an image or a clip cannot be read, or is too large
│   └── DataError        training data or a trace file has a bad line
├── TrainingError        a run went wrong by itself (a loss that is not a number, a full disk)
├── NotANumberError      a model's scores are no numbers
├── QueueFullError       too many requests wait already
└── ClosingError         the service is shutting down
    └── EngineDeadError  the engine has failed for good: the process has to be started anew
        └── RankLostError  a process that computes a part of the model has ended or hangs
"""

from typing import ClassVar


class GessoError(Exception):
    """Marks every error that gesso raises on purpose."""


class UserError(GessoError, ValueError):
    """Reports what the caller can mend; the command line prints one line and exits with 2.

    Args:
        message: one line for people, which says what is wrong.
        option: name of the option to blame, as a Python keyword, where one is; HTTP's `param` is made from it.
        hint: what to do about it, where the message does not say so.
    """

    code: ClassVar[str | None] = None
    """OpenAI's short name of the error, where it has one."""

    def __init__(self, message: str = "", *, option: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.option = option
        """The option or field that is meant, where there is one."""
        self.hint = hint
        """What to do instead, where there is something to say beyond the message."""


class OptionError(UserError):
    """Reports an option or request field that is impossible or contradicts another."""

    @classmethod
    def no_engine(cls, given: object) -> "OptionError":
        """Returns the error that refuses what is given in the place of an engine, such as the name of a model."""
        return cls(f"engine must be what gesso.load returns, got {given!r:.60}", option="engine")

    @classmethod
    def no_adapter(cls, name: str, known: tuple[str, ...]) -> "OptionError":
        """Returns the error that refuses a name that no adapter has."""
        return cls(f"no adapter {name!r}; known: {', '.join(sorted(known)) or 'none'}", option="adapter")


class ContextLengthError(OptionError):
    """Reports a prompt that is longer than the context together with the answer that is asked for."""

    code = "context_length_exceeded"


class ConfigError(UserError):
    """Reports a config file with an unknown key or an impossible value."""


class CheckpointError(UserError):
    """Reports weights that are missing, foreign, truncated or misshapen."""


class HubError(UserError):
    """Reports a model that is not on this machine and could not be fetched."""


class TextError(UserError):
    """Reports a prompt, chat template or tokenizer that cannot be used."""


class PromptLengthError(TextError):
    """Reports a prompt that is longer than the context."""

    code = "context_length_exceeded"


class ImageError(UserError):
    """Reports an image or a clip that cannot be read, or is too large."""


class DataError(UserError):
    """Reports a bad line of training data or of a trace file."""


class TrainingError(GessoError):
    """Reports a training run that went wrong by itself."""


class NotANumberError(GessoError):
    """Reports a model whose scores are no numbers: its weights are damaged, or too large for the dtype."""

    def __init__(
        self,
        message: str = "the model's scores are not numbers: its weights are damaged, or what it computes is too large "
        "for the dtype (float16 ends at 65,504; bfloat16 and float32 do not)",
    ) -> None:
        super().__init__(message)  # taken as an argument, as whatever unpickles an error of another process gives it


class QueueFullError(GessoError):
    """Refuses a request because too many wait already."""

    def __init__(self, message: str, retry_after: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """Seconds after which there is likely to be room."""


class ClosingError(GessoError):
    """Refuses a request because the service is shutting down."""


class EngineDeadError(ClosingError):
    """Refuses a request because the engine has failed for good: the process must be restarted."""


class RankLostError(EngineDeadError):
    """Reports that a rank has ended, or did not answer in time: the model cannot be computed any more."""
