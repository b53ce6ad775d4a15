"""Each write follows its rule in docs/algorithm.md: what it changes, what it removes, and which rows refuse it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from sublet.protocol.checkpoint import LATEST, Checkpoint
from sublet.protocol.lease import Lease
from sublet.protocol.lease_row import encode_row
from sublet.protocol.lease_writes import (
    LeaseWrite,
    acquire,
    apply_to,
    checkpoint,
    delete,
    end,
    hand_over,
    heartbeat,
    late_checkpoint,
    pin,
    prepare,
    release,
    set_children,
)
from sublet.testing.simulation.write_rules import WriteRules

from tests.doubles.engine_world import moment

NOON = moment("2026-01-31T12:00")
AT = Lease("shardId-000000000000", Checkpoint("100", 2), 7, "app-lambda-0", holder="item/1", holder_counter=7)
AT_A_MOMENT = replace(AT, checkpoint=LATEST, start_at=NOON)
FREE = replace(AT, lease_owner=None, holder=None, holder_counter=None)
DRAINING = replace(AT, lease_owner="a-java-worker", checkpoint_owner="app-lambda-0")
FURTHER = Checkpoint("200", 1)
CHILDREN = frozenset({"shardId-000000000001"})


@pytest.mark.parametrize(
    ("met", "write"),
    [
        (AT, acquire(AT.fence, "app-lambda-1", "item/2", crashed=AT)),
        (AT, acquire(AT.fence, "app-lambda-0", "item/2")),
        (FREE, acquire(FREE.fence, "app-lambda-1", "item/2")),
        (AT, heartbeat(AT, attempts=2)),
        (replace(AT, crashes=2), heartbeat(replace(AT, crashes=2), caught_up_at=NOON)),
        (replace(AT, checkpoint=LATEST), pin(replace(AT, checkpoint=LATEST), NOON + timedelta(hours=1))),
        (AT, checkpoint(AT, FURTHER)),
        (AT_A_MOMENT, checkpoint(AT_A_MOMENT, FURTHER)),
        (AT, prepare(AT, FURTHER, b"state")),
        (AT, late_checkpoint(AT, FURTHER)),
        (AT_A_MOMENT, late_checkpoint(AT_A_MOMENT, FURTHER)),
        (AT, set_children(AT, CHILDREN)),
        (AT, end(AT)),
        (AT_A_MOMENT, end(AT_A_MOMENT)),
        (AT, release(AT, caught_up_at=NOON, crashes=1)),
        (replace(AT, crashes=2), release(replace(AT, crashes=2), caught_up_at=NOON)),
        (DRAINING, hand_over(DRAINING)),
        (AT, delete(AT)),
    ],
)
def test_each_write_keeps_its_rule(met: Lease, write: LeaseWrite) -> None:
    before = encode_row(met)
    after = apply_to(write, before)
    assert after is not None
    assert WriteRules().broken(write, before, after or None) is None
