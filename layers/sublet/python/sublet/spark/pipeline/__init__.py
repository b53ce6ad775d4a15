"""`sublet pipeline`, also `python -m sublet.spark.pipeline`: writes a stream into tables without any programming.

settings         the run's settings, validated by name (pure)
command          the command line; imports PySpark only when it runs
json_fit         checks a JSON value against a type, and converts it or says why not (pure)
parsing          turns data into parsed values or reasons, one Arrow RecordBatch at a time
judging          does that as a step of a query, and makes a batch's own tables
transforming     the user's `transform(df)`
identity         which pipeline an output and a checkpoint belong to (pure)
journal          what the current Parquet batch may have written (pure)
files            access to Spark's file system
tables           where batches go: claimed for this pipeline, opened by the sink's name
parquet_tables, delta_tables, iceberg_tables   write one batch into all its tables, so that repeating it changes nothing
tally            figures, lines and the final summary (pure); progress_bar draws them on a terminal
micro_batch      one batch: judged once, made into tables, written
running          the query: from its start to its summary
"""
