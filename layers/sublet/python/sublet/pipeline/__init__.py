"""`sublet pipeline`: a stream into tables, with no program to write. Also `python -m sublet.pipeline`.

settings         what is asked for, validated by name (pure)
command          the command line; imports PySpark only when it runs
json_fit         whether a JSON value fits a type, and as what, or why not (pure)
parsing          data to parsed values or reasons, by an Arrow RecordBatch
judging          the same as a step of a query; a batch's own tables
transforming     the user's `transform(df)`
identity         which pipeline an output and a checkpoint belong to (pure)
journal          what the Parquet batch under way may have written (pure)
files            the few things wanted of Spark's file system
tables           where batches go: claimed for this pipeline, opened by the sink's name
parquet_tables, delta_tables, iceberg_tables   one batch into all its tables, so that doing it again changes nothing
tally            figures, lines and the closing summary (pure); progress_bar draws them on a terminal
micro_batch      one batch: judged once, made into tables, written
running          the query: from its start to its summary
"""
