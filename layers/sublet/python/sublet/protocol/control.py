"""Control: what an operator has ordered for an application's leases. One item beside the sightings."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from sublet.errors import ControlUnreadable

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
VERSION = 1


class Order(StrEnum):
    """Why no worker may hold a lease. A worker obeys all orders in the same way: it checkpoints, releases the lease,
    and does not take it again.
    """

    PAUSE = "pause"
    DRAIN = "drain"
    """The operator waits until everything is released, before a deployment."""
    RELEASE = "release"
    """The order lasts only until the owner has released the lease: the command then withdraws it."""


class Pause(Struct, frozen=True):
    """
    since  UTC
    by     who gave the order, as people write it
    until  when it ends by itself, UTC; None: not before `sublet resume`
    """

    order: Order
    since: datetime
    by: str
    until: datetime | None = None


class Control(Struct, frozen=True):
    """
    application  the pause of all shards, those that begin later included
    leases       by lease key, the pauses of single shards
    round        how often the control has been replaced: a command replaces only what it has read
    """

    application: Pause | None = None
    leases: Mapping[str, Pause] = MappingProxyType({})
    round: int = 0


NO_CONTROL = Control()


def encode_control(control: Control) -> bytes:
    """The control as compressed JSON, without `round`, which the store keeps beside it. Times are epoch
    milliseconds.
    """
    text = json.dumps(
        {
            "version": VERSION,
            "application": None if control.application is None else _written(control.application),
            "leases": {key: _written(pause) for key, pause in sorted(control.leases.items())},
        }
    )
    return zlib.compress(text.encode())


def decode_control(data: bytes, stored_round: int) -> Control:
    """Raises ControlUnreadable, which says what is wrong."""
    try:
        read = json.loads(zlib.decompress(data))
        _check_version(read["version"])
        whole = read["application"]
        leases = {str(key): _read(pause) for key, pause in read["leases"].items()}
        return Control(None if whole is None else _read(whole), leases, stored_round)
    except ControlUnreadable:
        raise
    except Exception as problem:  # noqa: BLE001 - anyone may have written the item, with anything in it
        raise ControlUnreadable(
            f"the application's control item is damaged ({type(problem).__name__}: {problem}); "
            "`sublet resume --force` replaces it"
        ) from None


def _check_version(version: object) -> None:
    if version != VERSION:
        raise ControlUnreadable(
            f"the control item has version {version!r}, and this sublet reads {VERSION}: use the sublet that wrote it"
        )


def _written(pause: Pause) -> dict[str, Any]:
    until = None if pause.until is None else _millis(pause.until)
    return {"order": pause.order.value, "since": _millis(pause.since), "by": pause.by, "until": until}


def _read(pause: Mapping[str, Any]) -> Pause:
    until = pause["until"]
    return Pause(
        Order(pause["order"]),
        _moment(pause["since"]),
        str(pause["by"]),
        None if until is None else _moment(until),
    )


def _millis(moment: datetime) -> int:
    return (moment - _EPOCH) // _MILLISECOND


def _moment(millis: int) -> datetime:
    return _EPOCH + int(millis) * _MILLISECOND
