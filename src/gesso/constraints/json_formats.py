r"""Defines the formats of JSON Schema that strings can be held to, each all of what the format allows or a plain part
of it.

Narrower than the format: years are 1000 to 9999, and second 60 is left out; host names have up to four labels of up to
31 characters, without two hyphens in a row; the part of an address before its `@` has up to 63 characters; a URI has a
name for a host, or none; the names of `idn-hostname` are those of `hostname`; a `regex` has groups in groups twice.
"""

from functools import cache, lru_cache

from gesso.constraints.byte_table import ByteAutomaton
from gesso.constraints.bytes_automaton import compile_bytes
from gesso.constraints.expression import Expression, intersection
from gesso.constraints.regex import parse, parse_search
from gesso.errors import OptionError

_DATE = (
    r"([1-9]\d{3}-((0[13578]|1[02])-(0[1-9]|[12]\d|3[01])|(0[469]|11)-(0[1-9]|[12]\d|30)|02-(0[1-9]|1\d|2[0-8]))"
    r"|([1-9]\d(0[48]|[2468][048]|[13579][26])|([13579][26]|[2468][048])00)-02-29)"
)
_TIME = r"([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)"
_HOURS = r"(\d+H(\d+M(\d+S)?)?|\d+M(\d+S)?|\d+S)"
_DAYS = r"(\d+Y(\d+M(\d+D)?)?|\d+M(\d+D)?|\d+D)"

_OCTET = r"(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_IPV4 = rf"{_OCTET}(\.{_OCTET}){{3}}"
_H16 = r"[0-9A-Fa-f]{1,4}"
_LS32 = rf"({_H16}:{_H16}|{_IPV4})"
_IPV6 = "|".join(
    [
        rf"({_H16}:){{6}}{_LS32}",
        rf"::({_H16}:){{5}}{_LS32}",
        *(rf"({_H16}(:{_H16}){{0,{n}}})?::({_H16}:){{{4 - n}}}{_LS32}" for n in range(5)),
        rf"({_H16}(:{_H16}){{0,5}})?::{_H16}",
        rf"({_H16}(:{_H16}){{0,6}})?::",
    ]
)

_LABEL = r"[A-Za-z0-9](-?[A-Za-z0-9]){0,15}"
_HOST = rf"{_LABEL}(\.{_LABEL}){{0,3}}"
_ATOM = r"A-Za-z0-9!#$%&'*+/=?^_`{|}~\-"
_WIDE = r"\u{A0}-\u{D7FF}\u{F900}-\u{FDCF}\u{FDF0}-\u{FFEF}"

_PERCENT = "%[0-9A-Fa-f]{2}"


def _uris(more: str) -> tuple[str, str]:
    """RFC 3986's URI and URI-reference, with more unreserved characters."""
    name = rf"A-Za-z0-9\-._~!$&'()*+,;={more}"
    character = rf"([{name}:@]|{_PERCENT})"
    authority = rf"(([{name}:]|{_PERCENT})*@)?([{name}]|{_PERCENT})*(:\d{{0,4}})?"
    absolute, segments = rf"/({character}+(/{character}*)*)?", rf"(/{character}*)*"
    behind = rf"(\?({character}|[/?])*)?(#({character}|[/?])*)?"
    uri = rf"[A-Za-z][A-Za-z0-9+.\-]*:(//{authority}{segments}|{absolute}|{character}+{segments})?{behind}"
    relative = rf"(//{authority}{segments}|{absolute}|([{name}@]|{_PERCENT})+{segments})?{behind}"
    return uri, f"{uri}|{relative}"


_URI, _URI_REFERENCE = _uris("")
_IRI, _IRI_REFERENCE = _uris(_WIDE)
_VARIABLE = rf"([A-Za-z0-9_]|{_PERCENT})(\.?([A-Za-z0-9_]|{_PERCENT}))*(:[1-9]\d{{0,3}}|\*)?"
_POINTER = r"(/([^~/]|~[01])*)*"


