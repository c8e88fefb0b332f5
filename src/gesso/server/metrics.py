"""Prometheus metrics of one application, in a registry of its own."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gesso.constraints.compile import automata_stats
from gesso.constraints.verdict import verdict_stats
from gesso.engine.async_engine import AsyncEngine
from gesso.engine.constraint import table_stats
from gesso.server.latency_buckets import SECONDS


class Metrics:
    """Collects the engine's counts when it is asked, and what is observed on the way."""

    def __init__(self, service: AsyncEngine) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_ServiceCollector(service))
        self.first_block = Histogram(
            "gesso_time_to_first_block_seconds",
            "From the submission of a request to its first finished canvas or token, the queue included.",
            buckets=SECONDS,
            registry=self._registry,
        )
        self.canvas = Histogram(
            "gesso_canvas_seconds",
            "From one finished canvas of a request to its next.",
            buckets=SECONDS,
            registry=self._registry,
        )
        self.http = Counter(
            "gesso_http_requests", "HTTP requests answered.", ["route", "status"], registry=self._registry
        )

    def text(self) -> bytes:
        """Writes all metrics in Prometheus's text format."""
        return generate_latest(self._registry)


class _ServiceCollector(Collector):
    def __init__(self, service: AsyncEngine) -> None:
        self._service = service

    def collect(self) -> Iterator[Metric]:
        stats, automata, tables = self._service.stats(), automata_stats(), table_stats()
        verdicts, done = verdict_stats(), stats.counters
        evictions = automata.evictions + tables.evictions + verdicts.evictions
        share = done.cached_tokens / done.prompt_tokens if done.prompt_tokens else 0.0
        passes = done.canvas_steps + done.token_steps
        per_forward = stats.completion_tokens / passes if passes else 0.0
        gauges = {
            "requests_waiting": ("Requests in the queue.", stats.waiting),
            "requests_running": ("Requests that are denoised.", stats.running),
            "tokens_per_forward": ("Tokens generated per pass of a request, since the start.", per_forward),
            "cache_hit_share": ("Share of all prompt tokens that came from the prefix store.", share),
            "cache_bytes": ("Memory of running requests' caches.", stats.cache_bytes),
            "prefix_bytes": ("Memory of stored prefixes.", stats.prefix_bytes),
            "kv_memory_bytes": ("The bound on both.", stats.kv_memory),
            "constraint_bytes": ("Memory of compiled constraints, on the host.", automata.bytes + verdicts.bytes),
            "constraint_table_bytes": ("Memory of their inference tables, on the model's device.", tables.bytes),
            "engine_up": ("1 until the engine has failed for good.", int(self._service.failure is None)),
            "engine_busy_seconds": (
                "Since the iteration under way began; 0 where none is.",
                self._service.busy_seconds,
            ),
            "expected_wait_seconds": ("A guess of a new request's time in the queue.", stats.expected_seconds),
        }
        counters = {
            "steps": ("Passes of the model that denoise canvases or write the next tokens.", done.steps),
            "canvas_steps": ("Canvases stepped, summed over passes.", done.canvas_steps),
            "token_steps": ("Tokens written one by one, summed over passes.", done.token_steps),
            "canvases": ("Canvases finished.", stats.canvases),
            "prompt_tokens": ("Tokens of prompts.", done.prompt_tokens),
            "cached_tokens": ("Tokens of prompts that came from the prefix store.", done.cached_tokens),
            "completion_tokens": ("Tokens generated.", stats.completion_tokens),
            "images": ("Images in prompts, frames of clips among them.", done.images),
            "cached_images": ("Images that came from the prefix store.", done.cached_images),
            "images_encoded": ("Images that went through the vision tower.", stats.images_encoded),
            "crashed_passes": ("Passes of the model that failed.", done.crashed_passes),
            "prefix_failures": ("Stored prefixes that could not be copied or used.", done.prefix_failures),
            "constraint_hits": ("Constraints and vocabulary trees found compiled.", automata.hits),
            "constraint_misses": ("Constraints and vocabulary trees that were compiled.", automata.misses),
            "constraint_evictions": ("Constraints and tables let go for want of room.", evictions),
        }
        for name, (text, value) in gauges.items():
            yield GaugeMetricFamily(f"gesso_{name}", text, value=value)
        for name, (text, count) in counters.items():
            yield CounterMetricFamily(f"gesso_{name}", text, value=count)
        requests = CounterMetricFamily("gesso_requests", "Requests by how they ended.", labels=["outcome"])
        for outcome, count in sorted(stats.requests.items()):
            requests.add_metric([outcome], count)
        yield requests
