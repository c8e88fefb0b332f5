"""Holds what a command line says of a config, for commands that decide on the rest by what was given."""

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from gesso.cli.option_rows import first_flag
from gesso.options import options_of

T = TypeVar("T")


class Given(Generic[T]):
    """Holds the settings of a config that were given, each of them checked.

    A command has the flags of a config where a parameter is annotated so (`gesso.cli.options.takes`).
    """

    def __init__(self, config: type[T], values: Mapping[str, Any], usual: Mapping[str, Any]) -> None:
        """
        Args:
            config: the dataclass.
            values: what was given, by name.
            usual: defaults of the command, where they are not the config's.
        """
        self.config = config
        self.values = dict(values)
        self._usual = {name: value for name, value in usual.items() if name in options_of(config)}

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def __getitem__(self, name: str) -> Any:
        """Returns what was given, or else holds in this command."""
        return {name: options_of(self.config)[name].default, **self._usual, **self.values}[name]

    @property
    def flags(self) -> list[str]:
        """Returns the flags that were given."""
        return [first_flag(options_of(self.config)[name]) for name in self.values]

    def build(self, **decided: Any) -> T:
        """Returns the config.

        Args:
            decided: what the command decides, given or not.

        Raises:
            OptionError: settings contradict each other.
        """
        return self.config(**{**self._usual, **self.values, **decided})
