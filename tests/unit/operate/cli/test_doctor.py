"""`sublet doctor`: how it prints findings, and its exit code."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import pytest
from sublet.errors import SettingsError
from sublet.operate.cli.monitor.doctor import accepted, as_json, exit_code, lines_of
from sublet.operate.rules.doctor import Check, Finding, Severity

from tests.unit.operate.test_doctor import examined_world

WELL = Finding(Check.CLOCK, Severity.WELL, "as Kinesis' clock")
WARNING = Finding(Check.MODE, Severity.WARNING, "the stream is UPDATING", then="Look again.")
BAD = Finding(Check.ROWS, Severity.BAD, "the row\x1b cannot be read", "shard\x1bId-7", "Correct it.")
UNKNOWN = Finding(Check.ALARMS, Severity.NOT_CHECKED, "these credentials lack cloudwatch:DescribeAlarms")


@pytest.mark.parametrize(
    ("found", "plain", "strict"),
    [((WELL,), 0, 0), ((WELL, WARNING), 0, 1), ((WELL, UNKNOWN), 0, 1), ((BAD, UNKNOWN), 1, 1)],
)
def test_doctor_exit_code_follows_its_findings(found: tuple[Finding, ...], plain: int, strict: int) -> None:
    assert exit_code(found, strict=False) == plain
    assert exit_code(found, strict=True) == strict


def test_the_worst_comes_first_and_nothing_moves_a_cursor() -> None:
    found = (WELL, WARNING, BAD, UNKNOWN)
    head, *lines = lines_of([examined_world()], found, found)
    assert head.endswith(": 1 bad, 1 warning, 1 not checked, 1 well")
    assert [line.split("  ")[0].strip() for line in lines] == [
        "bad",
        "",
        "warning",
        "",
        "not checked",
        "well",
    ]
    assert lines[1].strip() == "Correct it."
    assert all(line.isprintable() for line in (head, *lines))


def test_json_has_every_finding_that_is_shown() -> None:
    assert as_json([examined_world()], [WARNING])["findings"] == [
        {
            "check": "mode and distribution",
            "severity": "warning",
            "stream": None,
            "where": "",
            "what": "the stream is UPDATING",
            "then": "Look again.",
            "details": [],
        }
    ]


def test_details_are_lines_between_the_finding_and_what_to_do() -> None:
    finding = Finding(Check.SET_ASIDE, Severity.WARNING, "2 wait", then="Redrive them.", details=("one", "two\x1b"))
    _, *lines = lines_of([examined_world()], [finding], [finding])
    assert [line.split("  ")[-1].strip() for line in lines] == ["2 wait", "one", "'two\\x1b'", "Redrive them."]
    shown: Any = as_json([examined_world()], [finding])["findings"]
    assert shown[0]["details"] == ["one", "two\x1b"]


def test_a_refused_setting_is_a_finding_and_the_rest_is_checked_with_defaults() -> None:
    named = {"SUBLET_APPLICATION": "orders", "SUBLET_STREAM": "events"}
    options = Namespace(application=None, stream=None, on_failure=None, failover_time=None)
    variables, refused = accepted(options, named | {"SUBLET_BATCH_SIZE": "many"})
    assert variables == named
    assert refused is not None
    assert "batch_size" in refused
    assert accepted(options, named) == (named, None)
    with pytest.raises(SettingsError, match="required; give --application"):
        accepted(options, {"SUBLET_STREAM": "events"})
