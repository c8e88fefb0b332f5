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

from gesso.router.affinity import PrefixTable, keep_together


class PrefixRouter(FIFOMixin, MultiplexMixin, LocalityMixin, RequestRouter):
    """Chooses as `gesso router` does: the holder of the longest beginning, else whoever has least to do.

    Requests bring the digests of their beginnings as `digests`. Where several models are served, only replicas count
    that Ray thinks of for the model.
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
        loads = {name: self.replica_queue_len_cache.get(each.replica_id) or 0 for name, each in by_name.items()}
        parts, holders = self._prefixes.find(_digests(pending_request))
        kept = keep_together(loads, holders, parts, self._slack)
        first = [[by_name[kept]]] if kept is not None else []
        return first + [
            [by_name[name] for name, each in loads.items() if each == load] for load in sorted(set(loads.values()))
        ]

    def on_request_routed(self, pending_request: PendingRequest, replica_id: ReplicaID, result: Any) -> None:  # noqa: ARG002
        """Notes where a beginning is now."""
        self._prefixes.put(_digests(pending_request), replica_id.unique_id)

    def on_replica_actor_died(self, replica_id: ReplicaID) -> None:
        """Forgets what a replica knew."""
        self._prefixes.forget(replica_id.unique_id)
        super().on_replica_actor_died(replica_id)


def _digests(pending: PendingRequest | None) -> list[bytes]:
    digests: list[bytes] = (pending.kwargs.get("digests") or []) if pending is not None else []
    return digests
