"""One stage of a lake's life, by the version that PYTHONPATH names: reads what is there, into every sink.

`spark_stage.py FOLDER STREAM OTHER KIND ...`: then it prints, for each kind, how often each record's position is in the
tables. A kind is a query of one stream, of several, one that holds leases, or `sublet pipeline` into a sink. It uses
what a user uses: the source's format and options, `sublet.spark.drain`, and the command.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
from collections import Counter
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from sublet.spark import drain

COLUMNS = ["stream", "sequenceNumber", "subSequenceNumber"]
SCHEMA = "id BIGINT NOT NULL"
CONF = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.python.authenticate.socketTimeout": "120s",
}
ICEBERG = {
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.lake.type": "hadoop",
    "spark.sql.catalog.lake.cache-enabled": "false",
}


def main() -> None:
    folder, stream, other, *kinds = sys.argv[1:]
    for kind in kinds:
        if kind in ("one", "several", "hold"):
            found = query(Path(folder) / kind, kind, stream, other)
        else:
            found = pipeline(Path(folder) / kind, kind, stream)
        print(json.dumps([kind, found]), flush=True)


def session(conf: dict[str, str]) -> SparkSession:
    builder = SparkSession.builder
    for name, value in conf.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def query(folder: Path, kind: str, stream: str, other: str) -> dict[str, int]:
    spark = session(CONF)
    options = {"stream": stream, "availableNow": "true", "listInterval": "1s", "patience": "20s"}
    checkpoint = str(folder / "checkpoint")
    if kind == "several":
        options["stream"] = f"{stream},{other}"
    if kind == "hold":
        options |= {
            "application": stream,
            "leases": "hold",
            "failoverTime": "6s",
            "checkpointLocation": checkpoint,
        }
    rows = spark.readStream.format("sublet").options(**options).load()
    writer = rows.writeStream.format("parquet").option("checkpointLocation", checkpoint)
    drain(writer.start(str(folder / "table")))
    return counted(spark.read.parquet(str(folder / "table")))


def pipeline(folder: Path, sink: str, stream: str) -> dict[str, int]:
    output = "lake.flights" if sink == "iceberg" else str(folder / "lake")
    words = ["pipeline", "--stream", stream, "--sink", sink, "--output", output, "--available-now"]
    words += [
        "--checkpoint",
        str(folder / "checkpoint"),
        "--schema",
        SCHEMA,
    ]
    conf = CONF
    if sink == "iceberg":
        warehouse = {
            "spark.sql.catalog.lake.warehouse": str(folder / "lake"),
            "spark.jars": os.environ["LAKE_JARS"],
        }
        conf = {**CONF, **ICEBERG, **warehouse}
    words += [word for pair in conf.items() for word in ("--conf", "=".join(pair))]
    sys.argv = ["sublet", *words]
    try:
        runpy.run_module("sublet", run_name="__main__")
    except SystemExit as end:
        if end.code:
            raise
    return pipeline_counted(folder, sink, conf)


def pipeline_counted(folder: Path, sink: str, conf: dict[str, str]) -> dict[str, int]:
    """Of `raw`, after a comparison with the tables that were made of it."""
    spark = session(conf)
    tables = {name: table(spark, folder, sink, name) for name in ("raw", "parsed", "rejected")}
    found = {name: counted(frame) for name, frame in tables.items()}
    divided = Counter(found["parsed"]) + Counter(found["rejected"])
    if divided != Counter(found["raw"]):
        raise AssertionError(f"{sink}: parsed and rejected are {divided}, of raw {found['raw']}")
    spark.stop()
    return found["raw"]


def table(spark: SparkSession, folder: Path, sink: str, name: str) -> DataFrame:
    if sink == "iceberg":
        return spark.table(f"lake.flights.{name}")
    if sink == "delta":
        from deltalake import DeltaTable

        return spark.createDataFrame(DeltaTable(str(folder / "lake" / name)).to_pyarrow_table().to_pandas())
    return spark.read.parquet(str(folder / "lake" / name))


def counted(frame: DataFrame) -> dict[str, int]:
    columns = [column for column in COLUMNS if column in frame.columns]
    return dict(Counter("/".join(map(str, row)) for row in frame.select(*columns).collect()))


if __name__ == "__main__":
    main()
