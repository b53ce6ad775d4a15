"""Spark's own interfaces, and what drives them.

data_source                   what Spark knows as `sublet`
stream_read, driver           a streaming query: its reader, and its driver side in our own values
query_leases                  what the driver asks its keeper, and what the answers mean for a plan
batch_read, batch_read_plan   `spark.read`
handler_tasks                 a Lambda fleet's handler on Spark's rows
query_lag                     how far behind a query is, as values and as metrics
"""
