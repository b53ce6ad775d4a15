"""A worker item as JSON: from an execution's input through its Map to a lease worker, and back to the Choice state.

Parsing is strict, since the event may come from anywhere: an EventError names the field, its value, and what was
expected. Unknown fields are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sublet.decisions.manager.choose_leases import ClaimReason
from sublet.decisions.manager.packing import LeaseClaim, WorkerItem
from sublet.errors import EventError


def item_to_json(item: WorkerItem) -> dict[str, Any]:
    return {
        "item_id": item.item_id,
        "worker_id": item.worker_id,
        "claims": [
            {
                "lease_key": claim.lease_key,
                "lease_owner": claim.lease_owner,
                "lease_counter": claim.lease_counter,
                "why": claim.why.value,
            }
            for claim in item.claims
        ],
        "windows_left": item.windows_left,
        **({} if item.dispatched_at is None else {"dispatched_at": item.dispatched_at.isoformat()}),
        **({} if item.leases_max is None else {"leases_max": item.leases_max}),
        **({} if item.auto_seen_at is None else {"auto_seen_at": item.auto_seen_at.isoformat()}),
    }


def item_from_json(event: object) -> WorkerItem:
    """The worker item in a lease worker's event. Raises EventError."""
    fields = _object(event, "(whole event)")
    claims = _field(fields, "claims", "claims")
    if not isinstance(claims, list):
        raise EventError("claims", claims, "a list of claims")
    return WorkerItem(
        item_id=_text(fields, "item_id"),
        worker_id=_text(fields, "worker_id"),
        claims=tuple(_claim(claim, f"claims[{index}]") for index, claim in enumerate(claims)),
        windows_left=_whole(fields, "windows_left"),
        dispatched_at=_moment(fields, "dispatched_at"),
        leases_max=None if fields.get("leases_max") is None else _whole(fields, "leases_max"),
        auto_seen_at=_moment(fields, "auto_seen_at"),
    )


def _claim(value: object, at: str) -> LeaseClaim:
    fields = _object(value, at)
    owner = _field(fields, "lease_owner", f"{at}.lease_owner")
    if owner is not None and not isinstance(owner, str):
        raise EventError(f"{at}.lease_owner", owner, "a worker id, or null for no owner")
    why = _field(fields, "why", f"{at}.why")
    if why not in list(ClaimReason):
        raise EventError(f"{at}.why", why, f"one of {', '.join(ClaimReason)}")
    return LeaseClaim(
        lease_key=_text(fields, "lease_key", at),
        lease_owner=owner,
        lease_counter=_whole(fields, "lease_counter", at),
        why=ClaimReason(why),
    )


def _moment(fields: Mapping[str, Any], name: str) -> datetime | None:
    """None in an item of an earlier version, which may be under way while this one is deployed."""
    value = fields.get(name)
    if value is None:
        return None
    try:
        at = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        at = None
    if at is None or at.tzinfo is None:
        raise EventError(name, value, "an ISO 8601 time with its offset, or null")
    return at


def _object(value: object, at: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise EventError(at, value, "a JSON object")
    return value


def _field(fields: Mapping[str, Any], name: str, at: str) -> Any:
    if name not in fields:
        raise EventError(at, None, "to be there")
    return fields[name]


def _text(fields: Mapping[str, Any], name: str, within: str = "") -> str:
    at = f"{within}.{name}" if within else name
    value = _field(fields, name, at)
    if not isinstance(value, str) or not value:
        raise EventError(at, value, "non-empty text")
    return value


def _whole(fields: Mapping[str, Any], name: str, within: str = "") -> int:
    at = f"{within}.{name}" if within else name
    value = _field(fields, name, at)
    if type(value) is not int or value < 0:
        raise EventError(at, value, "a whole number, at least 0")
    return value
