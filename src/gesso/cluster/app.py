"""Puts the application together: an ingress, and replicas of models whose number follows their queues."""

from typing import Any

from ray import serve
from ray.serve import Application
from ray.serve.config import AutoscalingConfig, RequestRouterConfig

from gesso.cluster.ingress import Ingress
from gesso.cluster.replica import ModelReplica
from gesso.cluster.settings import ClusterSettings

WAITING_AT_INGRESS = 4096
"""Requests that one ingress has under way: it waits for most of the time."""


def app(args: dict[str, Any]) -> Application:
    """Builds the application for `serve run gesso.server.ray:app`, a Serve configuration file, or `serve.run`.

    Args:
        args: fields of `ClusterSettings`.

    Raises:
        OptionError: one is unknown or impossible.
    """
    settings = ClusterSettings.read(args)
    models = serve.deployment(ModelReplica).options(
        name="models",
        num_replicas=None,
        autoscaling_config=AutoscalingConfig(
            min_replicas=settings.min_replicas,
            max_replicas=settings.max_replicas,
            initial_replicas=settings.min_replicas,
            target_ongoing_requests=settings.target_requests,
            upscale_delay_s=settings.upscale_seconds,
            downscale_delay_s=settings.downscale_seconds,
        ),
        # One batch runs and one is at hand; the rest waits where it can still go elsewhere.
        max_ongoing_requests=2 * settings.max_num_seqs,
        max_queued_requests=settings.max_waiting,
        graceful_shutdown_timeout_s=settings.drain_seconds,
        health_check_period_s=5.0,
        ray_actor_options={"num_cpus": settings.num_cpus, "num_gpus": settings.num_gpus},
        request_router_config=RequestRouterConfig(
            request_router_class="gesso.cluster.prefix_router.PrefixRouter",
            request_router_kwargs={"slack": settings.slack},
        ),
    )
    ingress = serve.deployment(serve.ingress()(Ingress)).options(
        name="ingress",
        num_replicas=settings.ingress_replicas,
        max_ongoing_requests=WAITING_AT_INGRESS,
        graceful_shutdown_timeout_s=settings.drain_seconds,
        ray_actor_options={"num_cpus": 0},
    )
    bound: Application = ingress.bind(models.bind(settings), settings)
    return bound
