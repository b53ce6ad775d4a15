"""The texts in which `sublet redrive` reports its result."""

from __future__ import annotations

import pytest
from sublet.operate.redrive import RedriveProgress
from sublet.operate.redrive_text import note, said
from sublet.settings import HandlerContract


@pytest.mark.parametrize(
    ("done", "words"),
    [
        (RedriveProgress(failed=3), "; 3 batches failed again and stay"),
        (RedriveProgress(foreign=2), "; 2 belong to other applications or cannot be read, and stay"),
        (RedriveProgress(changed=1), "; 1 are handled, but stay, since they were set aside again"),
        (RedriveProgress(hidden=4), "; about 4 more are hidden"),
        (
            RedriveProgress(batches=5, missed=5),
            "; about 5 that were counted never came: another consumer or a dead-letter queue",
        ),
        (RedriveProgress(is_shared=True), "; another redrive is removing the same batches"),
        (
            RedriveProgress(failed=20, held_back=("orders.shardId-1", "orders.shardId-2"), behind=7),
            "; about 7 batches behind the ten that stay of orders.shardId-1, orders.shardId-2 could not be received",
        ),
        (RedriveProgress(failed=10, held_back=("orders.shardId-1",)), "; what may be behind the ten that stay of"),
    ],
)
def test_redrive_tells_what_stays_with_its_reason(done: RedriveProgress, words: str) -> None:
    text = said(done, dry_run=False)
    assert text.startswith("0 records in 0 batches handled and removed; ")
    assert words in text


def test_redrive_prints_one_line_when_nothing_stays() -> None:
    done = RedriveProgress(batches=2, records_done=5, done=2)
    assert said(done, dry_run=False) == "5 records in 2 batches handled and removed"
    assert said(done, dry_run=True) == "5 records in 2 batches would be handed over"


@pytest.mark.parametrize("contract", HandlerContract)
def test_redrive_note_tells_how_each_contract_sees_it(contract: HandlerContract) -> None:
    assert "is_redrive" in note(contract)
