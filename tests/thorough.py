"""How many random cases are tried: the same few in every run of the tests, many others with GESSO_THOROUGH=1."""

import os

THOROUGH = os.environ.get("GESSO_THOROUGH") == "1"


def cases(few: int, many: int) -> int:
    return many if THOROUGH else few
