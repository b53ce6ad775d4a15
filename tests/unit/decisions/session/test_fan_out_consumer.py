"""A consumer that is known by its name is found, waited for, or polled instead."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from sublet.decisions.session.fan_out_consumer import (
    CREATED_WITHIN,
    LOOKED_AT_EVERY,
    LOOKED_FOR_EVERY,
    UNSEEN,
    ConsumerLookup,
    ConsumerStanding,
    KnownConsumer,
    is_to_register,
    search,
)

NOW = datetime(2026, 1, 31, 8, tzinfo=UTC)
ARN = "arn:aws:kinesis:eu-west-1:123456789012:stream/orders/consumer/audit:1769846400"
JUST_BEFORE = timedelta(milliseconds=1)


def seen(standing: ConsumerStanding, at: datetime = NOW, before: KnownConsumer = UNSEEN) -> KnownConsumer:
    return before.seen(standing, ARN if standing in (ConsumerStanding.ACTIVE, ConsumerStanding.CREATING) else None, at)


def test_consumer_is_looked_up_first_and_used_while_active() -> None:
    assert search(UNSEEN, NOW) is ConsumerLookup.LOOK
    assert search(seen(ConsumerStanding.ACTIVE), NOW + timedelta(days=1)) is ConsumerLookup.USE


@pytest.mark.parametrize("standing", [ConsumerStanding.MISSING, ConsumerStanding.NO_ROOM])
def test_stream_without_a_consumer_is_polled_and_looked_up_once_a_minute(
    standing: ConsumerStanding,
) -> None:
    known = seen(standing)
    assert search(known, NOW + LOOKED_FOR_EVERY - JUST_BEFORE) is ConsumerLookup.POLL
    assert search(known, NOW + LOOKED_FOR_EVERY) is ConsumerLookup.LOOK


@pytest.mark.parametrize("standing", [ConsumerStanding.CREATING, ConsumerStanding.BUSY])
def test_consumer_being_created_is_waited_for_up_to_a_minute(standing: ConsumerStanding) -> None:
    known = seen(standing)
    assert search(known, NOW + LOOKED_AT_EVERY - JUST_BEFORE) is ConsumerLookup.WAIT
    assert search(known, NOW + LOOKED_AT_EVERY) is ConsumerLookup.LOOK
    still = seen(standing, NOW + CREATED_WITHIN, known)
    assert search(still, NOW + CREATED_WITHIN) is ConsumerLookup.POLL
    assert search(still, NOW + CREATED_WITHIN + LOOKED_FOR_EVERY) is ConsumerLookup.LOOK


def test_a_second_creation_is_waited_for_like_the_first() -> None:
    known = seen(ConsumerStanding.ACTIVE, NOW, seen(ConsumerStanding.CREATING, NOW - CREATED_WITHIN))
    assert search(seen(ConsumerStanding.CREATING, NOW, known.lost(ARN)), NOW) is ConsumerLookup.WAIT


def test_lost_consumer_is_looked_up_at_once_by_the_first_reader_to_notice() -> None:
    known = seen(ConsumerStanding.ACTIVE)
    assert search(known.lost(ARN), NOW) is ConsumerLookup.LOOK
    gone = seen(ConsumerStanding.MISSING, NOW, known.lost(ARN))
    assert gone.lost(ARN) == gone


@pytest.mark.parametrize(
    ("found", "before", "is_wanted"),
    [
        (ConsumerStanding.MISSING, UNSEEN, True),
        (ConsumerStanding.MISSING, seen(ConsumerStanding.NO_ROOM), True),
        (ConsumerStanding.MISSING, seen(ConsumerStanding.BUSY), True),
        (ConsumerStanding.MISSING, seen(ConsumerStanding.ACTIVE).lost(ARN), False),
        (ConsumerStanding.MISSING, seen(ConsumerStanding.MISSING, NOW, seen(ConsumerStanding.ACTIVE)), False),
        (ConsumerStanding.MISSING, seen(ConsumerStanding.CREATING), False),
        (ConsumerStanding.CREATING, UNSEEN, False),
        (ConsumerStanding.ACTIVE, UNSEEN, False),
    ],
)
def test_consumer_is_registered_only_if_it_has_never_existed(
    found: ConsumerStanding, before: KnownConsumer, is_wanted: bool
) -> None:
    assert is_to_register(found, before, may_register=True) is is_wanted
    assert not is_to_register(found, before, may_register=False)
