"""Compiles constraints for verdicts on texts: without a tokenizer, in a thread, within bounds, and keeps the last ones.

Whoever asks for verdicts while a text is typed asks with the same constraint again and again, so the last compiled ones
are kept.
"""

from typing import Any

from gesso.constraints.budget import Budget
from gesso.constraints.compilation import Compilation, Compiled
from gesso.constraints.compile import key_of
from gesso.constraints.constraint import Constraint, compile_texts
from gesso.constraints.held_bytes import held_bytes
from gesso.sized_cache import CacheStats, SizedCache

CACHE_BYTES = 32 * 2**20
"""Bytes of the automata over bytes that are kept, on the host."""
_kept: SizedCache[tuple[str, bool, bytes], Constraint] = SizedCache(CACHE_BYTES)


def verdict_stats() -> CacheStats:
    """Says how many constraints are kept for verdicts in this process, and their bytes."""
    return _kept.stats


def submit_texts(option: str, value: Any, *, strict: bool = False) -> Compilation[Constraint]:
    """Returns a constraint on texts, or the making of it in a thread of its own; joined already.

    Args:
        option, value, strict: see `gesso.constraint`.

    Raises:
        OptionError: its parts are nested too deeply. What else is wrong with it, `result` raises.
    """
    key = (option, strict, key_of(option, value))
    made: Compilation[Constraint]
    if (known := _kept.get(key)) is not None:
        made = Compilation.finished(Compiled(known, known.ignored))
    else:

        def make() -> Compiled[Constraint]:
            compiled = compile_texts(option, value, strict=strict)
            _kept.put(key, compiled, held_bytes(compiled))
            return Compiled(compiled, compiled.ignored)

        made = Compilation(make, Budget(), lambda: None)
    made.join()
    return made
