"""Reads a stream as an assumed role, as a batch and as a stream that shares leases, and shows all that Spark shows of
it:

`python assumed_role_program.py FOLDER STREAM STS EXTERNAL_ID`

FOLDER then contains Spark's event log, which its UI shows, and the query's checkpoint. Standard output has plans and
progress, standard error Spark's own log and that of its Python workers.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession
from sublet.spark import drain
from sublet.spark.pipeline.session import REDACTED

ROLE = "arn:aws:iam::123456789012:role/orders-reader"


def main(folder: Path, stream: str, sts: str, external_id: str) -> None:
    (folder / "events").mkdir()
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.eventLog.enabled", "true")
        .config("spark.eventLog.compress", "false")
        .config("spark.eventLog.dir", (folder / "events").as_uri())
        .config("spark.sql.redaction.options.regex", REDACTED)
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("INFO")
    role = {"roleExternalId": external_id, "stsEndpointUrl": sts}
    reader = spark.read.format("sublet").options(stream=stream, roleArn=ROLE, **role)
    rows = reader.load()
    rows.explain(extended=True)
    print("batch", rows.count())
    held = {"application": f"{stream}-audit", "leases": "hold", "leaseRoleArn": ROLE, "availableNow": "true"}
    streamed = (
        spark.readStream.format("sublet")
        .options(stream=stream, roleArn=ROLE, **role, **held)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .load()
    )
    streamed.explain(extended=True)
    writer = streamed.writeStream.format("parquet").option("path", str(folder / "rows"))
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
    drain(query)
    query.explain(extended=True)
    print(*(progress.json for progress in query.recentProgress))
    print("stream", spark.read.parquet(str(folder / "rows")).count())
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
