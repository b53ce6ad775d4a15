"""Decisions, pure: no calls, no clock, no Spark.

offsets          what Spark's offset log holds: values and their JSON
offset_log       an offset found in an entry of that log, in either of Spark's formats
gaps             what is unread and past retention
planning         which shards begin, where the next batch ends, what its tasks read
follow           an application's checkpoints as a first offset
sharing          a batch's limit, divided among streams
joining          an application's leases and the query's own offsets, reconciled
strays           which aggregates outside their shard's hash key range a batch drops
table_positions  how far a table holds each shard, and what that leaves of a batch
committed        a committed offset as checkpoints, and the next write to a held lease
"""
