"""Tests that need PySpark run in its own environment (`make test-spark`); elsewhere they are not even collected."""

from __future__ import annotations

import importlib.util

if importlib.util.find_spec("pyspark") is None:
    collect_ignore_glob = ["test_*.py"]
