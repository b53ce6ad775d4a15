"""The changes that turn a stream into the wanted one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from sublet.decisions.streams.stream_changes import (
    Change,
    DesiredStream,
    RemoveKey,
    SetKey,
    SetMode,
    SetRetention,
    SetShards,
    changes,
)
from sublet.errors import SettingsError
from sublet.protocol.stream_identity import StreamIdentity
from sublet.protocol.stream_info import ACTIVE, StreamInfo, StreamMode

DAY = timedelta(days=1)
NOW = StreamInfo(
    "orders", StreamIdentity("arn", datetime(2026, 1, 31, tzinfo=UTC)), ACTIVE, StreamMode.PROVISIONED, 2, DAY, "old"
)


@pytest.mark.parametrize(
    ("wanted", "planned"),
    [
        (DesiredStream(), ()),
        (DesiredStream(2, StreamMode.PROVISIONED, DAY, "old"), ()),
        (DesiredStream(shards=3), (SetShards(3),)),
        (DesiredStream(shards=9), (SetShards(4), SetShards(8), SetShards(9))),
        (DesiredStream(shards=1), (SetShards(1),)),
        (DesiredStream(retention=2 * DAY), (SetRetention(2 * DAY, is_longer=True),)),
        (
            DesiredStream(retention=DAY + timedelta(hours=1)),
            (SetRetention(DAY + timedelta(hours=1), is_longer=True),),
        ),
        (DesiredStream(key="new"), (SetKey("new"),)),
        (DesiredStream(key=""), (RemoveKey("old"),)),
        (DesiredStream(mode=StreamMode.ON_DEMAND), (SetMode(StreamMode.ON_DEMAND),)),
    ],
)
def test_stream_changes_contain_only_differences(wanted: DesiredStream, planned: tuple[Change, ...]) -> None:
    assert changes(NOW, wanted) == planned


def test_no_key_where_none_is_wanted_is_no_change() -> None:
    assert changes(replace(NOW, key=None), DesiredStream(key="")) == ()


def test_fewer_shards_by_halves_and_the_mode_first() -> None:
    on_demand = StreamInfo(NOW.name, NOW.identity, ACTIVE, StreamMode.ON_DEMAND, 7, 2 * DAY, None)
    assert changes(on_demand, DesiredStream(shards=1, mode=StreamMode.PROVISIONED, retention=DAY)) == (
        SetMode(StreamMode.PROVISIONED),
        SetShards(4),
        SetShards(2),
        SetShards(1),
        SetRetention(DAY, is_longer=False),
    )
    with pytest.raises(SettingsError, match="on-demand"):
        changes(on_demand, DesiredStream(shards=1))


@pytest.mark.parametrize(
    ("wanted", "name"),
    [
        (DesiredStream(shards=0), "shards"),
        (DesiredStream(retention=timedelta(hours=23)), "retention"),
        (DesiredStream(retention=timedelta(hours=24, minutes=1)), "retention"),
        (DesiredStream(retention=timedelta(days=366)), "retention"),
        (DesiredStream(max_record_kib=1_023), "max_record_kib"),
        (DesiredStream(max_record_kib=10_241), "max_record_kib"),
    ],
)
def test_stream_change_is_refused_outside_kinesis_limits(wanted: DesiredStream, name: str) -> None:
    with pytest.raises(SettingsError, match=name):
        changes(NOW, wanted)


@pytest.mark.parametrize(
    ("option", "value", "why"),
    [
        ("mode", "PROVISIONED", "one of StreamMode.PROVISIONED, StreamMode.ON_DEMAND: from sublet import StreamMode"),
        ("shards", True, "a whole number"),
        ("shards", "2", "a whole number"),
        ("retention", 24, "a duration: "),
        ("key", 7, "a value of type str"),
    ],
)
def test_stream_change_is_refused_for_a_value_of_another_type(option: str, value: Any, why: str) -> None:
    with pytest.raises(SettingsError, match=f"{option} = .*{why}"):
        changes(NOW, DesiredStream(**{option: value}))
