from __future__ import annotations

from datetime import timedelta

import pytest
from sublet.errors import SettingsError
from sublet.settings import Mode, Reading, Settings, StartKind, StreamChoice, StreamSelector

ARN = "arn:aws:kinesis:eu-west-1:123456789012:stream/orders"


def test_streams_by_name_pattern_tag_and_arn_with_start_positions_of_their_own() -> None:
    text = f"orders, audit-*@LATEST,tag:team=a b@AT_TIMESTAMP:2026-01-31T08:00:00+00:00,{ARN},123456789012:old:17"
    choice = StreamChoice.parse(text)
    assert str(choice) == text.replace(", audit", ",audit")
    orders, audit, tag, arn, kcls = choice.selectors
    assert (orders.is_exact, orders.start, orders.matches_name("orders"), orders.matches_name("orders2")) == (
        True, None, True, False,
    )  # fmt: skip
    assert audit.start is not None
    assert audit.start.kind is StartKind.LATEST
    assert audit.matches_name("audit-eu")
    assert not audit.is_exact
    assert tag.tag == ("team", "a b")
    assert choice.tags == (("team", "a b"),)
    assert not tag.is_exact
    assert (arn.is_arn, arn.is_exact, arn.matches_name("orders")) == (True, True, False)
    assert (kcls.is_kcls, kcls.is_exact) == (True, True)


@pytest.mark.parametrize(
    "text", ["", "orders,", "or ders", "tag:team", "orders@SOON", "123456789012:orders:0", "arn:aws:sqs:x"]
)
def test_what_names_no_streams_is_refused(text: str) -> None:
    with pytest.raises(SettingsError):
        StreamChoice.parse(text)


def test_a_pattern_respects_capitals_as_names_do() -> None:
    assert not StreamSelector("Audit-*").matches_name("audit-eu")


@pytest.mark.parametrize("stated", [{"stream": "orders"}, {"stream_arn": ARN}])
def test_one_stream_beside_several_is_refused(stated: dict[str, str]) -> None:
    with pytest.raises(SettingsError, match="left out beside streams"):
        Settings(application="audit", streams=StreamChoice.parse("orders"), **stated)  # type: ignore[arg-type]


def test_a_stream_leaves_only_when_lookers_have_missed_it_twice() -> None:
    with pytest.raises(SettingsError, match="at least twice stream_discovery_interval"):
        Settings(
            application="audit",
            streams=StreamChoice.parse("orders"),
            stream_discovery_interval=timedelta(minutes=40),
        )


def test_several_streams_are_read_by_polls() -> None:
    with pytest.raises(SettingsError, match="a registered consumer is of one stream"):
        Settings(
            application="audit",
            streams=StreamChoice.parse("orders"),
            reading=Reading.FAN_OUT,
            mode=Mode.CONTINUOUS,
            fan_out_consumer=f"{ARN}/consumer/audit:1769846400",
        )


def test_an_application_needs_a_stream_or_several() -> None:
    with pytest.raises(SettingsError, match="required; or streams"):
        Settings(application="audit")
    assert Settings(application="audit", streams=StreamChoice.parse("a,b")).stream == ""
