"""Reads rows and offsets as JSON, by this version's own code, and prints what it believes of each row, and each row and
offset as this version would write it again."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

from sublet.protocol.lease import Lease
from sublet.protocol.lease_row import decode_row, encode_row

try:  # 0.2's names
    from sublet.spark.plan.offsets_of_several import (  # type: ignore[import-not-found]
        any_offset_from_json as offset_from_json,
    )
    from sublet.spark.plan.offsets_of_several import any_offset_to_json as offset_to_json
except ImportError:
    from sublet.spark.plan.offsets import offset_from_json, offset_to_json

BELIEVED = (
    *(
        "checkpoint",
        "lease_owner",
        "lease_counter",
        "held_by",
        "is_ended",
        "start_at",
        "caught_up_at",
        "crashes",
    ),
    *("attempts", "tried", "quiet_until", "finished_ahead"),
)


def main() -> None:
    given = json.load(sys.stdin)
    rows = {name: again(row) for name, row in given["rows"].items()}
    offsets = {name: offset_to_json(offset_from_json(one)) for name, one in given["offsets"].items()}
    means = {name: meaning(row) for name, row in given["rows"].items()}
    print(json.dumps({"rows": rows, "offsets": offsets, "means": means}))


def meaning(row: dict[str, Any]) -> dict[str, str]:
    """What an owner believes of the row: an attribute under another name is kept, and believed no more."""
    lease = decode_row(row)
    assert isinstance(lease, Lease), lease
    return {name: re.sub(r"\b[A-Z]\w*\(", "(", repr(getattr(lease, name))) for name in BELIEVED}


def again(row: dict[str, Any]) -> dict[str, Any]:
    lease = decode_row(row)
    assert isinstance(lease, Lease), lease
    return {
        name: {kind: sorted(value) if kind == "SS" else value for kind, value in attribute.items()}
        for name, attribute in encode_row(lease).items()
    }


if __name__ == "__main__":
    main()
