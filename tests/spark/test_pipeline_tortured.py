"""`sublet pipeline` killed at drawn moments, its checkpoint set back, cut short, copied, forged and emptied between
runs, its options changed, its streams and shards coming and going, its leases handed to `sublet run` and back: each
record once in `raw`, and once in `parsed` or `rejected`.

`make torture` draws other and longer worlds, by TORTURE_SEED, TORTURE_RECORDS and TORTURE_KILLS, for each sink and
kind; Iceberg where its jars are (TORTURE_JARS).
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from infra.local import EmbeddedAws
from tests.exploring import explores
from tests.spark.tortured_worlds import HeldWorld, StreamsWorld, World, tortured

SEED = int(os.environ.get("TORTURE_SEED", "1"))
RECORDS = int(os.environ.get("TORTURE_RECORDS", "180"))
KILLS = int(os.environ.get("TORTURE_KILLS", "2"))
JARS = sorted(Path(folder).glob("iceberg-*.jar")) if (folder := os.environ.get("TORTURE_JARS")) else []


@pytest.mark.slow
@explores
@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize("world", [StreamsWorld, HeldWorld])
@pytest.mark.parametrize("sink", ["parquet", "delta", "iceberg"])
def test_each_record_is_written_once_whatever_is_killed_and_touched(
    embedded_aws: EmbeddedAws, tmp_path: Path, sink: str, world: type[World]
) -> None:
    conf = {}
    if sink == "iceberg":
        if not JARS:
            pytest.skip("no jars of Iceberg in TORTURE_JARS")
        conf = {
            "spark.jars": ",".join(map(str, JARS)),
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.lake.type": "hadoop",
            "spark.sql.catalog.lake.cache-enabled": "false",
            "spark.sql.catalog.lake.warehouse": str(tmp_path / "warehouse"),
        }
    verdict = tortured(world(embedded_aws, tmp_path, sink, conf, SEED, RECORDS, KILLS))
    print(f"{sink}: {verdict.records} records, missing 0, repeated 0; {dict(verdict.counts)}")
    assert verdict.counts["killed"] >= KILLS
