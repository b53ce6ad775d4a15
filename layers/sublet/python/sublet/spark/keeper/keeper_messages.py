"""What a source's reader and its keeper say to each other: a line of JSON each way, question and answer.

{"ask": "held", "committed": OFFSET}     {"leases": [ROW, ...]}
{"ask": "rows", "of": [LEASE_KEY, ...]}  {"leases": [ROW, ...]}
{"ask": "planned", "end": OFFSET}        {"leases": []}
{"ask": "settle"}                        {"leases": []}
any                                      {"error": CLASS, "says": TEXT}
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from sublet import errors
from sublet.errors import LeaseKeeperGone, SettingsError, SubletError
from sublet.protocol.lease import Lease
from sublet.protocol.lease_row import decode_row, encode_row
from sublet.spark.plan.offsets import Offset, offset_from_json, offset_to_json


class Keeping(Protocol):
    """A keeper, or the way to one: see `keeper.Keeper`."""

    def held(self, committed: Offset) -> Mapping[str, Lease]: ...

    def rows(self, shard_ids: Sequence[str]) -> Mapping[str, Lease]: ...

    def planned(self, end: Offset) -> None: ...

    def settle(self) -> None: ...


def ask_held(committed: Offset) -> str:
    return json.dumps({"ask": "held", "committed": offset_to_json(committed)})


def ask_rows(shard_ids: Sequence[str]) -> str:
    return json.dumps({"ask": "rows", "of": list(shard_ids)})


def ask_planned(end: Offset) -> str:
    return json.dumps({"ask": "planned", "end": offset_to_json(end)})


def ask_settle() -> str:
    return json.dumps({"ask": "settle"})


def answer(keeper: Keeping, question: str) -> str:
    """The keeper's answer. What it refuses on purpose is an answer too."""
    try:
        return json.dumps({"leases": [_row(lease) for lease in _leases(keeper, json.loads(question))]})
    except SubletError as refusal:
        return json.dumps({"error": type(refusal).__name__, "says": str(refusal)})


def _leases(keeper: Keeping, question: Mapping[str, Any]) -> Iterable[Lease]:
    match question:
        case {"ask": "held", "committed": offset}:
            return keeper.held(offset_from_json(offset)).values()
        case {"ask": "rows", "of": list(keys)}:
            return keeper.rows(keys).values()
        case {"ask": "planned", "end": offset}:
            keeper.planned(offset_from_json(offset))
        case _:
            keeper.settle()
    return ()


def leases_in(answer: str) -> dict[str, Lease]:
    """The leases of an answer by key. Raises the error that it tells of."""
    said = json.loads(answer)
    if "error" in said:
        raise _error(said["error"], said["says"])
    decoded = (decode_row(row) for row in said["leases"])
    return {lease.lease_key: lease for lease in decoded if isinstance(lease, Lease)}


def _error(name: str, says: str) -> SubletError:
    kind = getattr(errors, name, SubletError)
    if kind is SettingsError:
        refusal = SettingsError("", None, "")
        refusal.args = (says,)
        return refusal
    error: SubletError = kind(says)
    return error


def _row(lease: Lease) -> Mapping[str, Any]:
    """Without what has bytes in it, and is the application's own."""
    return encode_row(replace(lease, pending_checkpoint=None, pending_checkpoint_state=None, other={}))


def gone(code: int | None) -> LeaseKeeperGone:
    return LeaseKeeperGone(
        f"the process that keeps the query's leases has ended (exit code {code}; its words are in the driver's log). The leases "
        "expire by themselves; start the query again"
    )
