"""The formats of JSON Schema that strings can be held to, each a part of what the format allows."""

from gesso.constraints.expression import Expression
from gesso.constraints.regex import parse

_DATE = (
    r"([1-9]\d{3}-((0[13578]|1[02])-(0[1-9]|[12]\d|3[01])|(0[469]|11)-(0[1-9]|[12]\d|30)|02-(0[1-9]|1\d|2[0-8]))"
    r"|([1-9]\d(0[48]|[2468][048]|[13579][26])|([13579][26]|[2468][048])00)-02-29)"
)
_TIME = r"([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)"
_OCTET = r"(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_LABEL = r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?"

FORMATS = {
    "date": _DATE,
    "time": _TIME,
    "date-time": f"{_DATE}T{_TIME}",
    "uuid": r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    "email": rf"[A-Za-z0-9_]+([.+-][A-Za-z0-9_]+)*@({_LABEL}\.){{1,3}}[a-z]{{2,12}}",
    "hostname": rf"({_LABEL}\.){{0,3}}[a-z][a-z0-9]{{0,30}}",
    "ipv4": rf"{_OCTET}(\.{_OCTET}){{3}}",
}
"""Years are 1000 to 9999, second 60 is left out, mail and host names are short and plain."""


def format_expression(name: str) -> Expression:
    """The texts of a format in `FORMATS`; none needs an escape in JSON."""
    return parse(FORMATS[name])
