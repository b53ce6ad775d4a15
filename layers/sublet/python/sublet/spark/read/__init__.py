"""Reading shards, on the driver and in tasks.

    connection       one process's access to the stream
    pace, pages      a shard's pages in order, within its five calls and 2 MB a second
    peeks            the driver's looks ahead, for an existing record at which to end a batch
    reading, rows    a task: exactly the records of its range, as Arrow RecordBatches

Only `reading` and `rows` import PyArrow.
"""
