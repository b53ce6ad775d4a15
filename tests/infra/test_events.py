"""The payloads in events/ agree with the library's own values."""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from sublet.decisions.manager.choose_leases import ClaimReason
from sublet.decisions.manager.packing import LeaseClaim, WorkerItem
from sublet.decisions.session.window import AfterWindow, LeaseReport, SessionOutcome, WindowReport

EVENTS = Path(__file__).resolve().parents[2] / "events"
ALL = sorted(path.name for path in EVENTS.glob("*.json"))


def event(name: str) -> Any:
    return json.loads((EVENTS / name).read_text())


def names(kind: Any) -> set[str]:
    return {field.name for field in fields(kind)}


@pytest.mark.parametrize(
    "item",
    [
        event("map_item_to_worker.json"),
        event("worker_to_choice.json")["item"],
        *event("manager_to_execution.json")["items"],
    ],
    ids=lambda item: str(item["item_id"]),
)
def test_worker_item_event_has_exactly_its_fields(item: Any) -> None:
    assert item.keys() == names(WorkerItem) - {"leases_max", "auto_seen_at"}, (
        "only beside a limit that adopted children could exceed, and for a stream that has placed records itself"
    )
    for claim in item["claims"]:
        assert claim.keys() == names(LeaseClaim)
        assert claim["why"] in list(ClaimReason)


def test_window_report_event_has_its_fields() -> None:
    report = event("worker_to_choice.json")
    assert report.keys() == names(WindowReport) | {"outcome"}
    assert report["next"] in list(AfterWindow)
    for lease in report["leases"]:
        assert lease.keys() <= names(LeaseReport)
        assert lease["outcome"] in list(SessionOutcome)


def test_the_kinesis_reply_holds_a_plain_record_and_a_kpl_aggregate() -> None:
    plain, aggregate = (base64.b64decode(record["Data"]) for record in event("kinesis_records.json")["Records"])
    assert json.loads(plain)["carrier"] == "DL"
    magic, message, digest = aggregate[:4], aggregate[4:-16], aggregate[-16:]
    assert magic == b"\xf3\x89\x9a\xc2"
    assert digest == hashlib.md5(message).digest()  # noqa: S324 -- the KPL's format


def test_the_schedule_s_event_is_eventbridge_s() -> None:
    tick = event("rule_to_manager.json")
    assert (tick["source"], tick["detail-type"]) == ("aws.events", "Scheduled Event")


def test_no_payload_is_left_unused() -> None:
    used = "".join(path.read_text() for path in Path(__file__).resolve().parents[1].rglob("test_*.py"))
    assert [name for name in ALL if name not in used] == []
