"""An operator's orders as they are stored."""

from __future__ import annotations

import json
import zlib
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sublet.errors import ControlUnreadable
from sublet.protocol.control import Control, Order, Pause, decode_control, encode_control
from sublet.testing.memory.clock import BEGINNING

MOMENTS = st.integers(0, 10**12).map(lambda millis: BEGINNING + timedelta(milliseconds=millis))
PAUSES = st.builds(Pause, st.sampled_from(Order), MOMENTS, st.text(), st.none() | MOMENTS)
CONTROLS = st.builds(Control, st.none() | PAUSES, st.dictionaries(st.text(), PAUSES, max_size=5), st.integers(0, 99))


@given(CONTROLS)
def test_control_round_trips(control: Control) -> None:
    assert decode_control(encode_control(control), control.round) == control


def test_control_of_a_later_version_is_unreadable() -> None:
    with pytest.raises(ControlUnreadable, match="has version 2"):
        decode_control(_compressed({"version": 2, "all": "different"}), 1)


@pytest.mark.parametrize(
    "written",
    [
        [],
        {"version": 1},
        {"version": 1, "application": None, "leases": []},
        {"version": 1, "application": {"order": "stop", "since": 0, "by": "", "until": None}, "leases": {}},
        {"version": 1, "application": {"order": "pause", "since": 10**20, "by": "", "until": None}, "leases": {}},
    ],
)
def test_damaged_control_is_unreadable(written: Any) -> None:
    with pytest.raises(ControlUnreadable, match="damaged"):
        decode_control(_compressed(written), 1)


def test_control_of_3000_shards_fits_an_item() -> None:
    """DynamoDB's items have 400 KB at most."""
    pause = Pause(Order.PAUSE, BEGINNING, "anna@desk")
    leases = {f"shardId-{number:012}": pause for number in range(3000)}
    assert len(encode_control(Control(leases=leases))) < 50_000


def _compressed(written: Any) -> bytes:
    return zlib.compress(json.dumps(written).encode())
