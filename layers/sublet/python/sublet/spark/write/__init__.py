"""The other direction, at least once.

putting   PutRecords, the refused ones again, KPL aggregates that stay whole through a reshard
sink      Spark's writers
"""
