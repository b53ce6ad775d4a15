"""The source's options: a wrong one is refused by its name, as the user would write it."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sublet.errors import SettingsError
from sublet.settings import HashRangeFilter, StartKind, StartPosition
from sublet.spark.options import OPTIONS, Use, parse_options

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "spark.md"


def test_defaults() -> None:
    options = parse_options({"stream": "orders"}, Use.STREAM)
    assert options.start_position == StartPosition(StartKind.TRIM_HORIZON)
    assert options.hash_range_filter is HashRangeFilter.KCL
    assert options.fail_on_data_loss is True
    assert options.patience == timedelta(seconds=60)
    assert options.max_span_per_trigger is None


def test_names_come_in_any_case() -> None:
    options = parse_options(
        {"stream": "orders", "MAXSPANPERTRIGGER": "5m", "failondataloss": "False"}, Use.STREAM
    )
    assert options.max_span_per_trigger == timedelta(minutes=5)
    assert options.fail_on_data_loss is False


@pytest.mark.parametrize(
    ("given", "named", "why"),
    [
        ({}, "stream", "required"),
        ({"stream": ""}, "stream", "not empty"),
        ({"stream": "a/b"}, "stream", "stream name"),
        ({"stream": "orders", "streem": "x"}, "streem", "did you mean stream?"),
        ({"stream": "orders", "startPosition": "NEWEST"}, "startPosition", "one of TRIM_HORIZON, LATEST"),
        (
            {"stream": "orders", "startPosition": "AT_TIMESTAMP:2026-01-31T08:00:00"},
            "startPosition",
            "time zone",
        ),
        ({"stream": "orders", "maxRecordsPerTrigger": "0"}, "maxRecordsPerTrigger", "from 1 on"),
        ({"stream": "orders", "maxSpanPerTrigger": "5"}, "maxSpanPerTrigger", "a number and a unit"),
        ({"stream": "orders", "patience": "0s"}, "patience", "longer than 0"),
        ({"stream": "orders", "failOnDataLoss": "no"}, "failOnDataLoss", "true or false"),
        ({"stream": "orders", "leases": "follow"}, "leases", "goes with application"),
        ({"stream": "orders", "application": "audit"}, "leases", "goes with application"),
        (
            {"stream": "orders", "application": "audit", "leases": "steal"},
            "leases",
            "one of none, follow, hold",
        ),
        ({"stream": "orders", "leases": "hold"}, "leases", "goes with application"),
        ({"stream": "orders", "failoverTime": "9s"}, "failoverTime", "only with leases=hold"),
        ({"stream": "orders", "checkpointLocation": "c"}, "checkpointLocation", "only with leases=hold"),
        (
            {"stream": "orders", "application": "audit", "leases": "hold", "failoverTime": "1s"},
            "failoverTime",
            "3s to 1d",
        ),
        ({"stream": "orders", "hashRangeFilter": "on"}, "hashRangeFilter", "one of kcl, off"),
        (
            {"stream": "orders", "maxRecordsPerTrigger": "5", "maxBytesPerTrigger": "5"},
            "maxBytesPerTrigger",
            "cannot go with maxRecordsPerTrigger",
        ),
        (
            {"stream": "orders", "endPosition": "AT_TIMESTAMP:2026-01-31T08:00:00Z"},
            "endPosition",
            "not for readStream",
        ),
    ],
)
def test_refused_for_a_stream(given: dict[str, str], named: str, why: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(why)) as refused:
        parse_options(given, Use.STREAM)
    assert refused.value.name.lower() == named.lower()


@pytest.mark.parametrize(
    ("given", "named", "why"),
    [
        ({"startPosition": "LATEST"}, "startPosition", "nothing is after the tip"),
        ({"maxBytesPerTrigger": "5"}, "maxBytesPerTrigger", "not for read,"),
        ({"endPosition": "TRIM_HORIZON"}, "endPosition", "leave it out"),
        (
            {"startCheckpoints": "{}", "startPosition": "TRIM_HORIZON"},
            "startCheckpoints",
            "cannot go with startPosition",
        ),
        ({"startCheckpoints": "[1]"}, "startCheckpoints", "a JSON object"),
        ({"startCheckpoints": '{"shardId-0": "x"}'}, "startCheckpoints", "a JSON object"),
        (
            {
                "startPosition": "AT_TIMESTAMP:2026-01-31T08:00:00Z",
                "endPosition": "AT_TIMESTAMP:2026-01-31T09:00:00+01:00",
            },
            "endPosition",
            "later than startPosition",
        ),
    ],
)
def test_refused_for_a_batch(given: dict[str, str], named: str, why: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(why)) as refused:
        parse_options({"stream": "orders", **given}, Use.BATCH)
    assert refused.value.name == named


def test_moments_keep_their_zone() -> None:
    options = parse_options(
        {"stream": "orders", "startPosition": "AT_TIMESTAMP:2026-01-31T09:00:00+01:00"}, Use.BATCH
    )
    assert options.start_position.at == datetime(2026, 1, 31, 8, tzinfo=UTC)


def test_the_document_has_each_option_with_its_default_and_meaning() -> None:
    text = DOCUMENT.read_text()
    for option in OPTIONS:
        default = f"`{option.default}`" if option.default is not None else ""
        uses = ", ".join(option.uses)
        assert f"| `{option.name}` | {default} | {uses} | {option.meaning} |" in text
