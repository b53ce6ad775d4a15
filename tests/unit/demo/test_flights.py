"""The data set, read without pandas, and its figures."""

from __future__ import annotations

import json

from demo.flights import Figures, events_per_key, figures, read_flights


def test_the_first_flight_of_the_year() -> None:
    first = next(read_flights(1))
    assert json.loads(first.event()) == {
        "key": "N14228",
        "number": 1,
        "carrier": "UA",
        "flight": 1545,
        "from": "EWR",
        "to": "IAH",
        "scheduled": "2013-01-01T05:15",
        "departure_delay": 2,
        "arrival_delay": 11,
    }


def test_running_numbers_count_each_keys_events() -> None:
    seen: dict[str, int] = {}
    for flight in read_flights(5_000):
        seen[flight.partition_key] = seen.get(flight.partition_key, 0) + 1
        assert flight.number == seen[flight.partition_key]
    assert seen == events_per_key(read_flights(5_000))


def test_the_figures_of_a_day() -> None:
    """2013-01-01 as R's dplyr counts it: 842 flights, of which 838 departed and 831 arrived (group_by, n,
    sum(!is.na)).
    """
    day = [flight for flight in read_flights(2_000) if flight.scheduled.startswith("2013-01-01")]
    totals = figures(day).values()
    assert sum(f.flights for f in totals) == 842
    assert sum(f.departed for f in totals) == 838
    assert sum(f.arrived for f in totals) == 831
    assert figures(day)["HA"] == Figures(flights=1, departed=1, departure_delay=-3, arrived=1, arrival_delay=-14)
