"""What a handler's return value means by the rules of Lambda's event source mapping (ReportBatchItemFailures).

https://docs.aws.amazon.com/lambda/latest/dg/services-kinesis-batchfailurereporting.html
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import NamedTuple

from sublet.errors import HandlerContractBroken
from sublet.protocol.records import UserRecord

FAILURES = "batchItemFailures"
IDENTIFIER = "itemIdentifier"


class FirstFailure(NamedTuple):
    """`first`: the index in the batch of the first failed record. All before it are done; it and all after it are
    not.
    """

    first: int
    why: str


def check_sendable(returned: object) -> None:
    """Raise HandlerContractBroken for a value that Lambda's runtime could not send as JSON: there the invocation fails
    (Runtime.MarshalError), and its batch is retried.

    https://github.com/aws/aws-lambda-python-runtime-interface-client, awslambdaric/lambda_runtime_marshaller.py
    """
    try:
        json.dumps(returned, default=_number)
    except (TypeError, ValueError, RecursionError) as problem:
        raise HandlerContractBroken(
            f"the handler returned a value of type {type(returned).__name__} that is not JSON, so that Lambda fails "
            f"the invocation: return None, or a dict with {FAILURES}"
        ) from problem


def _number(value: object) -> float:
    """Decimal is the only non-JSON type that Lambda's runtime sends."""
    if isinstance(value, Decimal):
        return float(value)
    raise TypeError(f"{type(value).__name__} is not JSON")


def failed(returned: object, records: Sequence[UserRecord]) -> FirstFailure | None:
    """None: all records are done, because no failures are reported, or because a Lambda handler may return this value.

    With several failures the lowest counts. If one names no record of the batch, all of it failed. A sequence number
    names the first user record of its aggregate in the batch; with `:<sub-sequence number>`, that very record.
    """
    if not isinstance(returned, Mapping):
        is_elsewhere = hasattr(returned, FAILURES) or (isinstance(returned, str) and FAILURES in returned)
        in_what = f"{FAILURES} is in a value of type {type(returned).__name__}, not in a dict"
        return FirstFailure(0, f"{in_what}, so that the whole batch counts as failed") if is_elsewhere else None
    reported = returned.get(FAILURES)
    if reported is None:
        return None
    if not isinstance(reported, list | tuple):
        return FirstFailure(0, f"{FAILURES} is not a list, so that the whole batch counts as failed")
    if not reported:
        return None
    places = _places(records)
    known = [_place(item, places) for item in reported]
    if None in known:
        unknown = f"entry {known.index(None)} of {FAILURES} names no record of the batch"
        return FirstFailure(0, f"{unknown} as its {IDENTIFIER}, so that all of it counts as failed")
    first = min(place for place in known if place is not None)
    return FirstFailure(
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
