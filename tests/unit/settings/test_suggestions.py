"""Which name is suggested for an unknown one, and when none is."""

from __future__ import annotations

import re
from typing import Any

import pytest
from sublet.errors import SettingsError
from sublet.settings import DEFINITIONS, Settings, nearest, unknown
from sublet.settings.value import names_elsewhere


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("batchsize", "batch_size"),
        ("BatchSize", "batch_size"),
        ("windw", "window"),
        ("failover", "failover_time"),
        ("failover_timeout", "failover_time"),
        ("starting_position", "start_position"),
        ("paralelization_factor", "parallelization_factor"),
        ("maximum_retry_atempts", "maximum_retry_attempts"),
    ],
)
def test_nearest_finds_the_setting_for_a_slip(name: str, meant: str) -> None:
    assert nearest(name, DEFINITIONS) == meant


@pytest.mark.parametrize("name", ["tumbling_window", "retries", "on", "topic", ""])
def test_nearest_finds_nothing_for_an_unlike_name(name: str) -> None:
    assert nearest(name, DEFINITIONS) is None


def test_nearest_finds_nothing_for_worker_id_where_it_is_no_setting() -> None:
    assert nearest("worker_id", [name for name in DEFINITIONS if name != "worker_id"]) is None


def test_suggestion_ignores_the_common_prefix() -> None:
    known = ["SUBLET_MODE", "SUBLET_WINDOW"]
    assert "did you mean" not in str(unknown("SUBLET_NODES", "5", "setting", known, "SUBLET_"))
    assert "did you mean SUBLET_WINDOW?" in str(unknown("SUBLET_WINDO", "5", "setting", known, "SUBLET_"))


def camel_and_snake(name: str) -> set[str]:
    return {name, re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()}


ELSEWHERE = sorted(
    (name, ours) for other, ours in names_elsewhere().items() for name in camel_and_snake(other) - {ours}
)


@pytest.mark.parametrize(("name", "ours"), ELSEWHERE)
def test_a_name_of_kcl_or_the_event_source_mapping_gets_ours(name: str, ours: str) -> None:
    given: dict[str, Any] = {"application": "audit", "stream": "orders", name: "x"}
    with pytest.raises(SettingsError, match=rf"did you mean {ours}\?"):
        Settings(**given)


def test_names_elsewhere_are_those_of_the_definitions() -> None:
    assert names_elsewhere()["maxRecords"] == "poll_limit"
    assert len(ELSEWHERE) >= 45


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("initial_position", "start_position"),
        ("idle_time_between_reads", "poll_interval"),
        ("idle_time", None),
        ("max_lease", None),
    ],
)
def test_name_elsewhere_is_known_by_its_beginning_if_that_is_long(name: str, ours: str | None) -> None:
    assert nearest(name, DEFINITIONS, names_elsewhere()) == ours


def test_name_elsewhere_is_suggested_as_ours_is_written() -> None:
    assert nearest("--max-records", ["--max-records-in-flight", "--poll-limit"], names_elsewhere()) == "--poll-limit"


def test_name_elsewhere_is_not_suggested_where_ours_is_no_setting() -> None:
    assert nearest("maxRecords", ["window"], names_elsewhere()) is None
