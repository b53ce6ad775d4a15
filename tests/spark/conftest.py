"""Tests that need PySpark run in its own environment (`make test-spark`); elsewhere they are not even collected."""

from __future__ import annotations

import importlib.util
import os

import pytest

if importlib.util.find_spec("pyspark") is None:
    collect_ignore_glob = ["test_*.py"]
else:
    # Tests are over before the JVM's second compiler has paid for itself: without it they cost a third less CPU time.
    os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    # Spark's 15 s for its own sockets are too few where other tests run beside these; its 10 s for a source's worker
    # are fixed.
    os.environ.setdefault("SPARK_AUTH_SOCKET_TIMEOUT", "120")


def pytest_configure(config: pytest.Config) -> None:
    """PySpark 4.0 and 4.1 leave some sockets to the garbage collector."""
    if importlib.util.find_spec("pyspark") is not None and not _closes_its_sockets():
        config.addinivalue_line(
            "filterwarnings",
            r"ignore:Exception ignored in. <socket\.socket:pytest.PytestUnraisableExceptionWarning",
        )


def _closes_its_sockets() -> bool:
    from sublet.spark.release import HAS_READ_LIMITS

    return HAS_READ_LIMITS
