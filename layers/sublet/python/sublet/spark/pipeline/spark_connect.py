"""Refuses a session over Spark Connect, by name and before anything is written.

The pipeline writes its tables on the driver: their journal, marks and transactions need Hadoop's file systems or a
package there, and what `foreachBatch` calls on a Connect server shares no memory with the run that reports and stops.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from pyspark.sql import SparkSession

from sublet.errors import SettingsError

INSTEAD = (
    "sublet pipeline runs beside Spark's driver, not over Spark Connect: start it there (spark-submit, or a job's "
    "Python task on its cluster), or write the source's rows with toTable() or a sink of your own (docs/spark.md)"
)

_IN_ENVIRONMENT = {"SPARK_REMOTE": "spark.remote", "SPARK_API_MODE": "spark.api.mode"}


def check_classic(configuration: Mapping[str, str], environment: Mapping[str, str] | None = None) -> None:
    """Raises SettingsError if the session would be one over Spark Connect, as far as that can be told beforehand: its
    server need not be there."""
    known = {_IN_ENVIRONMENT[key]: text for key, text in (environment or os.environ).items() if key in _IN_ENVIRONMENT}
    asked = {**known, **configuration}
    if (address := asked.get("spark.remote")) is not None:
        raise SettingsError("spark.remote", address.partition(";")[0], INSTEAD)  # a token may follow
    if asked.get("spark.api.mode", "").lower() == "connect":
        raise SettingsError("spark.api.mode", "connect", INSTEAD)


def classic(session: SparkSession) -> SparkSession:
    """Returns the session. Raises SettingsError if it is one over Spark Connect, as a platform's own may be."""
    if type(session).__module__.startswith("pyspark.sql.connect"):
        raise SettingsError("SparkSession", type(session).__module__, INSTEAD)
    return session
