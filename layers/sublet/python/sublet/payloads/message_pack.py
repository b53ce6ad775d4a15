"""MessagePack, by msgspec."""

from __future__ import annotations

from typing import Any

import msgspec

from sublet.errors import PayloadUnreadable


def read_message_pack(data: bytes) -> Any:
    """Raises PayloadUnreadable."""
    try:
        return msgspec.msgpack.decode(data)
    except RecursionError:
        raise PayloadUnreadable("not MessagePack that can be read: nested too deeply") from None
    except (msgspec.DecodeError, TypeError, ValueError, OverflowError) as fault:
        raise PayloadUnreadable(f"not MessagePack: {fault}") from None
