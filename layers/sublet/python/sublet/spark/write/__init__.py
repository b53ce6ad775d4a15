"""The other direction, at least once.

record_distribution   who places the records: if Kinesis does, nothing is aggregated, and a row needs no key
putting   PutRecords, retries of refused records, KPL aggregates that stay whole through a reshard
sink      Spark's writers
"""
