"""Spark's own interfaces, and what drives them.

data_source                   what Spark knows as `sublet`
stream_read, driver           a streaming query: its reader, and its driver side in our own values
descriptions                  what the driver knows of its stream, and when it asks
whole_stream, leased_shards   what of the stream is the query's to read
batch_read, batch_read_plan, narrowing   `spark.read`
handler_tasks                 a Lambda fleet's handler on Spark's rows
draining                      the end of a run for what is there
query_lag                     how far behind a query is, as values and as metrics
"""
