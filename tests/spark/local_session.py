"""A Spark session of two cores on the embedded AWS, in the tests' own process."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

import pytest
from pyspark.sql import SparkSession

from infra.local import EmbeddedAws

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def local_session(
    aws: EmbeddedAws, conf: Mapping[str, str] = MappingProxyType({}), **environment: str
) -> Iterator[SparkSession]:
    """Its Python workers find the emulator by the environment that the JVM inherits; it lives as long as the tests'
    process.

    `conf`: further configuration.
    `environment`: further variables for the workers, for this session only.
    """
    own = {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**aws.environment, **own}.items():
            patch.setenv(name, value)
        builder = (
            SparkSession.builder.master("local[2]")
            .config("spark.ui.enabled", "false")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.python.authenticate.socketTimeout", "120s")
        )
        for name, value in conf.items():
            builder = builder.config(name, value)
        for name, value in environment.items():
            builder = builder.config(f"spark.executorEnv.{name}", value)
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("OFF")
        yield session
        session.stop()
