"""Provides what request schemas are made of: strict models, and fields that refuse by name."""

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    StringConstraints,
    model_validator,
)
from pydantic_core import CoreSchema, PydanticCustomError
from pydantic_core.core_schema import no_info_before_validator_function

MOST_FIELDS = 128
"""Members of an object that a body declares: more are refused before each of them is looked at."""
MAX_STOP = 16
MOST_ENTRIES = 2**13
"""Entries of an object whose keys are free."""


class Strict(BaseModel):
    """Takes exactly what it declares: no other field, no conversion between types, no NaN. A `null` is the same as
    leaving a field out that may be left out."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, protected_namespaces=())
    keeps_foreign_nulls: ClassVar[bool] = True
    """Whether a `null` under a key that no field has is refused as any other value is."""

    @model_validator(mode="before")
    @classmethod
    def _check_size(cls, value: Any) -> Any:
        if isinstance(value, dict) and len(value) > MOST_FIELDS:
            raise PydanticCustomError("refused", "has {count} fields, and none has so many", {"count": len(value)})
        return value

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, value: Any) -> Any:
        if isinstance(value, dict) and None in value.values():
            required, foreign = _required(cls), cls.keeps_foreign_nulls
            return {key: part for key, part in value.items() if part is not None or required.get(key, foreign)}
        return value


class Repeated(Strict):
    """Takes a part of an earlier answer as clients put it back: their types may have fields that are none here, which
    are left out where they hold nothing."""

    keeps_foreign_nulls = False


@functools.cache
def _required(model: type[BaseModel]) -> dict[str, bool]:
    """Says of every key whether it must be there."""
    return {field.alias or name: field.is_required() for name, field in model.model_fields.items()}


def _few(value: Any) -> Any:
    if isinstance(value, dict) and len(value) > MOST_ENTRIES:
        raise PydanticCustomError(
            "refused", "has {count} entries, {most} are possible", {"count": len(value), "most": MOST_ENTRIES}
        )
    return value


@dataclass(frozen=True, slots=True)
class Only:
    """Annotates a field of which only some values, and null, are supported; the rest is refused with the reason."""

    allowed: tuple[Any, ...]
    because: str
    details: Mapping[str, Any] | None = None
    """What a client reads of the refusal, where its interface has a place for that."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_before_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"enum": [*self.allowed, None], "description": self.because}

    def _check(self, value: object) -> object:
        if value is not None and not any(type(value) is type(good) and value == good for good in self.allowed):
            raise PydanticCustomError("refused", "{because}", {"because": self.because, "details": self.details})
        return value


def only(*allowed: Any, because: str) -> Only:
    """Annotates a field of which only these values, and null, are supported."""
    return Only(allowed, because)


def refused(because: str, details: Mapping[str, Any] | None = None) -> Only:
    """Annotates a field of an interface that is known and not supported; null counts as left out."""
    return Only((), because, details)


def contradiction(field: str, message: str) -> PydanticCustomError:
    """Makes the error of two fields that contradict each other; `field` is the one to change."""
    return PydanticCustomError("refused", "{because}", {"because": message, "field": field})


def _finite(value: Any) -> Any:
    """Numbers such as 1e999 are JSON and still no numbers."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("a number is too large")
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        if isinstance(part, float | dict | list):
            _finite(part)
    return value


FirstError: Any = Field(fail_fast=True)
"""Annotates a list whose first wrong item is enough to know of."""
NonEmpty = Annotated[str, StringConstraints(min_length=1)]
StopList = Annotated[list[NonEmpty], FirstError, Field(max_length=MAX_STOP)]
Stop = NonEmpty | StopList
Bounded = BeforeValidator(_few)
"""Annotates an object whose keys are free: it has a bounded number of entries."""
Parsed = Annotated[Any, Field(description="what the client's library read the text as: taken, and not looked at")]
"""Annotates what a library puts beside the text of an answer, and sends back with it."""
JsonObject = Annotated[dict[str, Any], AfterValidator(_finite)]
TokenId = Annotated[int, Field(ge=0, lt=2**31)]
FunctionName = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9_.-]{1,128}$")]
