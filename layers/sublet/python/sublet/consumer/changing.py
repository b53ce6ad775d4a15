"""Streams made, changed and deleted, each returning when Kinesis is done with it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from sublet.account import Account
from sublet.decisions.stream_changes import Wanted, changes, check_wanted
from sublet.errors import StreamNotFound, StreamUnavailable
from sublet.protocol.stream_info import ACTIVE, StreamInfo, StreamMode
from sublet.settings import DEFINITIONS

LOOKS_AGAIN = timedelta(seconds=1)
CHANGES_WITHIN = timedelta(minutes=30)
"""Kinesis takes half a minute for most of it, and longer the more shards are made."""


def create_stream(account: Account, stream: str, wanted: Wanted) -> None:
    DEFINITIONS["stream"].check(stream)
    check_wanted(wanted)
    is_provisioned = wanted.mode is StreamMode.PROVISIONED
    account.create(stream, 1 if wanted.shards is None and is_provisioned else wanted.shards)
    _wait_until(account, stream, _is_active)
    update_stream(account, stream, wanted)


def update_stream(account: Account, stream: str, wanted: Wanted) -> None:
    for change in changes(account.info(stream), wanted):
        account.change(stream, change)
        _wait_until(account, stream, _is_active)


def delete_stream(account: Account, stream: str) -> None:
    account.delete(stream)
    try:
        _wait_until(account, stream, lambda _: False)
    except StreamNotFound:
        return


def _is_active(info: StreamInfo) -> bool:
    return info.status == ACTIVE


def _wait_until(account: Account, stream: str, is_so: Callable[[StreamInfo], bool]) -> None:
    since = account.clock.steady()
    while not is_so(info := account.info(stream)):
        if account.clock.steady() - since > CHANGES_WITHIN:
            raise StreamUnavailable(f"stream {stream} is {info.status} for {CHANGES_WITHIN}; look at it")
        account.tasks.signal().wait(LOOKS_AGAIN)
