"""`filter_criteria` with filters of single streams."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sublet.errors import SettingsError
from sublet.settings import Settings, StreamChoice
from sublet.settings.stream_filters import criteria_of, criteria_of_streams

ACCOUNT = "123456789012"
ARN = f"arn:aws:kinesis:eu-west-1:{ACCOUNT}:stream/orders"
PAID = {"Filters": [{"Pattern": {"data": {"state": ["paid"]}}}]}
SEEN = {"Filters": [{"Pattern": {"data": {"seen": [True]}}}]}


def application_of(streams: str, criteria: Any) -> Settings:
    return Settings(application="audit", streams=StreamChoice.parse(streams), filter_criteria=json.dumps(criteria))


def criteria_for(stream: str, criteria: Any) -> Any:
    found = criteria_of(json.dumps(criteria), ACCOUNT, stream, 17)
    return found and json.loads(found)


def test_stream_uses_the_filters_of_its_first_matching_key_or_the_common_ones() -> None:
    by_stream = {"audit-eu": PAID, "audit-*": None}
    assert criteria_for("audit-eu", {"Streams": by_stream, **SEEN}) == PAID
    assert criteria_for("audit-us", {"Streams": by_stream, **SEEN}) is None
    assert criteria_for("orders", {"Streams": by_stream, **SEEN}) == SEEN
    assert criteria_for("orders", {"Streams": by_stream}) is None
    assert criteria_for("orders", SEEN) == SEEN


def test_a_command_on_some_streams_has_the_filters_of_those() -> None:
    of_all = json.dumps({"Streams": {"audit-eu": PAID, "audit-*": None}, **SEEN})
    named = [(ACCOUNT, name, 17) for name in ("audit-eu", "audit-us", "orders")]
    of_three = {"audit-eu": PAID, "audit-us": None, "orders": SEEN}
    assert json.loads(criteria_of_streams(of_all, named)) == {"Streams": of_three}
    application_of("audit-eu,audit-us,orders", {"Streams": of_three})
    assert criteria_of_streams(json.dumps(SEEN), named) == json.dumps(SEEN)


@pytest.mark.parametrize(
    ("key", "is_of"),
    [
        (ARN, True),
        (f"{ACCOUNT}:orders:17", True),
        (f"{ACCOUNT}:orders:18", False),
        ("arn:aws:kinesis:eu-west-1:210987654321:stream/orders", False),
        ("order?", True),
        ("order", False),
    ],
)
def test_a_key_names_streams_as_the_setting_streams_does(key: str, is_of: bool) -> None:
    assert criteria_for("orders", {"Streams": {key: PAID}, **SEEN}) == (PAID if is_of else SEEN)


@pytest.mark.parametrize(
    ("streams", "key"),
    [
        ("orders", ARN),
        (ARN, "orders"),
        ("o*", "orders"),
        ("orders", "o*"),
        ("o*", "*s"),
        ("tag:team=billing", "orders"),
        (f"{ACCOUNT}:orders:17", "orders"),
    ],
)
def test_a_key_that_may_name_a_stream_of_the_application_is_accepted(streams: str, key: str) -> None:
    assert application_of(streams, {"Streams": {key: PAID}}).filter_criteria


@pytest.mark.parametrize(
    ("criteria", "said"),
    [
        ({"Streams": {"ordres": PAID}}, "'ordres': .*of the setting streams"),
        ({"Streams": {"bills-*": PAID}}, "'bills-.': a stream of"),
        ({"Streams": {"tag:team=billing": PAID}}, "not its tags"),
        ({"Streams": {"or ders": PAID}}, "'or ders': a name"),
        ({"Streams": {}}, "with an object"),
        ({"Streams": ["orders"]}, "with an object"),
        ({"Streams": {"orders": {"Filter": []}}}, "'orders': .*Filters, and nothing else"),
        ({"Streams": {"orders": PAID["Filters"]}}, "Filters, and nothing else"),
        ({"Streams": {"orders": {"Filters": []}}}, "one to 10 of them"),
        (
            {"Streams": {"orders": {"Filters": [{"Pattern": {"data": {"a": "paid"}}}]}}},
            "a list of conditions",
        ),
        ({"Streams": {"orders": PAID}, "Filters": []}, "one to 10 of them"),
        ({"Streams": {"orders": PAID}, "Stream": {}}, "Filters and Streams, and nothing else"),
    ],
)
def test_stream_filters_are_refused_for_unknown_streams_or_forms(criteria: Any, said: str) -> None:
    with pytest.raises(SettingsError, match=f"setting filter_criteria.*{said}"):
        application_of("orders,payments", criteria)


def test_filters_by_stream_need_the_setting_streams() -> None:
    with pytest.raises(SettingsError, match="only with the setting streams"):
        Settings(application="audit", stream="orders", filter_criteria=json.dumps({"Streams": {"orders": PAID}}))
