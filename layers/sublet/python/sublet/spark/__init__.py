"""Spark: a Kinesis source and sink for PySpark 4.2 and later. Registered by `pyspark_sublet`; needs the extra `sublet[spark]`.

    options          every option, validated by name
    offsets          what Spark's offset log holds: values and their JSON (pure)
    follow           an application's checkpoints as a first offset (pure)
    joining          an application's leases and the query's own offsets, reconciled (pure)
    holding          a held lease, and the next write to it (pure)
    held_leases, taking, keeper   the keeper of a query's leases: its writes, how it comes by them, what it is asked
    keeper_process, keeper_link, keeper_messages   the keeper as a process, the way to it, and what is said
    checkpoint_folder, query_life   what Spark committed last, and until when it may commit more
    query_leases     what the driver asks its keeper, and what the answers mean for a plan
    planning         which shards begin, where the next batch ends, what its tasks read (pure)
    pace, pages      a shard's pages in order, within its five calls and 2 MB a second
    peeks            the driver's looks ahead, for an existing record to end a batch at
    reading, rows    a task: exactly the records of its range, as Arrow RecordBatches
    putting, sink    the other direction: PutRecords, the refused ones again, KPL aggregates
    handling         a Lambda fleet's handler on Spark's rows
    lag              how far behind a query is, as values and as metrics
    streaming, batch, source   Spark's own interfaces
    pipeline/        `sublet pipeline`, which uses the source as anybody does

Only `reading`, `rows` and what is named after Spark's interfaces (`handling`, `lag`, `sink`, `streaming`, `batch`,
`source`, in `pipeline` what is not pure) import PyArrow or PySpark. Nothing here imports the engine.
"""
