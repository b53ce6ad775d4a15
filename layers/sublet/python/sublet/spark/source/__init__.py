"""Spark's own interfaces, and their drivers.

data_source                   the data source named `sublet`
stream_read, driver           a streaming query: its reader, and its driver side in our own values
discovery, stream_planner     which streams it reads; the plan of each
descriptions                  what the driver knows of a stream, and when it asks
whole_streams, leased_shards  which part of its streams the query reads
batch_read, batch_read_plan, filter_pushdown   `spark.read`
handler_tasks                 a Lambda fleet's handler on Spark's rows
query_lag                     how far behind a query is, as values and as metrics
"""
