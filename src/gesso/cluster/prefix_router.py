"""Lets Ray send a request to the replica that has seen the beginning of its prompt."""

from typing import Any

from ray.serve.request_router import (
    FIFOMixin,
    LocalityMixin,
    MultiplexMixin,
    PendingRequest,
    ReplicaID,
    RequestRouter,
    RunningReplica,
)

from gesso.cluster.route import Route
from gesso.router.affinity import PrefixTable, keep_together


class PrefixRouter(FIFOMixin, MultiplexMixin, LocalityMixin, RequestRouter):
    """Chooses as `gesso router` does: the holder of the longest beginning, else whoever has least to do; and for a
    request that is sent again, whoever was asked least for it.

    Requests bring their `Route` as `route`. Where several models are served, only replicas count that Ray thinks of for
    the model.
    """

    def initialize_state(self, slack: int = 4) -> None:
        """Takes the settings."""
        self._slack = slack
        self._prefixes = PrefixTable()

    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: PendingRequest | None = None
    ) -> list[list[RunningReplica]]:
        """Returns replicas in ranks, the best one first; Ray takes the first that has room."""
        by_name = {replica.replica_id.unique_id: replica for replica in candidate_replicas}
        if pending_request is not None and pending_request.metadata.multiplexed_model_id:
            wanted = {each.unique_id for each in self.apply_multiplex_routing(pending_request=pending_request)}
            by_name = {name: replica for name, replica in by_name.items() if name in wanted}
        if not by_name:
            return []
        route = _route(pending_request)
        route.known = frozenset(by_name)
        fewest = min(route.asked[name] for name in by_name)
        loads = {name: self.replica_queue_len_cache.get(each.replica_id) or 0 for name, each in by_name.items()}
        least_asked = {name: load for name, load in loads.items() if route.asked[name] == fewest}
        parts, holders = self._prefixes.find(route.digests)
        kept = keep_together(least_asked, holders, parts, self._slack)
        ranks = {name: (route.asked[name], name != kept, load) for name, load in loads.items()}
        return [[by_name[name] for name, each in ranks.items() if each == rank] for rank in sorted(set(ranks.values()))]

    def on_request_routed(self, pending_request: PendingRequest, replica_id: ReplicaID, result: Any) -> None:  # noqa: ARG002
        """Notes where a request and its beginning are now."""
        route = _route(pending_request)
        route.asked[replica_id.unique_id] += 1
        self._prefixes.put(route.digests, replica_id.unique_id)

    def on_replica_actor_died(self, replica_id: ReplicaID) -> None:
        """Forgets what a replica knew."""
        self._prefixes.forget(replica_id.unique_id)
        super().on_replica_actor_died(replica_id)


def _route(pending: PendingRequest | None) -> Route:
    route: Route | None = pending.kwargs.get("route") if pending is not None else None
    return Route() if route is None else route
