"""Declares rows of the table: an option's declaration, and how a dataclass is read as a part of the table."""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal, get_args, get_origin, get_type_hints

from gesso.errors import OptionError
from gesso.options.kinds import Choice, Integer, Kind, Number, Switch, Text

METADATA = "option"
File = Literal["generation_config.json", "gesso.json", ""]
"""The file of a checkpoint that may set an option; none may where it is empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """Declares one option."""

    name: str
    """The Python keyword; the command line's flag and the key in files are made from it."""
    kind: Kind
    default: Any
    help: str
    """A whole sentence."""
    unit: str = ""
    optional: bool = False
    """Whether None is a value; `default` is None then."""
    unset: str = ""
    """What None means."""
    field: str | None = None
    """Path of the field in an HTTP request; None where a request has none."""
    file: File = ""
    """The file of a checkpoint that may set it."""
    flag: str | None = None
    """Flag on the command line; None where no command has it."""
    source: Literal["value", "commas", "file", "schema file"] = "value"
    """What the command line takes: the value, its parts with commas between them, or the name of a file that holds it
    as text or as JSON."""
    group: str = ""
    """Heading in help and pages."""
    needs: tuple[str, ...] = ()
    """Another option of the same strategy, and the values of it under which this one means something; empty: all."""
    owner: str = ""
    """The strategy whose option it is, such as `sampler entropy_bound`."""
    others: tuple[tuple[str, Any], ...] = ()
    """Strategies that share the option with another default, and that."""

    def check(self, value: Any) -> Any:
        """Returns the value as the configuration holds it.

        Raises:
            OptionError: the value is impossible.
        """
        return None if self.optional and value is None else self.kind.check(self.name, value)

    def refuse_beside(self, strategy: Any) -> None:
        """Refuses the option where it means nothing beside the others of its strategy.

        Raises:
            OptionError: it does not.
        """
        other, *values = self.needs or ("",)
        if other and getattr(strategy, other) not in values:
            message = f"{self.name} means nothing with {other} {getattr(strategy, other)}"
            raise OptionError(message, option=self.name, hint=f"set {other} to {' or '.join(values)}")

    @property
    def shown_default(self) -> str:
        """Returns the default as the pages show it, those of other strategies behind it."""
        others = "".join(f"; {strategy}: {default}" for strategy, default in self.others)
        return self._own_default + others

    @property
    def _own_default(self) -> str:
        if self.default is None:
            return self.unset or "none"
        if isinstance(self.default, bool):
            return str(self.default).lower()
        return str(self.default) if self.default not in ((), {}, "") else "none"


def option(
    default: Any,
    help: str,  # noqa: A002
    *,
    unit: str = "",
    kind: Kind | None = None,
    minimum: float | None = None,
    above: float | None = None,
    maximum: float | None = None,
    below: float | None = None,
    unset: str = "",
    field: str | None = "diffusion.*",
    file: File = "",
    flag: str | None = "--*",
    source: Literal["value", "commas", "file", "schema file"] = "value",
    group: str = "",
    needs: tuple[str, ...] = (),
) -> Any:
    """Declares a field of a dataclass that is an option.

    Args:
        default: its value where nobody sets it; None makes it optional, and `dataclasses.MISSING` required.
        help: a whole sentence.
        kind: what its values are; None reads it from the annotation (int, float, bool, str, Literal).
        minimum, above, maximum, below: bounds of a number.
        unset: what None means.
        field: path in an HTTP request; `*` stands for the name.
        file: file of a checkpoint that may set it.
        flag: on the command line; `*` stands for the name.
        needs: an option of the same strategy, and the values of it under which this one means something.
    """
    declared = {
        "help": help, "unit": unit, "kind": kind, "bounds": (minimum, above, maximum, below), "unset": unset,
        "field": field, "file": file, "flag": flag, "source": source, "group": group, "needs": needs,
    }  # fmt: skip
    made = {"default_factory": lambda: default} if isinstance(default, dict) else {"default": default}
    return dataclasses.field(**made, metadata={METADATA: declared})


_TABLES: dict[type, dict[str, Option]] = {}


def options_of(declaring: type) -> dict[str, Option]:
    """Returns the options that a dataclass declares, by name, in their order."""
    if declaring not in _TABLES:
        hints = get_type_hints(declaring)
        _TABLES[declaring] = {
            field.name: declare(field.name, hints[field.name], _default(field), **field.metadata[METADATA])
            for field in dataclasses.fields(declaring)
            if METADATA in field.metadata
        }
    return _TABLES[declaring]


def _default(field: "dataclasses.Field[Any]") -> Any:
    return field.default_factory() if callable(field.default_factory) else field.default


def declare(name: str, annotation: Any, default: Any, **declared: Any) -> Option:
    """Makes a row of the table.

    Raises:
        TypeError: the annotation tells no kind, which is a fault of the declaration.
    """
    bounds, kind = declared.pop("bounds", (None,) * 4), declared.pop("kind", None)
    field, flag = declared.pop("field"), declared.pop("flag")
    optional = type(None) in get_args(annotation)
    if optional and kind is None:
        (annotation,) = (part for part in get_args(annotation) if part is not type(None))
    return Option(
        name=name,
        kind=kind or _kind(name, annotation, bounds),
        default=default,
        optional=optional,
        field=None if field is None else field.replace("*", name),
        flag=None if flag is None else flag.replace("*", name.replace("_", "-")),
        **declared,
    )


def _kind(name: str, annotation: Any, bounds: tuple[float | None, ...]) -> Kind:
    if annotation in (int, float):
        return (Integer if annotation is int else Number)(*bounds)
    if get_origin(annotation) is Literal:
        return Choice(get_args(annotation))
    plain: dict[Any, Kind] = {bool: Switch(), str: Text()}
    if annotation not in plain:
        raise TypeError(f"option {name}: {annotation} needs a kind of its own")
    return plain[annotation]


def checked(instance: Any) -> None:
    """Checks every option of a frozen dataclass and puts its frozen form in place; for its `__post_init__`.

    Raises:
        OptionError: a value is impossible.
    """
    for name, row in options_of(type(instance)).items():
        object.__setattr__(instance, name, row.check(getattr(instance, name)))


def unknown_option(name: str, known: Iterable[str]) -> OptionError:
    """Returns the error that refuses an option that does not exist, and names the one that is meant, or all."""
    names = sorted(known)
    near = get_close_matches(str(name), names, n=1, cutoff=0.7)
    rest = f": did you mean {near[0]}?" if near else f"; known: {', '.join(names)}"
    return OptionError(f"unknown option {name!r}{rest}", option=name)


def keyword(flag: str) -> str:
    """Returns the keyword that a flag such as `--max-new-tokens` stands for."""
    return flag.lstrip("-").replace("-", "_")
