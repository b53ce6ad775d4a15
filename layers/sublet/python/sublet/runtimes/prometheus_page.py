"""The page `/metrics`, by Prometheus' own library (the extra `metrics`): sublet's metrics and the program's own.

Names and units are by https://prometheus.io/docs/practices/naming/, and the format is the library's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING
from weakref import WeakSet

from sublet.protocol.histogram import Histogram
from sublet.runtimes.scraped_metrics import SCRAPED, Sample

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.metrics_core import Metric as Family

PATH = "/metrics"
MISSING = "metrics for Prometheus need prometheus-client, which is not installed: install sublet with its extra metrics"

_registered: WeakSet[CollectorRegistry] = WeakSet()


def has_library() -> bool:
    """Whether the extra is installed. Imports nothing."""
    return find_spec("prometheus_client") is not None


def register(registry: CollectorRegistry | None = None) -> None:
    """Adds the metrics of this process' consumers and producers to a registry, by default Prometheus' own, in which a
    program's other metrics are. Call it before the first consumer or producer is used; again, it does nothing.

    The program shows the registry as it does already, for example with `prometheus_client.start_http_server`. In
    processes that are forked later, the metrics are not added up. Raises ImportError without the extra.
    """
    if not has_library():
        raise ImportError(MISSING)
    from prometheus_client import REGISTRY  # noqa: PLC0415 - an extra

    SCRAPED.turn_on()
    chosen = REGISTRY if registry is None else registry
    if chosen not in _registered:
        _registered.add(chosen)
        chosen.register(SampleCollector(SCRAPED.samples))


class SampleCollector:
    """A collector of Prometheus' library, which asks for the samples at each scrape."""

    def __init__(self, samples: Callable[[], Iterable[Sample]]) -> None:
        self._samples = samples

    def describe(self) -> Iterable[Family]:
        """Nothing yet: otherwise registering it would take samples."""
        return ()

    def collect(self) -> Iterator[Family]:
        from prometheus_client.metrics_core import Metric as Family  # noqa: PLC0415 - an extra

        families: dict[str, Family] = {}
        for sample in self._samples():
            name = sample.instrument.prometheus
            family_name = name.removesuffix("_total")
            if family_name not in families:
                families[family_name] = Family(family_name, sample.meaning, sample.instrument.kind.value)
            family, labels = families[family_name], dict(sample.labels)
            if not isinstance(sample.value, Histogram):
                family.add_sample(name, labels, sample.value)
                continue
            for bound, count in sample.value.up_to():
                family.add_sample(f"{name}_bucket", {**labels, "le": bound}, count)
            family.add_sample(f"{name}_count", labels, sample.value.count)
            family.add_sample(f"{name}_sum", labels, sample.value.total)
        yield from families.values()


def page(accepted: str | None, registry: CollectorRegistry | None = None) -> tuple[bytes, str]:
    """The registry's page, and its content type: OpenMetrics if the Accept header asks for it, otherwise text."""
    from prometheus_client import REGISTRY  # noqa: PLC0415 - an extra
    from prometheus_client.exposition import choose_encoder  # noqa: PLC0415 - an extra

    encode, content_type = choose_encoder(accepted or "")
    return encode(REGISTRY if registry is None else registry), content_type
