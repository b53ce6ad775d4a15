"""A child that a program which pulls is forked into: it has the objects, and neither their threads nor their leases."""

from __future__ import annotations

from typing import NoReturn

WHY = (
    "records are pulled by the process that this one was forked from, and it goes on with them; "
    "make a Consumer in this process to pull here"
)


RECORD_STAYS = (
    "a Record belongs to the process that pulled it, which alone can acknowledge it; "
    "send its data, or its user_record, and acknowledge it here"
)
CONSUMER_STAYS = "a Consumer belongs to the process that made it; make one in the other process"


class NotHere:
    """In a lock's place: that one may be held by a thread which is not there to let go of it."""

    def __enter__(self) -> NoReturn:
        raise RuntimeError(WHY)

    def __exit__(self, *_: object) -> None:
        """Never entered."""
