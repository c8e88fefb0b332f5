"""Names the roles of strategies in denoising: sampler, schedule and stopping rule.

An option chooses the strategy of each role.
"""

from collections.abc import Mapping
from typing import Any

from gesso.diffusion.samplers import SAMPLERS
from gesso.diffusion.schedules import SCHEDULES
from gesso.diffusion.stopping import STOPPING_RULES
from gesso.options import Registry, option

STRATEGIES: Mapping[str, Registry[Any]] = {"sampler": SAMPLERS, "schedule": SCHEDULES, "stopping": STOPPING_RULES}
"""The roles that have several ways to be filled, by the name of the option that chooses one."""
HOLDERS = tuple(f"{role}_options" for role in STRATEGIES)
"""Fields that hold a strategy itself."""


def strategy_option(role: str, help: str, **declared: Any) -> Any:  # noqa: A002
    """Declares a field that chooses a strategy. Which there are is looked up when the table is read."""
    registry = STRATEGIES[role]
    return option(registry.default, help, kind=registry.kind, **declared)
