"""A Spark session with Iceberg's and Delta's jars, on the releases of Spark that both support: for `make test-lake`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pyspark
import pytest
from pyspark.sql import SparkSession

from infra.local import EmbeddedAws
from tests.spark.local_session import ROOT, local_session

JARS = sorted((ROOT / ".local" / f"lake-jars-{pyspark.__version__[:3]}").glob("*.jar"))
ICEBERG_EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
ICEBERG = {
    "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.lake.type": "hadoop",
    "spark.sql.catalog.lake.cache-enabled": "false",
}
DELTA_EXTENSIONS = "io.delta.sql.DeltaSparkSessionExtension"
DELTA = {"spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog"}


def skip_without_jars() -> None:
    if not JARS:
        pytest.skip("`make test-lake` gets the jars, which are for Spark 4.0 and 4.1", allow_module_level=True)


@contextmanager
def lake_session(aws: EmbeddedAws, conf: Mapping[str, str]) -> Iterator[SparkSession]:
    """All sessions of a process share its JVM, which gets all jars with the first of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_SUBMIT_ARGS", f"--jars {','.join(map(str, JARS))} pyspark-shell")
        with local_session(aws, conf) as session:
            yield session
