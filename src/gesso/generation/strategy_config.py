"""Makes, reads and changes a configuration that chooses strategies, whose options it takes and has beside its own."""

import dataclasses
from dataclasses import dataclass
from typing import Any, Self

from gesso.generation.contradictions import gives_way, refuse_contradictions
from gesso.generation.strategies import HOLDERS, STRATEGIES
from gesso.generation.table import with_strategies
from gesso.options import checked, options_of, unknown_option


@dataclass(frozen=True, slots=True, init=False)
class StrategyConfig:
    """Gives a frozen dataclass of options those of the strategies that it chooses.

    For each role there are two fields: one that chooses the strategy by its name, and one that holds it.
    """

    def __init__(self, **values: Any) -> None:
        for field in dataclasses.fields(self):
            made = field.default_factory() if callable(field.default_factory) else field.default
            object.__setattr__(self, field.name, values.pop(field.name, made))
        known = with_strategies(type(self))
        for name in values:
            if name not in known:
                raise unknown_option(name, known)
        self._choose(values)
        checked(self)
        refuse_contradictions(self)

    def _choose(self, given: dict[str, Any]) -> None:
        """Makes the chosen strategies, with these of their options."""
        for role, registry in STRATEGIES.items():
            mine = registry.options()
            own = {name: value for name, value in given.items() if name in mine}
            made = registry.make(getattr(self, role), getattr(self, f"{role}_options"), own)
            object.__setattr__(self, f"{role}_options", made)

    def __getattr__(self, name: str) -> Any:
        """An option of one of the chosen strategies; called where there is no such field."""
        if not name.startswith("_"):
            for role in STRATEGIES:
                strategy = object.__getattribute__(self, f"{role}_options")
                if name in options_of(type(strategy)):
                    return getattr(strategy, name)
        raise AttributeError(f"{type(self).__name__} has no option {name!r}")

    def override(self, **changes: Any) -> Self:
        """Returns a copy with the changes that are not None. Another sampler, schedule or stopping rule has its own
        defaults.

        Raises:
            OptionError: an option that does not exist, or a value that is impossible.
        """
        known = with_strategies(type(self))
        for name in changes:
            if name not in known and name not in HOLDERS:
                raise unknown_option(name, known)
        given = {name: value for name, value in changes.items() if value is not None}
        given = gives_way(self, given) | given
        for role in STRATEGIES:
            if given.get(role, getattr(self, role)) != getattr(self, role):
                given.setdefault(f"{role}_options", None)
        kept = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return type(self)(**(kept | given))
