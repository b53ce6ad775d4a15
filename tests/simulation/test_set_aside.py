"""Worlds in which many records are set aside and redriven. More of them: `make simulate WORLDS=set-aside`."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from sublet.aws.configuration_errors import REFUSED, refused
from sublet.aws.set_aside.s3_store import S3Destination
from sublet.operate.redrive import Redrive
from sublet.ports import KeptBatch, RemovalResult
from sublet.protocol.failure_document import SetAsideBatch

from tests.simulation.kept_aside import Kind
from tests.simulation.set_aside import set_aside

WORLDS = int(os.environ.get("SET_ASIDE_SEEDS", "10"))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_record_is_handled_or_set_aside_or_before_the_checkpoint() -> None:
    broken = {seed: found for seed in range(WORLDS) if (found := set_aside(seed).violation)}
    assert not broken, broken


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", [911368440, 911368461])
def test_a_redrive_may_still_be_in_a_long_call_when_the_faults_stop(seed: int) -> None:
    assert set_aside(seed).violation is None


def by_place_and_size(batch: SetAsideBatch) -> str:
    first = batch.records[0]
    told = (batch.shard_id, first.sequence_number, first.sub_sequence_number, len(batch.records))
    return hashlib.sha256(repr(told).encode()).hexdigest()


def removed_whatever_it_is(store: S3Destination, kept: KeptBatch) -> RemovalResult:
    try:
        store._client.delete_object(Bucket=store._bucket, Key=kept.name)
    except REFUSED as problem:
        refused("the bucket", problem)
    return RemovalResult.REMOVED


@dataclass(frozen=True)
class Planted:
    """`by` replaces `name` in `where`; a world of one of these seeds must notice it."""

    where: object
    name: str
    by: object
    kind: Kind
    seeds: Sequence[int]
    noticed_as: str


PLANTED = {
    "two batches are the same if they begin alike and are as large": Planted(
        SetAsideBatch,
        "identity",
        property(by_place_and_size),
        Kind.QUEUE,
        (7, 51, 14, 21),
        "a redrive has removed",
    ),
    "an object is removed whatever it is by now": Planted(
        S3Destination,
        "remove",
        removed_whatever_it_is,
        Kind.BUCKET,
        (4, 9, 10),
        "a redrive goes on beside another",
    ),
    "what waits in a queue is not hidden any longer": Planted(
        Redrive,
        "_hold",
        lambda _: None,
        Kind.QUEUE,
        (6, 9, 10),
        "a redrive has received",
    ),
}


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", PLANTED)
def test_simulation_notices_a_planted_fault_of_setting_aside(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    planted = PLANTED[name]
    monkeypatch.setattr(planted.where, planted.name, planted.by)
    worlds = (set_aside(seed, kind=planted.kind).violation for seed in planted.seeds)
    found = next(filter(None, worlds), None)
    assert found is not None, f"nothing noticed in worlds {planted.seeds}"
    assert planted.noticed_as in found
