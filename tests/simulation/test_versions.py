"""Rows of 0.1, 0.2 and this version on one table, forwards and back: nothing is lost or skipped, and believing any kind
of stale attribute is noticed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial

import pytest
from sublet.protocol import lease_row
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.finished_ahead import FinishedAhead, read_ahead_text
from sublet.protocol.lease import AttemptedRecords, AttributeValue, Lease
from sublet.protocol.lease_attributes import AHEAD, ATTEMPTS, CRASHES

from tests.simulation.versions import roll

SEEDS = range(4)
"""`make simulate WORLDS=versions` draws new ones."""

Row = Mapping[str, AttributeValue]
REAL_AHEAD = lease_row._ahead


def ahead_whatever_the_checkpoint(
    item: Row, checkpoint: Checkpoint, start_at: datetime | None
) -> tuple[FinishedAhead | None, int | None]:
    text = str(item.get(AHEAD, {}).get("S", ""))
    number, _, sub = text.partition("@")[2].partition("/")[0].partition(":")
    if not number.isdecimal():
        return REAL_AHEAD(item, checkpoint, start_at)
    return read_ahead_text(text, Checkpoint(number, int(sub or 0)), None) or (None, None)


def attempts_whatever_the_checkpoint(item: Row, _: Checkpoint) -> tuple[int, AttemptedRecords | None]:
    count = str(item.get(ATTEMPTS, {}).get("S", "0")).partition("@")[0]
    return int(count), None


def crashes_whatever_the_checkpoint(item: Row, _: Checkpoint) -> int:
    return int(item.get(CRASHES, {}).get("N", 0))


@dataclass(frozen=True)
class Planted:
    where: object
    name: str
    by: object
    noticed_as: str
    seeds: tuple[int, ...]
    """At least one of them notices. A change of the code draws other worlds, and may need other seeds."""
    idle: bool = False
    lanes: bool | None = True


SKIPPED = r"which no handler has finished$|with unhandled records$|unhandled records"
BEFORE_ITS_TURN = rf"{SKIPPED}|though the checkpoint covers|after having finished those before"
PLANTED = {
    "finished ahead, wherever the row stands": Planted(
        lease_row, "_ahead", ahead_whatever_the_checkpoint, SKIPPED, (5, 6, 48)
    ),
    "quiet, whatever the checkpoint": Planted(
        Lease,
        "quiet_until",
        property(lambda lease: lease.quiet and lease.quiet.until),
        BEFORE_ITS_TURN,
        (154, 246),
        True,
        None,
    ),
    "crashes of another checkpoint": Planted(
        lease_row, "_crashes", crashes_whatever_the_checkpoint, r"crashed \d+ times, it is believed", (5, 7, 11)
    ),
    "attempts of another checkpoint": Planted(
        lease_row, "_attempts", attempts_whatever_the_checkpoint, r"was tried \d+ times, it is believed", (5, 6, 14)
    ),
}


def test_deployments_between_versions_lose_and_skip_nothing() -> None:
    broken = {seed: found for seed in SEEDS if (found := roll(seed).violation)}
    assert not broken, broken


def test_a_lease_is_handed_over_though_the_answer_to_its_acquire_was_lost() -> None:
    """A KCL 3 leader asked for it meanwhile and named the next owner in its row: the lease drained until it expired."""
    assert roll(286, lanes=True).violation is None


@pytest.mark.parametrize("name", PLANTED)
def test_simulation_notices_trust_in_a_stale_version(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    planted = PLANTED[name]
    monkeypatch.setattr(planted.where, planted.name, planted.by)
    world = partial(roll, idle=planted.idle, lanes=planted.lanes)
    found = next((found for seed in planted.seeds if (found := world(seed).violation)), None)
    assert found is not None, f"nothing noticed: {name}"
    assert re.search(planted.noticed_as, found), found
