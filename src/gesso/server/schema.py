"""What request schemas are made of: strict models, and fields that refuse by name."""

import math
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    StringConstraints,
)
from pydantic_core import CoreSchema, PydanticCustomError
from pydantic_core.core_schema import no_info_before_validator_function


class Strict(BaseModel):
    """Takes exactly what it declares: no other field, no conversion between types, no NaN."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, protected_namespaces=())


@dataclass(frozen=True, slots=True)
class Only:
    """Annotates a field of which only some values, and null, are supported; the rest is refused with the reason."""

    allowed: tuple[Any, ...]
    because: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_before_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"enum": [*self.allowed, None], "description": self.because}

    def _check(self, value: object) -> object:
        if value is not None and not any(type(value) is type(good) and value == good for good in self.allowed):
            raise PydanticCustomError("refused", "{because}", {"because": self.because})
        return value


def only(*allowed: Any, because: str) -> Only:
    """Annotates a field of which only these values, and null, are supported."""
    return Only(allowed, because)


def refused(because: str) -> Only:
    """Annotates a field of OpenAI's that is known and not supported; null counts as left out."""
    return Only((), because)


def contradiction(field: str, message: str) -> PydanticCustomError:
    """Makes the error of two fields that contradict each other; `field` is the one to change."""
    return PydanticCustomError("refused", "{because}", {"because": message, "field": field})


def _finite(value: Any) -> Any:
    """Numbers such as 1e999 are JSON and still no numbers."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("a number is too large")
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _finite(part)
    return value


JsonObject = Annotated[dict[str, Any], AfterValidator(_finite)]
TokenId = Annotated[int, Field(ge=0, lt=2**31)]
FunctionName = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9_.-]{1,64}$")]
