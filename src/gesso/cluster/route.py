"""Says where one request may go: shared, within a process, by who sends it and by who chooses its replica."""

from collections import Counter
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field


@dataclass(slots=True)
class Route:
    """Holds what is known of one request, over all the times that it is sent."""

    digests: Sequence[bytes] = ()
    """The beginnings of its prompt; see `prefix_digests`."""
    asked: Counter[str] = field(default_factory=Counter)
    """How often each replica took it, by the replica's name."""
    known: frozenset[str] = frozenset()
    """The replicas that there were when one was chosen last."""

    @property
    def has_other(self) -> bool:
        """Says whether there was a replica that has not been asked."""
        return bool(self.known - self.asked.keys())


_ROUTE: ContextVar[Route | None] = ContextVar("route", default=None)


def route_of_this_request() -> Route:
    """Returns the route of the request that this task answers: the router has a task for each, for all its tries."""
    route = _ROUTE.get()
    if route is None:
        route = Route()
        _ROUTE.set(route)
    return route
