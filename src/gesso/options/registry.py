"""Registers strategies: classes with options of their own, one file each, found by looking into a package.

A strategy is a frozen dataclass whose fields are its options and whose methods do the work. Its file registers it;
nothing else names it. What is a user's own is in files that `GESSO_IMPORT` names, or registered from Python. The
package's files must import without torch, because the command line reads their options for `--help`:
they import it inside their functions.
"""

import dataclasses
import importlib
import pkgutil
from collections.abc import Callable, Mapping, Set
from typing import Any, Generic, Protocol, TypeVar

from gesso.errors import OptionError
from gesso.options.kinds import Choice
from gesso.options.table import Option, checked, options_of
from gesso.options.user_code import import_named


class Strategy(Protocol):
    """Holds a strategy's options as fields of a frozen dataclass, all of them checked.

    Raises:
        OptionError: an impossible value.
    """

    def __post_init__(self) -> None:
        checked(self)


@dataclasses.dataclass(frozen=True, slots=True)
class StrategyName:
    """Takes the name of a strategy, of those that are registered when it is asked."""

    registry: "Registry[Any]"

    @property
    def words(self) -> tuple[str, ...]:
        return self.registry.names

    @property
    def label(self) -> str:
        return Choice(self.words).label

    bounds = ""

    def check(self, name: str, value: Any) -> str:
        return Choice(self.words).check(name, value)


S = TypeVar("S", bound=Strategy)
C = TypeVar("C", bound=type)


class Registry(Generic[S]):
    """Holds the strategies of one role, such as `sampler`."""

    def __init__(self, role: str, package: str, label: str = "") -> None:
        """
        Args:
            role: name of the option that chooses one.
            package: every module in it is imported when a strategy is first asked for.
            label: what they are called; `role` where it is empty.
        """
        self.role = role
        self.label = label or role
        self._package = package
        self._classes: dict[str, type[S]] = {}
        self._default = ""
        self._loaded = False
        self._options: dict[str, Option] | None = None
        self.taken: Callable[[], Set[str]] = frozenset
        """Returns the names of options that no strategy of this role may have."""

    def register(self, name: str, *, default: bool = False) -> Callable[[C], C]:
        """Returns a class decorator that makes a strategy known as `name`.

        It takes the place of itself as it was before, for a cell of a notebook is run again.

        Raises:
            TypeError: it is no strategy, two have one name, two are the default, or an option is declared in two ways.
        """

        def add(strategy: C) -> C:
            parameters = getattr(strategy, "__dataclass_params__", None)
            if Strategy not in strategy.__mro__ or parameters is None or not parameters.frozen:
                raise TypeError(
                    f"{self.role} {name}: {strategy.__name__} must subclass a strategy and be a frozen dataclass"
                )
            mine = options_of(strategy)
            if not strategy.__module__.startswith(f"{self._package}."):
                self._load()  # one's own must not take a name from those
                if taken := sorted(mine.keys() & self.taken()):
                    raise TypeError(
                        f"{self.role} {name}: another option is called {taken[0]}, which is no {self.label}'s"
                    )
            others = {
                known: other
                for known, other in self._classes.items()
                if known != name or _place(other) != _place(strategy)
            }
            if name in others or (default and self._default in others):
                raise TypeError(f"{self.role} {name}: there is another of this name, or another default")
            for known, other in others.items():
                theirs = options_of(other)
                for shared in mine.keys() & theirs.keys():
                    if differs := _difference(mine[shared], theirs[shared]):
                        raise TypeError(f"{self.role} {name}: {known} declares {shared} with another {differs}")
            self._classes[name] = strategy
            self._options = None
            self._default = name if default else self._default
            return strategy

        return add

    def unregister(self, name: str) -> None:
        """Forgets a strategy."""
        del self._classes[name]
        self._options = None

    @property
    def names(self) -> tuple[str, ...]:
        """Returns the names of all strategies; the default comes first."""
        self._load()
        return tuple(sorted(self._classes, key=lambda name: (name != self._default, name)))

    @property
    def classes(self) -> tuple[type[S], ...]:
        """Returns the strategies, in the order of their names."""
        return tuple(self._classes[name] for name in self.names)

    @property
    def default(self) -> str:
        """Returns the name of the strategy that is taken where nobody chooses."""
        self._load()
        return self._default

    @property
    def kind(self) -> StrategyName:
        """Returns the kind of the option that chooses a strategy."""
        return StrategyName(self)

    def get(self, name: object) -> type[S]:
        """Returns the class of a strategy.

        Raises:
            OptionError: there is none of this name.
        """
        return self._classes[self.kind.check(self.role, name)]

    def options(self) -> dict[str, Option]:
        """Returns the own options of all strategies, by name; `owner` says whose they are."""
        self._load()
        if self._options is None:
            found: dict[str, Option] = {}
            for name in self.names:
                for option, row in options_of(self._classes[name]).items():
                    first = found.get(option)
                    if first is None:
                        found[option] = dataclasses.replace(row, owner=f"{self.label} {name}")
                        continue
                    other = () if row.default == first.default else ((name, row.default),)
                    owner = f"{first.owner}, {name}"
                    found[option] = dataclasses.replace(first, owner=owner, others=(*first.others, *other))
            self._options = found
        return self._options

    def make(self, name: str, given: object, options: Mapping[str, Any]) -> S:
        """Makes a strategy with its options.

        Args:
            given: its options as the strategy itself, as a mapping, or None for the defaults.
            options: some of them, which go before those.

        Raises:
            OptionError: there is no such strategy or option, a value is impossible, or one of `options` changes what
                means nothing beside the others.
        """
        strategy = self.get(name)
        written = given if isinstance(given, Mapping) else {}
        start = strategy() if given is None or isinstance(given, Mapping) else given
        if type(start) is not strategy:
            message = f"{self.role}_options must be options of the {self.role} {name}, got {given!r}"
            raise OptionError(message, option=f"{self.role}_options")
        own = options_of(strategy)
        for option in (*written, *options):
            if option not in own:
                raise self.refusal(option, name)
        made = dataclasses.replace(start, **{**written, **options})  # type: ignore[type-var]
        for option, value in options.items():
            if value != written.get(option, getattr(start, option)):
                own[option].refuse_beside(made)
        return made

    def refusal(self, option: str, name: str) -> OptionError:
        """Returns the error that refuses an option that strategy `name` does not have."""
        owner = self.options()[option].owner if option in self.options() else None
        known = ", ".join(options_of(self.get(name))) or "none"
        whose = f"it belongs to {owner}" if owner else f"its options: {known}"
        message = f"{option} is no option of the {self.label} {name}; {whose}"
        return OptionError(message, option=option, hint=f"choose another {self.label}, or leave {option} out")

    def _load(self) -> None:
        if not self._loaded:
            self._loaded = True
            for module in pkgutil.iter_modules(importlib.import_module(self._package).__path__):
                importlib.import_module(f"{self._package}.{module.name}")
        import_named()


def _place(strategy: type) -> tuple[str, str]:
    return strategy.__module__, strategy.__qualname__


def _difference(one: Option, other: Option) -> str:
    """Returns in what two declarations of one option differ, but for what each strategy says of it by itself."""
    names = [row.name for row in dataclasses.fields(Option) if row.name not in ("default", "help", "needs")]
    return next((name for name in names if getattr(one, name) != getattr(other, name)), "")
