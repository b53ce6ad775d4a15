from __future__ import annotations

from datetime import timedelta
from typing import Any

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
        True,
        None,
        True,
        False,
    )
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
def test_stream_choice_is_refused_for_invalid_text(text: str) -> None:
    with pytest.raises(SettingsError):
        StreamChoice.parse(text)


def test_wrong_start_position_names_its_stream() -> None:
    with pytest.raises(SettingsError, match="setting streams = 'orders@SOON': after the @ one of TRIM_HORIZON"):
        StreamChoice.parse("payments, orders@SOON")


def test_a_pattern_respects_capitals_as_names_do() -> None:
    assert not StreamSelector("Audit-*").matches_name("audit-eu")


@pytest.mark.parametrize("stated", [{"stream": "orders"}, {"stream_arn": ARN}])
def test_stream_is_refused_beside_streams(stated: dict[str, str]) -> None:
    with pytest.raises(SettingsError, match="not allowed with streams"):
        Settings(application="audit", streams=StreamChoice.parse("orders"), **stated)  # type: ignore[arg-type]


def test_a_stream_leaves_only_when_lookers_have_missed_it_twice() -> None:
    with pytest.raises(SettingsError, match="at least twice stream_discovery_interval"):
        Settings(
            application="audit",
            streams=StreamChoice.parse("orders"),
            stream_discovery_interval=timedelta(minutes=40),
        )


def pushed(application: str = "audit", **given: Any) -> Settings:
    choice = StreamChoice.parse("orders,audit-*")
    return Settings(application=application, streams=choice, reading=Reading.FAN_OUT, mode=Mode.CONTINUOUS, **given)


def test_each_streams_fan_out_consumer_has_the_applications_name_or_the_one_stated() -> None:
    assert pushed().fan_out_name == "audit"
    assert pushed(fan_out_consumer="kcl-fleet").fan_out_name == "kcl-fleet"
    assert pushed("a" * 200, fan_out_consumer="kcl-fleet", register_fan_out=True).register_fan_out


@pytest.mark.parametrize(
    ("given", "refusal"),
    [
        ({"fan_out_consumer": f"{ARN}/consumer/audit:1769846400"}, "a consumer's name with streams"),
        ({"application": "a" * 129}, "at most 128 characters with fan_out"),
    ],
)
def test_a_consumer_of_several_streams_is_a_name(given: dict[str, Any], refusal: str) -> None:
    with pytest.raises(SettingsError, match=refusal):
        pushed(**given)


def test_consumers_are_registered_only_for_several_streams_that_are_pushed() -> None:
    with pytest.raises(SettingsError, match="only with streams and reading=fan_out"):
        Settings(application="audit", streams=StreamChoice.parse("orders"), register_fan_out=True)


def test_an_application_needs_a_stream_or_several() -> None:
    with pytest.raises(SettingsError, match="required; or streams"):
        Settings(application="audit")
    assert Settings(application="audit", streams=StreamChoice.parse("a,b")).stream == ""
