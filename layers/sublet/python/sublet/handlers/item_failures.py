"""What a handler's return says by the rules of Lambda's event source mapping (ReportBatchItemFailures).

https://docs.aws.amazon.com/lambda/latest/dg/services-kinesis-batchfailurereporting.html
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sublet.protocol.records import UserRecord

FAILURES = "batchItemFailures"
IDENTIFIER = "itemIdentifier"


class Failed(NamedTuple):
    """`first`: the place in the batch of the first record that is not done. All before it are; all from it on are not."""

    first: int
    why: str


def failed(returned: object, records: Sequence[UserRecord]) -> Failed | None:
    """None: all is done. So it is with no failures, and with whatever else a handler of Lambda's may return.

    Several failures count from the lowest on. One that names no record of the batch leaves nothing certain: all failed.
    A sequence number names its aggregate's first user record in the batch; with `:<sub-sequence number>`, that one.
    """
    reported = returned.get(FAILURES) if isinstance(returned, Mapping) else None
    if reported is None:
        return None
    if not isinstance(reported, list | tuple):
        return Failed(0, f"{FAILURES} is no list, so that the whole batch counts as failed")
    if not reported:
        return None
    places = _places(records)
    known = [_place(item, places) for item in reported]
    if None in known:
        unknown = f"entry {known.index(None)} of {FAILURES} names no record of the batch"
        return Failed(0, f"{unknown} as its {IDENTIFIER}, so that all of it counts as failed")
    first = min(place for place in known if place is not None)
    return Failed(
        first,
        f"{len(reported)} of {len(records)} records failed, the first of them {records[first].checkpoint}",
    )


def _place(item: object, places: Mapping[str, int]) -> int | None:
    named = item.get(IDENTIFIER) if isinstance(item, Mapping) else None
    return places.get(named) if isinstance(named, str) else None


def _places(records: Sequence[UserRecord]) -> dict[str, int]:
    places: dict[str, int] = {}
    for place, record in enumerate(records):
        number = record.sequence_number
        places.setdefault(number, place)
        places[f"{number}:{record.sub_sequence_number}"] = place
    return places
