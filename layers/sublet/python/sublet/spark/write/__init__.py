"""The other direction, at least once.

record_distribution   who places the records: where Kinesis does, nothing is aggregated, and a row needs no key
putting   PutRecords, the refused ones again, KPL aggregates that stay whole through a reshard
sink      Spark's writers
"""
