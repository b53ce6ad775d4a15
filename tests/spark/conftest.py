"""Tests that need PySpark run in its own environment (`make test-spark`); elsewhere they are not even collected."""

from __future__ import annotations

import importlib.util
import os

if importlib.util.find_spec("pyspark") is None:
    collect_ignore_glob = ["test_*.py"]
else:
    # Tests are over before the JVM's second compiler has paid for itself: without it they cost a third less CPU time.
    os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