def _patterns(depth: int) -> str:
    """Regular expressions with groups in groups so many times."""
    escape = r"\\[dDwWsSnrtfv^$\\.*+?()\[\]{}|/]"
    members = r"([^\\\]\[\-\^&|~]|a-z|A-Z|0-9|\\[dDwWsSnrtfv^$\\.*+?()\[\]{}|/])"
    group = rf"|\((\?:)?{_patterns(depth - 1)}\)" if depth else ""
    atom = rf"([^\\^$.*+?()\[\]{{}}|]|\.|{escape}|\[\^?{members}+\]{group})"
    part = rf"({atom}([*+?]\??)?|[\^$])"
    return rf"({part}*(\|{part}*)*)"


FORMATS = {
    "date": _DATE,
    "time": _TIME,
    "date-time": f"{_DATE}T{_TIME}",
    "duration": rf"P({_DAYS}(T{_HOURS})?|T{_HOURS}|\d+W)",
    "uuid": r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}",
    "email": rf"[{_ATOM}](\.?[{_ATOM}]){{0,31}}@{_HOST}",
    "idn-email": rf"[{_ATOM}{_WIDE}](\.?[{_ATOM}{_WIDE}]){{0,31}}@{_HOST}",
    "hostname": _HOST,
    "idn-hostname": _HOST,
    "ipv4": _IPV4,
    "ipv6": _IPV6,
    "uri": _URI,
    "uri-reference": _URI_REFERENCE,
    "iri": _IRI,
    "iri-reference": _IRI_REFERENCE,
    "uri-template": rf"([!#$&()*+,\-./0-9:;=?@A-Z\[\]_a-z~{_WIDE}]|{_PERCENT}"
    rf"|\{{[+#./;?&=,!@|]?{_VARIABLE}(,{_VARIABLE})*\}})*",
    "json-pointer": _POINTER,
    "relative-json-pointer": rf"(0|[1-9]\d*)(#|{_POINTER})",
    "regex": _patterns(2),
}
"""Regular expressions of the formats."""

_ADDRESS = r"""(?s)[^:@"]*(@|".*@).*"""
_ABSOLUTE = r"(?s)[A-Za-z][A-Za-z0-9+.\-]*:.*"
WIDE = {
    "date": r"[0-9]{4}-[0-9]{2}-[0-9]{2}",
    "time": r"[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?([Zz]|[+\-][0-9]{2}:[0-9]{2})",
    "date-time": r"(?s)[0-9]{4}-[0-9]{2}-[0-9]{2}[^0-9].*",
    "duration": r"(?s)[Pp].*",
    "uuid": FORMATS["uuid"],
    "email": _ADDRESS,
    "idn-email": _ADDRESS,
    "hostname": r"[A-Za-z0-9.\-]+",
    "idn-hostname": r"([A-Za-z0-9.\-]|[^\x00-\x7F])+",
    "ipv4": r"[0-9]+(\.[0-9]+){3}",
    "ipv6": r"[0-9A-Fa-f]*:[0-9A-Fa-f:.]*",
    "uri": _ABSOLUTE,
    "iri": _ABSOLUTE,
    "json-pointer": r"(?s)(/.*)?",
    "relative-json-pointer": r"(?s)[0-9].*",
}
"""Regular expressions of more than all that a format allows, where that is not nearly everything: what they do not
match is certainly not of the format."""


def may_have_format(text: str, name: str) -> bool:
    """Tells whether it is not certain that a text is not of a format."""
    return name not in WIDE or _wide(name).matches(text)


@cache
def formats_apart(one: str, other: str) -> bool:
    """Tells whether it is certain that no text is of both formats."""
    both = (one, other)
    return WIDE.keys() >= set(both) and compile_bytes(intersection(*(parse(WIDE[name]) for name in both))).empty


@lru_cache(maxsize=256)
def contradicts(name: str, pattern: str) -> bool:
    """Tells whether it is certain that a pattern matches in no text of a format."""
    try:
        return compile_bytes(intersection(format_expression(name), parse_search(pattern))).empty
    except OptionError:  # which is told where the pattern itself is read
        return False


@cache
def _wide(name: str) -> ByteAutomaton:
    return compile_bytes(parse(WIDE[name]))


@cache
def format_expression(name: str) -> Expression:
    """Returns the texts of a format in `FORMATS`."""
    return parse(FORMATS[name])
