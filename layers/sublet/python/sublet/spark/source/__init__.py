"""Spark's own interfaces, and what drives them.

data_source                   what Spark knows as `sublet`
stream_read, driver           a streaming query: its reader, and its driver side in our own values
query_leases                  what the driver asks its keeper, and what the answers mean for a plan
batch_read, batch_read_plan, narrowing   `spark.read`
handler_tasks                 a Lambda fleet's handler on Spark's rows
draining                      the end of a run for what is there
query_lag                     how far behind a query is, as values and as metrics
"""
