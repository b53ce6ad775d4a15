"""The input of each worker Lambda. `choices` in given: the chosen leases, each with its worker id."""

from sublet.decisions.manager.choose_leases import ClaimReason, LeaseChoice
from sublet.decisions.manager.packing import pack
from sublet.protocol.checkpoint import TRIM_HORIZON
from sublet.protocol.lease import Lease

from tests.scenarios.story import InOrder, Story, settings


def test_packing(story: Story) -> None:
    given = story.given
    choices = [
        LeaseChoice(Lease(key, TRIM_HORIZON, lease_counter=7), worker_id, ClaimReason.FREE)
        for key, worker_id in given["choices"]
    ]
    items = pack(choices, settings(given), InOrder())
    story.check(
        [
            {
                "item_id": item.item_id,
                "worker_id": item.worker_id,
                "windows_left": item.windows_left,
                "claims": [claim.lease_key for claim in item.claims],
            }
            for item in items
        ]
    )
