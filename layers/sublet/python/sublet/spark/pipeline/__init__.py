"""`sublet pipeline`, also `python -m sublet.spark.pipeline`: writes a stream into tables without any programming.

settings         the run's settings, validated by name (pure)
command          the command line; imports PySpark only when it runs
json_fit         checks a value, of JSON or another format, against a type, and converts it or says why not (pure)
payload          what the records are, and how an executor reads them; payload_arguments: --format and --strict (pure)
avro_columns     the columns of an Avro schema; csv_values: a CSV line's texts by their columns (pure)
parsing          turns data into parsed values or reasons, one Arrow RecordBatch at a time
judging          does that as a step of a query, and makes a batch's own tables; variant_columns: those of type VARIANT
transforming     the user's `transform(df)`
identity         which pipeline an output and a checkpoint belong to (pure)
batch_extent     what a batch covers, by its rows and by the query's offset log
evolution        how a table's columns may change (pure); layout: partitions and sizes of files
journal          what the Parquet tables hold: their transaction (pure)
file_system      access to Spark's file system
tables           where batches go: claimed for this pipeline, opened by the sink's name
parquet_tables, delta_tables, iceberg_tables   write a batch into its tables, each with its positions in one transaction
adoption         finds the positions of 0.2's tables; journal_of_02: what its last Parquet batch left (pure)
tally            figures, lines and the final summary (pure); progress_bar draws them on a terminal
micro_batch      one batch: judged once, made into tables, written
merge_rule       how the table `merged` comes about (pure); merge: any merge as a value and as SQL (pure)
merged_table     that table: the latest record of each key
lake             tables that are changed in place: delta_jar_lake, iceberg_lake (both over sql_lake), deltalake_lake
maintain_command, maintaining   `sublet pipeline maintain`: compaction, and the removal of what is old
reparse_command, reparsing      `sublet pipeline reparse`: records again through today's schema
connect          refuses a session over Spark Connect
running          the query: from its start to its summary
"""
