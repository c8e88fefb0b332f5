"""Prometheus metrics of a router, in a registry of its own."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gesso.router.replicas import Pool
from gesso.server.latency_buckets import SECONDS


class RouterMetrics:
    """Collects the pool's counts when it is asked, and what is observed on the way."""

    def __init__(self, pool: Pool) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_PoolCollector(pool))

        def counter(name: str, text: str, labels: tuple[str, ...] = ()) -> Counter:
            return Counter(f"gesso_router_{name}", text, labels, registry=self._registry)

        self.http = counter("http_requests", "HTTP requests answered.", ("route", "status"))
        self.retries = counter("retries", "Requests sent again, by the replica that failed.", ("replica",))
        self.resumed = counter("resumed_streams", "Streams that went on at another replica.", ("how",))
        self.broken = counter("broken_streams", "Streams that ended with an error of the router.")
        self.limited = counter("rate_limited", "Requests beyond the rate of their key.")
        self.restarts = counter("restarts", "Spawned replicas that were started again.")
        self.first = Histogram(
            "gesso_router_seconds_to_first_byte",
            "From the end of a request to the first byte of its answer.",
            buckets=SECONDS,
            registry=self._registry,
        )

    def text(self) -> bytes:
        """Writes all metrics in Prometheus's text format."""
        return generate_latest(self._registry)


class _PoolCollector(Collector):
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def collect(self) -> Iterator[Metric]:
        up = GaugeMetricFamily("gesso_router_replica_up", "1 while a replica takes requests.", labels=["replica"])
        running = GaugeMetricFamily("gesso_router_replica_running", "Requests under way.", labels=["replica"])
        opened = GaugeMetricFamily("gesso_router_breaker_open", "1 while its breaker is open.", labels=["replica"])
        asked = CounterMetricFamily("gesso_router_requests", "Requests sent to a replica.", labels=["replica"])
        for replica in self._pool.replicas.values():
            up.add_metric([replica.name], int(replica.state == "up" and not replica.draining))
            running.add_metric([replica.name], replica.load)
            opened.add_metric([replica.name], int(replica.open))
            asked.add_metric([replica.name], replica.requests)
        yield from (up, running, opened, asked)
        prefixes = CounterMetricFamily(
            "gesso_router_prefixes", "Requests with a known beginning: kept together, or moved by load.", labels=["how"]
        )
        prefixes.add_metric(["kept"], self._pool.kept)
        prefixes.add_metric(["moved"], self._pool.moved)
        yield prefixes
