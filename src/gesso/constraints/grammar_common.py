r"""Defines the terminals that Lark grammars import from `common`, as regular expressions."""

_INT = r"[0-9]+"
_DECIMAL = r"([0-9]+\.[0-9]*|\.[0-9]+)"
_EXPONENT = r"[eE][+-]?[0-9]+"
_FLOAT = rf"({_INT}{_EXPONENT}|{_DECIMAL}({_EXPONENT})?)"

COMMON = {
    "DIGIT": "[0-9]",
    "HEXDIGIT": "[0-9A-Fa-f]",
    "INT": _INT,
    "SIGNED_INT": rf"[+-]?{_INT}",
    "DECIMAL": _DECIMAL,
    "FLOAT": _FLOAT,
    "SIGNED_FLOAT": rf"[+-]?{_FLOAT}",
    "NUMBER": rf"({_FLOAT}|{_INT})",
    "SIGNED_NUMBER": rf"[+-]?({_FLOAT}|{_INT})",
    "ESCAPED_STRING": r'"([^"\\\n]|\\[^\n])*"',
    "LCASE_LETTER": "[a-z]",
    "UCASE_LETTER": "[A-Z]",
    "LETTER": "[A-Za-z]",
    "WORD": "[A-Za-z]+",
    "CNAME": "[A-Za-z_][A-Za-z0-9_]*",
    "WS_INLINE": r"[ \t]+",
    "WS": r"[ \t\f\r\n]+",
    "CR": r"\r",
    "LF": r"\n",
    "NEWLINE": r"(\r?\n)+",
    "SH_COMMENT": r"#[^\n]*",
    "CPP_COMMENT": r"//[^\n]*",
    "C_COMMENT": r"/\*([^*]|\*+[^*/])*\*+/",
    "SQL_COMMENT": r"--[^\n]*",
}
"""Patterns of common terminals, by name."""
