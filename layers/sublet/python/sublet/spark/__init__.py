"""Spark: a Kinesis source and sink for PySpark 4.0 and later. Registered by `pyspark_sublet`; needs the extra
`sublet[spark]`.

The public names are listed here, and load PySpark on first use. The subpackages, each of which imports only those
above it:

    options   a query's options; option_table: every one of them, validated by name
    other_connectors  other sources' options, and ours instead
    plain_errors how Spark shows our errors
    plan/     pure: what Spark's offset log holds, where the next batch ends, what its tasks read; leases and offsets
    reconciled
    release   makes up for what this release of PySpark lacks
    read/     a shard's pages at its pace: the driver's peeks, and a task's exact range as Arrow RecordBatches
    positions for sinks of one's own: which rows of a batch are held already
    write/    the other direction: PutRecords, retries of refused records, KPL aggregates
    keeper/   the leases of a query that shares them: acquired, heartbeaten, checkpointed as Spark commits, released
    source/   Spark's own interfaces and their drivers: streams, batch reads, a Lambda fleet's handler in tasks, lag
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sublet.spark.positions import further, positions_of, unwritten
    from sublet.spark.release import drain
    from sublet.spark.source.data_source import SubletDataSource
    from sublet.spark.source.handler_tasks import apply_handler
    from sublet.spark.source.query_lag import LagListener, ShardLag, lag, lag_of, report_lag

__all__ = [
    "LagListener",
    "ShardLag",
    "SubletDataSource",
    "apply_handler",
    "drain",
    "further",
    "lag",
    "lag_of",
    "positions_of",
    "report_lag",
    "unwritten",
]

_NAMES = {
    "sublet.spark.positions": "further positions_of unwritten",
    "sublet.spark.release": "drain",
    "sublet.spark.source.data_source": "SubletDataSource",
    "sublet.spark.source.handler_tasks": "apply_handler",
    "sublet.spark.source.query_lag": "LagListener ShardLag lag lag_of report_lag",
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names.split()}

if not TYPE_CHECKING:  # otherwise type checkers would accept any name

    def __getattr__(name: str) -> object:
        """Loads a name on first use (PEP 562)."""
        if name not in _MODULE_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_MODULE_OF[name]), name)
        return value

    def __dir__() -> list[str]:
        return __all__
