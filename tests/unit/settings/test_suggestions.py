"""Which name is suggested for an unknown one, and when none is."""

from __future__ import annotations

import pytest
from sublet.settings import DEFINITIONS, nearest, unknown


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
