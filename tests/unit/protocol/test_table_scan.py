"""Which leases of a table belong to an application, if the table has leases of one stream and of several."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.lag_history import LagSeen
from sublet.protocol.lease import Lease
from sublet.protocol.lease_row import encode_row
from sublet.protocol.table_scan import scan_of

AT_8 = datetime(2026, 1, 31, 8, 0, tzinfo=UTC)
AT_9 = AT_8 + timedelta(hours=1)
OF_ONE = "shardId-000000000001"
OF_SEVERAL = "123456789012:orders:1700000000:shardId-000000000001"


@pytest.mark.parametrize(
    ("of_one", "of_several", "meant"),
    [
        ({"caught_up_at": AT_8}, {"caught_up_at": AT_9}, OF_SEVERAL),
        ({"caught_up_at": AT_9}, {"caught_up_at": AT_8}, OF_ONE),
        ({"caught_up_at": AT_8}, {"lag_history": (LagSeen(AT_9, None, None),)}, OF_SEVERAL),  # moved since
        ({"caught_up_at": AT_8, "lease_owner": "killed"}, {"caught_up_at": AT_9}, OF_SEVERAL),
        ({}, {"lease_owner": "java"}, OF_SEVERAL),
        ({"lease_owner": "java"}, {}, OF_ONE),
        ({}, {}, OF_ONE),
    ],
)
def test_scan_of_both_kinds_returns_the_leases_in_use(
    of_one: dict[str, Any], of_several: dict[str, Any], meant: str
) -> None:
    """As after a change from `stream` to `streams`: a command shows and moves the leases that the fleet holds."""
    both = Lease(OF_ONE, Checkpoint("50"), **of_one), Lease(OF_SEVERAL, Checkpoint("50"), **of_several)
    scan = scan_of([encode_row(lease) for lease in both], several=None)
    assert [lease.lease_key for lease in scan.leases] == [meant]
