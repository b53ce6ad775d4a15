"""A transform that `sublet pipeline` calls with each batch: figures per carrier from the demo's flights.

    sublet pipeline --stream flights --output lake --schema flights.json --transform carriers:tables --available-now

A batch adds rows for its own records: counts and sums, which can be added up over all batches. Averages cannot.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its usual name

FIGURES = ("flights", "departed", "departure_delay", "arrived", "arrival_delay")


def tables(flights: DataFrame) -> dict[str, DataFrame]:
    """`flights`: a batch of the table parsed. Delays are in minutes, and null without a departure or arrival."""
    return {"carriers": by_carrier(flights)}


def by_carrier(flights: DataFrame) -> DataFrame:
    return flights.groupBy("carrier").agg(
        F.count(F.lit(1)).alias("flights"),
        F.count("departure_delay").alias("departed"),
        F.coalesce(F.sum("departure_delay"), F.lit(0)).alias("departure_delay"),
        F.count("arrival_delay").alias("arrived"),
        F.coalesce(F.sum("arrival_delay"), F.lit(0)).alias("arrival_delay"),
    )


def totals(carriers: DataFrame) -> DataFrame:
    """The table `carriers`, over all its batches."""
    return carriers.groupBy("carrier").agg(*(F.sum(name).alias(name) for name in FIGURES))
